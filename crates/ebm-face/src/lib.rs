//! Age and head pose of a face (Sections 4.3 and 4.4; supplement, Age Estimation and Head-Pose Estimation).
//!
//! A program that uses trained networks begins with [`AgeEstimator`] or [`HeadPoseEstimator`].
//!
//! | in the paper | item |
//! |---|---|
//! | ResNet50, its features g_x | [`ResNetBackbone`]; from a weight file by [`preload_backbone`] |
//! | f(x, y) from g_x and y | [`EnergyHead`] |
//! | Direct, Gaussian, Laplace, Softmax (Tables 4 and 5) | [`BaselineHead`] with an [`ebm_core::parametric::Baseline`] |
//! | training, end to end or on features that are computed once | [`training`], [`features`] |
//! | Algorithm S2 from each baseline's estimate, MAE | [`evaluation`] |
//! | Tables 4, 5, S1 and S3 | [`reproduce`] |
//!
//! Both tasks use the same networks. y is the age (D = 1) or yaw, pitch and roll (D = 3).
//!
//! Any [`Backbone`] can replace ResNet-50. A [`BackboneConfig`] chooses the backbone and [`preload_backbone`] loads its
//! weights:
//!
//! | `kind` | network | g_x | images | names | trained |
//! |---|---|---|---|---|---|
//! | `resnet` | [`ResNetBackbone`] | mean of the last map | any | torchvision's | yes |
//! | `convnext` | `ConvNeXt`, of `candle_transformers` | normalised mean of the last map | multiples of 32 from 64 | timm's | yes |
//! | `mobilefacenet` | [`MobileFaceNetBackbone`] | mean of the last map | any | MXNet's | yes, or its last blocks |
//!
//! `ConvNeXt` needs the feature `transformers`, which is on by default.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod backbone;
mod baseline_head;
pub mod biwi;
pub mod config;
mod energy_head;
pub mod evaluation;
pub mod features;
pub mod network;
pub mod prediction;
pub mod reproduce;
pub mod saved;
pub mod training;

#[cfg(feature = "transformers")]
pub use backbone::ConvNeXt;
pub use backbone::{
    Backbone, BackboneConfig, ConvNeXtConfig, ConvNeXtSize, MobileFaceNetBackbone, MobileFaceNetConfig,
    ResNetBackbone, ResNetBackboneConfig, preload_backbone,
};
pub use baseline_head::BaselineHead;
pub use ebm_experiment::{Error, Result};
pub use energy_head::{EnergyHead, EnergyHeadConfig};
pub use prediction::{AgeEstimator, Estimate, HeadPoseEstimator};
