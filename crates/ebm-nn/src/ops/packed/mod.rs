//! Products with a matrix that is packed once: f32, on the CPU, the instruction set chosen at run time by `pulp`.
//!
//! | file | what |
//! |---|---|
//! | `tile` | the innermost loops, in registers |
//! | `panels` | the packed matrix, in the order in which a tile reads it |
//! | `product` | the product, cut into tasks, with bias, residual and ReLU while a tile is at hand |
//! | `workspace` | buffers that are used again |

mod panels;
mod product;
mod tile;
mod workspace;

pub(super) use panels::Panels;
pub(super) use product::{Block, Epilogue, product, product_here, push_blocks};
pub(super) use tile::{Rows, Sums, most_rows, multiply};
pub use workspace::Workspace;
pub(super) use workspace::{line_start, room};
