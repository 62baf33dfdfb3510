//! Settings of the detector's network and its inference.

use candle_core::DType;
use ebm_data::transform::{ChannelOrder, Resample};
use ebm_experiment::config::{Setting, settings_table};
use ebm_nn::resnet::{Norm, ResNetConfig};
use ebm_ops::{boxes::BoxConvention, device::Precision};
use serde::{Deserialize, Serialize};

use super::{BodyKind, require};
use crate::{Error, Result};

settings_table! {
    /// Settings of the detector, its training and its inference.
    pub struct DetectorConfig {
        /// Number of classes, including the background, which is class 0.
        pub num_classes: usize where 2..=10_000,
        /// Whether a box's width counts both end pixels (maskrcnn-benchmark) or not (torchvision).
        pub convention: BoxConvention,
        /// Conversion of an image to the network's input.
        pub input: InputConfig,
        /// Feature extractor.
        pub backbone: BackboneConfig,
        /// Region proposal network.
        pub rpn: RpnConfig,
        /// Box head.
        pub roi: RoiConfig,
        /// Whether refined boxes are clipped to the image, as annotated ones are. The paper's published code does
        /// not clip them.
        #[serde(default = "enabled")]
        pub clip_refined: bool,
        /// Whether suppression before refinement ranks overlapping boxes by the confidence, as in the paper;
        /// otherwise it ranks them by the class score.
        #[serde(default = "enabled")]
        pub guided_suppression: bool,
    }
}

/// Default of settings that are on where a file does not name them.
fn enabled() -> bool {
    true
}

settings_table! {
    /// Settings of resizing and normalisation.
    pub struct InputConfig {
        /// Length of the shorter side after resizing.
        pub short_side: usize where 16..=8192 => "pixels",
        /// Upper bound of the longer side.
        pub long_side: usize where 16..=8192 => "pixels",
        /// Resizing filter: Pillow's or torch's.
        pub resample: Resample,
        /// Channel order of the network's input: `rgb` or `bgr`.
        pub channels: ChannelOrder,
        /// Factor of pixel values (1/255 or 1); afterwards `mean` is subtracted, and the result is divided by `std`.
        pub scale: f32 where 1e-6..=1e3,
        /// Mean of each channel, in the network's channel order.
        pub mean: [f32; 3] where -1e3..=1e3,
        /// Standard deviation of each channel, in the network's channel order.
        pub std: [f32; 3] where 1e-3..=1e3,
    }
}

impl InputConfig {
    /// Returns the reason as an error if values contradict each other.
    pub(super) fn check(&self) -> std::result::Result<(), String> {
        require(self.long_side >= self.short_side, "input.long_side is below input.short_side")
    }
}

settings_table! {
    /// Settings of body and FPN.
    pub struct BackboneConfig {
        /// Network below the pyramid. The settings from `depth` to `norm_eps` apply to a ResNet only.
        #[serde(default, skip_serializing_if = "is_default")]
        pub body: DetectorBody,
        /// Number of layers: 18, 34 or 50.
        pub depth: usize where 18..=50,
        /// Channels of the first stage; 64 in the standard networks.
        pub width: usize where 1..=1024,
        /// Whether a bottleneck's first 1×1 convolution has the stride (MSRA, caffe2), not its 3×3 (torchvision).
        pub stride_in_1x1: bool,
        /// Normalisation after each convolution.
        pub norm: NormKind,
        /// Number that batch norm adds to the variance; 0 in maskrcnn-benchmark's frozen form.
        pub norm_eps: f64 where 0.0..=1.0,
        /// Factors of the body's maps of strides 4 to 32, which bring them to the order of 1; empty for no scaling.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub map_scales: Vec<f64> where 1e-6..=1e6,
        /// Channels of every pyramid level.
        pub fpn_channels: usize where 1..=4096,
        /// Number type of the maps of body and pyramid. Parameters and the pyramid's output are f32.
        #[serde(default, skip_serializing_if = "is_default")]
        pub maps: MapType,
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Network that a detector's feature pyramid is built on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DetectorBody {
    /// ResNet.
    #[default]
    Resnet,
    /// EfficientNet-Lite0 with the fixed normalisation of its weights.
    EfficientnetLite0,
}

impl Setting for DetectorBody {}

impl DetectorBody {
    /// Returns the assumed position in the image of the centre of the first map pixel, for the map of this `stride`.
    /// For a ResNet this is the image's corner, as in published detectors, which ignore the convolutions' padding.
    pub fn origin(self, stride: usize) -> f32 {
        match self {
            Self::Resnet => 0.0,
            Self::EfficientnetLite0 => BodyKind::EfficientnetLite0.origin(stride),
        }
    }
}

/// Number type of a network's maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MapType {
    /// Single precision.
    #[default]
    F32,
    /// The type bfloat16, for GPUs.
    Bf16,
}

impl Setting for MapType {}

/// Type of the maps on a GPU that computes in this precision.
impl From<Precision> for MapType {
    fn from(precision: Precision) -> Self {
        if precision == Precision::Bf16 { Self::Bf16 } else { Self::F32 }
    }
}

impl MapType {
    /// Returns the tensors' type.
    pub fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::Bf16 => DType::BF16,
        }
    }
}

impl BackboneConfig {
    /// Refuses a body that cannot be trained here, and therefore needs given weights.
    ///
    /// # Errors
    /// For EfficientNet-Lite0, whose normalisation is fixed.
    pub fn check_trained(&self) -> Result<()> {
        if self.body == DetectorBody::Resnet {
            return Ok(());
        }
        let reason = "EfficientNet-Lite0 is not trained here: give its weights with --body";
        Err(Error::config("detector.backbone.body", reason))
    }

    /// Returns the ResNet that these settings describe.
    ///
    /// # Errors
    /// [`Error::Config`] when there is no ResNet of this depth.
    pub fn resnet(&self) -> Result<ResNetConfig> {
        let norm = match self.norm {
            NormKind::Train => Norm::Train,
            NormKind::Frozen => Norm::Frozen { eps: self.norm_eps },
            NormKind::Folded => Norm::Folded,
        };
        let network = match self.depth {
            18 => ResNetConfig::resnet18(norm),
            34 => ResNetConfig::resnet34(norm),
            50 => ResNetConfig::resnet50(norm),
            other => {
                let reason = format!("backbone.depth = {other}; give 18, 34 or 50");
                return Err(Error::config("backbone", reason));
            }
        };
        Ok(ResNetConfig { width: self.width, stride_in_1x1: self.stride_in_1x1, ..network })
    }
}

/// Normalisation of a ResNet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NormKind {
    /// Batch norm that is trained, with the batch's statistics in training.
    Train,
    /// Batch norm as a fixed affine map.
    Frozen,
    /// No layer: normalisation is folded into the convolutions, which have biases.
    Folded,
}

impl Setting for NormKind {}

settings_table! {
    /// Settings of the region proposal network.
    pub struct RpnConfig {
        /// Side of the anchors at each level P2 … P6.
        pub anchor_sizes: Vec<f32> where 1.0..=8192.0 => "pixels",
        /// Aspect ratios of the anchors, height / width.
        pub anchor_ratios: Vec<f32> where 0.01..=100.0,
        /// Candidates per level before suppression (training, inference).
        pub pre_nms: [usize; 2] where 1..=100_000,
        /// Proposals per image after suppression (training, inference).
        pub post_nms: [usize; 2] where 1..=100_000,
        /// IoU threshold of suppression.
        pub nms: f32 where 0.0..=1.0,
        /// Least IoU of an anchor with an object for a positive match.
        pub foreground: f32 where 0.0..=1.0,
        /// IoU below which an anchor is background.
        pub background: f32 where 0.0..=1.0,
        /// Anchors trained on per image.
        pub sample_size: usize where 1..=65_536,
        /// Largest share of positive anchors among these.
        pub positive_fraction: f32 where 0.0..=1.0,
        /// Least side of a proposal; smaller ones are dropped.
        pub min_size: f32 where 0.0..=8192.0 => "pixels",
    }

    /// Settings of the box head.
    pub struct RoiConfig {
        /// Bins per side of a pooled box.
        pub pool_size: usize where 1..=64,
        /// Samples of RoIAlign per bin and direction.
        pub sampling_ratio: usize where 0..=64,
        /// Side of a box that is pooled from level `canonical_level`.
        pub canonical_size: f32 where 1.0..=8192.0 => "pixels",
        /// Level that boxes of side `canonical_size` are pooled from; 4 in the FPN paper.
        pub canonical_level: usize where 0..=16,
        /// Width of fc6 and fc7.
        pub representation: usize where 1..=65_536,
        /// Weights of the box coder.
        pub box_weights: [f32; 4] where 1e-3..=1e3,
        /// Least IoU of a proposal with an object for a positive match; others are background.
        pub foreground: f32 where 0.0..=1.0,
        /// Proposals trained on per image.
        pub sample_size: usize where 1..=65_536,
        /// Largest share of positive proposals among these.
        pub positive_fraction: f32 where 0.0..=1.0,
        /// Transition point of smooth-L1.
        pub smooth_l1_beta: f64 where 1e-6..=1e3,
        /// Score that detections must exceed.
        pub score_threshold: f32 where 0.0..=1.0,
        /// IoU threshold of suppression, class by class.
        pub nms: f32 where 0.0..=1.0,
        /// Detections kept per image.
        pub max_detections: usize where 1..=10_000,
        /// Least side of a detection; smaller ones are dropped.
        pub min_size: f32 where 0.0..=8192.0 => "pixels",
    }
}

impl DetectorConfig {
    /// Strides of P2 … P6.
    pub const STRIDES: [usize; 5] = [4, 8, 16, 32, 64];

    /// Returns the number of labels of objects, which start at 1; the background is 0.
    pub fn labels(&self) -> usize {
        self.num_classes.saturating_sub(1)
    }

    /// Returns the reason as an error if values contradict each other.
    pub(super) fn check(&self) -> std::result::Result<(), String> {
        let of_levels = self.rpn.anchor_sizes.len() == Self::STRIDES.len();
        require(of_levels, "rpn.anchor_sizes needs one entry for each of P2 … P6")?;
        require(!self.rpn.anchor_ratios.is_empty(), "rpn.anchor_ratios is empty")?;
        let of_maps = matches!(self.backbone.map_scales.len(), 0 | 4);
        require(of_maps, "backbone.map_scales needs one entry for each of the body's four maps, or none")?;
        self.input.check()
    }
}
