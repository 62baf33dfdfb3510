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

/// Its examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
