//! Image networks on candle tensors, of the operations of [`ebm_ops`].
//!
//! | module | what it holds |
//! |---|---|
//! | [`resnet`], [`efficientnet`], [`mobilefacenet`], [`shufflenet`], [`fpn`] | backbones |
//! | [`params`], [`init`], [`import`] | parameters by torchvision's names: drawn, saved, loaded |
//! | [`onnx`] | networks as files for other runtimes |
//! | [`schedule`] | learning rates |

pub mod efficientnet;
pub mod fpn;
pub mod import;
pub mod init;
pub mod mobilefacenet;
pub mod onnx;
pub mod params;
pub mod resnet;
pub mod schedule;
pub mod shufflenet;

pub use ebm_ops::{Error, Result};
pub use ebm_ops::{boxes, device, nn as layers, nn as norm, nn as prepared, optim};

/// The operations of [`ebm_ops`] by other names.
pub mod ops {
    pub use ebm_ops::heads::*;
    pub use ebm_ops::nhwc::{
        ChannelsLast, channels_last, conv2d as conv2d_channels_last,
        depthwise_conv2d as depthwise_conv2d_channels_last, from_nchw as to_channels_last,
        max_pool2d as max_pool2d_channels_last, to_nchw as of_channels_last,
        upsample_nearest2d as upsample_nearest2d_channels_last,
    };
    pub use ebm_ops::nn::PackedLinear;
    pub use ebm_ops::roi::{prroi_pool, roi_align};
    pub use ebm_ops::*;

    /// Pooling from several maps.
    pub mod prroi_pool {
        pub use ebm_ops::roi::{Levels, Pyramid};
    }
}

/// Its examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
