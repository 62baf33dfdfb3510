//! Products with a matrix that is packed once, f32, on the CPU, with the instruction set chosen at run time by `pulp`.
//!
//! | file | contents |
//! |---|---|
//! | `tile` | innermost loops, in registers |
//! | `prefetch` | prefetches from memory in these loops |
//! | `outer` | innermost loops for sums over the rows of both operands |
//! | `pairs` | innermost loops of numbers in bf16 |
//! | `panels` | the packed matrix, in the order in which a tile reads it |
//! | `dense` | product of matrices whose rows lie end to end, of any depth |
//! | `product` | product, cut into tasks, with bias, residual and activation while a tile is in the cache |
//! | `workspace` | buffers that are used again |

mod dense;
mod outer;
mod pairs;
mod panels;
mod prefetch;
mod product;
mod tile;
mod workspace;

pub use dense::{Left, Output, Right, Sizes, dense};
pub(super) use outer::{Segment, accumulate};
pub(super) use pairs::{halves, pair, round};
pub use panels::Panels;
pub(super) use panels::panel_width;
pub use product::Epilogue;
pub(super) use product::{Strided, finish, product, product_here, tile, tiles};
pub(super) use tile::{MOST_ROWS, Rows, Sums, VECTORS, multiply};
pub use workspace::Workspace;
pub(super) use workspace::{line_start, room};
