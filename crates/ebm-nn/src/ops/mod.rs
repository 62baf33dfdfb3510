//! Operations whose gradients are tested against central differences.
//!
//! One folder or file per operation. candle's own are not used where `docs/candle.md` shows them wrong.

#[cfg(feature = "cuda")]
pub(crate) mod channel_sums;
mod conv2d;
mod depthwise;
mod float;
mod gemm;
mod graph;
mod inverted;
pub(crate) mod kernel;
mod late_fusion;
mod layout;
mod linear;
mod max_pool;
mod packed;
mod prelu;
pub mod prroi_pool;
mod relu;
mod roi;
mod roi_align;
pub(crate) mod rows;
mod simd;
pub(crate) mod storage;
mod sum_of_losses;
mod sum_taps;
#[cfg(test)]
pub(crate) mod testing;
mod upsample;
pub(crate) mod widened;

pub(crate) use conv2d::{PackedConv2d, conv2d_layer, in_order};
pub use conv2d::{conv2d, conv2d_channels_last};
pub(crate) use depthwise::{PackedDepthwise, depthwise_layer};
pub use depthwise::{Padding, depthwise_conv2d_channels_last};
pub use float::Float;
pub use graph::backward;
pub(crate) use inverted::{PackedInverted, Parameters};
pub use late_fusion::LateFusion;
pub use layout::{ChannelsLast, channels_first, channels_last, of_channels_last, to_channels_last};
pub use linear::{PackedLinear, linear, linear_at, linear_at_gradient, linear_relu, linear_weight_gradient};
pub use max_pool::{max_pool2d, max_pool2d_channels_last};
pub use packed::Workspace;
pub use prelu::prelu;
pub(crate) use prelu::{prelu_in_place, where_positive};
pub use prroi_pool::prroi_pool;
pub(crate) use relu::{Activation, between, where_between};
pub use relu::{add_relu, relu, relu_gradient, relu6};
pub use roi_align::roi_align;
pub use simd::{InstructionSets, arch, instruction_sets};
pub use storage::elements;
pub use sum_of_losses::sum_of_losses;
pub use sum_taps::{spread_taps, sum_taps};
pub use upsample::upsample_nearest2d;
pub(crate) use upsample::upsample_nearest2d_channels_last;
