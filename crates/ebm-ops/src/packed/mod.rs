//! Products with a matrix that is packed once: f32, on the CPU, the instruction set chosen at run time by
//! `pulp`.
//!
//! | file | what |
//! |---|---|
//! | `tile` | the innermost loops, in registers |
//! | `ahead` | what these fetch from memory meanwhile |
//! | `outer` | the same for sums over the rows of both operands |
//! | `pairs` | the same as `tile` of numbers in bf16 |
//! | `panels` | the packed matrix, in the order in which a tile reads it |
//! | `dense` | the product of matrices whose rows lie end to end, of any depth |
//! | `product` | the product, cut into tasks, with bias, residual and activation while a tile is at hand |
//! | `workspace` | buffers that are used again |

mod ahead;
mod dense;
mod outer;
mod pairs;
mod panels;
mod product;
mod tile;
mod workspace;

pub(super) use dense::{Left, Output, Right, Sizes, dense};
pub(super) use outer::{Segment, accumulate};
pub(super) use pairs::{halves, pair, round};
pub(super) use panels::{Panels, panel_width};
pub(super) use product::{Epilogue, Strided, finish, product, product_here, tile, tiles};
pub(super) use tile::{MOST_ROWS, Rows, Sums, VECTORS, multiply};
pub use workspace::Workspace;
pub(super) use workspace::{line_start, room};
