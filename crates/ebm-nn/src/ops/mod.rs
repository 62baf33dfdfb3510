//! Operations whose gradients are tested against central differences.
//!
//! One folder or file per operation. candle's own are not used where `docs/candle.md` shows them wrong.

mod conv2d;
#[cfg(feature = "cuda")]
pub(crate) mod cuda;
mod gemm;
mod late_fusion;
mod linear;
mod max_pool;
mod max_pool_channels_last;
mod packed;
pub mod prroi_pool;
mod roi;
mod roi_align;
pub(crate) mod storage;
mod sum_taps;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod upsample;
pub(crate) mod widened;

pub(crate) use conv2d::conv2d_layer;
pub use conv2d::{PackedConv2d, conv2d, conv2d_channels_last};
pub use late_fusion::{LateFusion, PackedLateFusion};
pub use linear::{PackedLinear, linear, linear_relu, linear_weight_gradient};
pub use max_pool::max_pool2d;
pub use max_pool_channels_last::max_pool2d_channels_last;
pub use packed::Workspace;
pub use prroi_pool::{prroi_pool, prroi_pool_box_gradient};
pub use roi::{ChannelsLast, channels_first, channels_last};
pub use roi_align::roi_align;
pub use storage::elements;
pub use sum_taps::{spread_taps, sum_taps};
pub use upsample::upsample_nearest2d;
