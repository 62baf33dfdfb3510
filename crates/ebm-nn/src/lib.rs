//! Image networks and operations on candle tensors.
//!
//! | module | what it holds |
//! |---|---|
//! | [`ops`] | convolution, pooling, PrRoIPool, RoIAlign, up-sampling: each with a tested gradient |
//! | [`device`] | which device to compute on, and what is there |
//! | [`boxes`] | axis-aligned boxes: area, IoU, clipping, NMS |
//! | [`params`], [`init`], [`import`] | parameters by torchvision's names: drawn, saved, loaded |
//! | [`layers`], [`norm`], [`resnet`], [`efficientnet`], [`mobilefacenet`], [`shufflenet`], [`fpn`] | backbones |
//! | [`onnx`] | networks as files for other runtimes |
//! | [`prepared`] | what layers make of constant parameters once |
//! | [`optim`], [`schedule`] | SGD, Adam, learning rates |

pub mod boxes;
#[cfg(feature = "cuda")]
mod cuda;
pub mod device;
pub mod efficientnet;
mod error;
pub mod fpn;
pub mod import;
pub mod init;
pub mod layers;
pub mod mobilefacenet;
pub mod norm;
pub mod onnx;
pub mod ops;
pub mod optim;
pub mod params;
pub mod prepared;
pub mod resnet;
pub mod schedule;
pub mod shufflenet;

pub use error::{Error, Result};

/// Its examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
