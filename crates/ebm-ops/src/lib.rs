//! Fast, tested operations for candle on CPUs and NVIDIA's GPUs.
//!
//! | module | contents |
//! |---|---|
//! | this one | [`conv2d()`] of maps (N, C, H, W), as candle has it, activations and linear layers |
//! | [`nhwc`] | convolution, pooling and up-sampling with the channels innermost, (N, H, W, C), and conversions of the order |
//! | [`roi`] | PrRoIPool and RoIAlign, of one map and of several |
//! | [`nn`] | layers with named parameters, which pack constant parameters |
//! | [`heads`] | products of networks that join features of x with features of y |
//! | [`optim`] | SGD and Adam, with torch's arithmetic |
//! | [`boxes`] | axis-aligned boxes: area, IoU, clipping, non-maximum suppression |
//! | [`device`] | choice and opening of the device to compute on |
//!
//! Gradients are tested against central differences, and values against PyTorch's. On the CPU kernels are compiled for AVX2
//! and AVX-512, and the best ones are chosen when the program runs ([`instruction_sets`]). The crate avoids the operations of
//! candle that `docs/candle.md` shows to be wrong.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod bf16;
pub mod boxes;
#[cfg(feature = "cuda")]
mod channel_sums;
mod conv2d;
#[cfg(feature = "cuda")]
mod cuda;
mod depthwise;
pub mod device;
mod elementary;
mod error;
mod float;
mod gemm;
mod graph;
mod inverted;
mod kernel;
mod late_fusion;
mod layout;
mod linear;
mod max_pool;
pub mod nn;
pub mod optim;
mod packed;
mod prelu;
mod relu;
pub mod roi;
mod rows;
mod silu;
mod simd;
mod storage;
mod student_fusion;
mod sum_of_losses;
mod sum_taps;
mod upsample;
#[cfg(test)]
extern crate self as ebm_ops;
#[cfg(test)]
#[path = "../tests/common/older_processor.rs"]
mod older_processor;
#[cfg(test)]
#[path = "../tests/common/differences.rs"]
mod tests;

pub use conv2d::conv2d;
pub(crate) use conv2d::{PackedConv2d, conv2d_layer, in_order};
pub use depthwise::Padding;
pub(crate) use depthwise::{PackedDepthwise, depthwise_layer};
pub use error::{Error, Result};
pub use float::Float;
pub use graph::backward;
pub(crate) use inverted::{PackedInverted, Parameters};
pub use linear::{linear, linear_relu};
pub use packed::Workspace;
pub use prelu::prelu;
pub(crate) use prelu::{prelu_in_place, where_positive};
pub use relu::{Activation, relu, relu_gradient};
pub(crate) use relu::{between, where_between};
pub use silu::silu;
pub use simd::{InstructionSets, arch, instruction_sets};
pub use storage::elements;
pub use sum_of_losses::sum_of_losses;

/// Operations on maps with the channels innermost, (N, H, W, C), the order in which products run.
pub mod nhwc {
    pub use crate::conv2d::conv2d_channels_last as conv2d;
    pub use crate::depthwise::depthwise_conv2d_channels_last as depthwise_conv2d;
    pub use crate::layout::{ChannelsLast, channels_last};
    pub use crate::layout::{of_channels_last as to_nchw, to_channels_last as from_nchw};
    pub use crate::max_pool::max_pool2d;
    pub use crate::upsample::upsample_nearest2d;
}

/// Products of networks that join features of x with features of y, for many y for each x.
pub mod heads {
    pub use crate::late_fusion::LateFusion;
    pub use crate::linear::{linear_at, linear_at_gradient, linear_weight_gradient};
    pub use crate::student_fusion::StudentFusion;
    pub use crate::sum_taps::{spread_taps, sum_taps};
}

/// Parts without a public face, for the tests in `tests/operations`.
#[doc(hidden)]
pub mod internals {
    pub use crate::conv2d::PackedConv2d;
    pub use crate::inverted::{PackedInverted, Parameters};
    pub use crate::nn::norm::{NormEpilogue, rows::fused};
    pub use crate::packed::{Epilogue, Left, Output, Panels, Right, Sizes, dense};
    pub use crate::prelu::prelu_in_place;
}
