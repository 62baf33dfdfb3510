//! The network and its inference.

use candle_core::DType;
use ebm_experiment::config::{Setting, settings};
use ebm_nn::resnet::{Norm, ResNetConfig};
use ebm_ops::{boxes::BoxConvention, device::Precision};
use serde::{Deserialize, Serialize};

use super::{BodyKind, require};
use crate::{Error, Result};

settings! {
    /// The detector and how it is trained and run.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct DetectorConfig {
        /// Classes with the background, which is class 0.
        pub num_classes: usize where 2..=10_000,
        /// Whether a box's width counts both end pixels (maskrcnn-benchmark) or not (torchvision).
        pub convention: Convention,
        /// How an image becomes the network's input.
        pub input: InputConfig,
        /// The feature extractor.
        pub backbone: BackboneConfig,
        /// Region proposal network.
        pub rpn: RpnConfig,
        /// Box head.
        pub roi: RoiConfig,
        /// Whether refined boxes end at the image's border, as annotated ones do. The code that the paper
        /// published clips none of them.
        #[serde(default = "holds")]
        pub clip_refined: bool,
        /// Whether a confidence says which of overlapping boxes is kept before the others climb, as in the paper;
        /// otherwise the class score does, as for boxes that do not climb.
        #[serde(default = "holds")]
        pub guided_suppression: bool,
    }
}

/// What holds where a file does not say it.
fn holds() -> bool {
    true
}

/// Serialised form of [`BoxConvention`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Convention {
    /// Width is x2 − x1.
    HalfOpen,
    /// Width is x2 − x1 + 1.
    Inclusive,
}

impl Setting for Convention {}

impl From<Convention> for BoxConvention {
    fn from(convention: Convention) -> Self {
        match convention {
            Convention::HalfOpen => BoxConvention::HalfOpen,
            Convention::Inclusive => BoxConvention::Inclusive,
        }
    }
}

settings! {
    /// Resizing and normalisation.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct InputConfig {
        /// The shorter side after resizing.
        pub short_side: usize where 16..=8192 => "pixels",
        /// Upper bound of the longer side.
        pub long_side: usize where 16..=8192 => "pixels",
        /// Whose arithmetic the resizing follows.
        pub resample: ResampleKind,
        /// Channel order of the network's input: `rgb` or `bgr`.
        pub channels: ChannelOrder,
        /// Pixel values are multiplied by this (1/255 or 1), then `mean` is subtracted and `std` divided by.
        pub scale: f32 where 1e-6..=1e3,
        /// Per channel, in the network's channel order.
        pub mean: [f32; 3] where -1e3..=1e3,
        /// Per channel, in the network's channel order.
        pub std: [f32; 3] where 1e-3..=1e3,
    }
}

impl InputConfig {
    /// Why the values contradict each other, if they do.
    pub(super) fn check(&self) -> std::result::Result<(), String> {
        require(self.long_side >= self.short_side, "input.long_side is below input.short_side")
    }
}

/// Serialised form of [`ebm_data::transform::Resample`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResampleKind {
    /// Pillow's antialiased bilinear filter on bytes.
    Pillow,
    /// torch's bilinear interpolation on floats, without antialiasing.
    Torch,
}

impl Setting for ResampleKind {}

/// Order of the colour channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChannelOrder {
    /// Red first.
    Rgb,
    /// Blue first (caffe2).
    Bgr,
}

impl Setting for ChannelOrder {}

settings! {
    /// Body and FPN.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct BackboneConfig {
        /// The network below the pyramid. What follows up to `norm_eps` is of a ResNet alone.
        #[serde(default, skip_serializing_if = "DetectorBody::is_default")]
        pub body: DetectorBody,
        /// 18, 34 or 50.
        pub depth: usize where 18..=50,
        /// Channels of the first stage; 64 in the standard networks.
        pub width: usize where 1..=1024,
        /// Stride in the first 1×1 of a bottleneck (MSRA, caffe2) instead of the 3×3 (torchvision).
        pub stride_in_1x1: bool,
        /// What stands behind each convolution.
        pub norm: NormKind,
        /// Added to the variance by batch norm; 0 in maskrcnn-benchmark's frozen form.
        pub norm_eps: f64 where 0.0..=1.0,
        /// What the body's maps of strides 4 to 32 are multiplied by, to be of the order of 1; none: they stay
        /// as they are.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub map_scales: Vec<f64> where 1e-6..=1e6,
        /// Channels of every pyramid level.
        pub fpn_channels: usize where 1..=4096,
        /// In what the maps of body and pyramid are held; parameters and what leaves the pyramid are f32.
        #[serde(default, skip_serializing_if = "MapType::is_default")]
        pub maps: MapType,
    }
}

/// Bodies of detectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DetectorBody {
    /// A ResNet.
    #[default]
    Resnet,
    /// EfficientNet-Lite0 with the normalisation that its weights hold.
    EfficientnetLite0,
}

impl Setting for DetectorBody {}

impl DetectorBody {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Where in the image the first pixel of the map of this stride is taken to have its centre. Published
    /// detectors take it to be in the corner, wherever their ResNet has it.
    #[must_use]
    pub fn origin(self, stride: usize) -> f32 {
        match self {
            Self::Resnet => 0.0,
            Self::EfficientnetLite0 => BodyKind::EfficientnetLite0.origin(stride),
        }
    }
}

/// The type of a network's maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MapType {
    /// Single precision.
    #[default]
    F32,
    /// The upper half of it, for GPUs.
    Bf16,
}

impl Setting for MapType {}

/// Of a GPU that multiplies so.
impl From<Precision> for MapType {
    fn from(precision: Precision) -> Self {
        if precision == Precision::Bf16 { Self::Bf16 } else { Self::F32 }
    }
}

impl MapType {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The tensors' type.
    #[must_use]
    pub fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::Bf16 => DType::BF16,
        }
    }
}

impl BackboneConfig {
    /// Refuses a body that is never trained, where its weights were not given.
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

    /// The body's form of these settings.
    ///
    /// # Errors
    /// When there is no ResNet of this depth.
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
                let reason = format!("backbone.depth = {other}; there are 18, 34 and 50");
                return Err(Error::config("backbone", reason));
            }
        };
        Ok(ResNetConfig { width: self.width, stride_in_1x1: self.stride_in_1x1, ..network })
    }
}

/// Kinds of normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NormKind {
    /// Batch norm that learns (train mode while training).
    Train,
    /// Batch norm as a fixed affine map.
    Frozen,
    /// None: folded into the convolutions, which have biases.
    Folded,
}

impl Setting for NormKind {}

settings! {
    /// Region proposal network.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct RpnConfig {
        /// Anchor side per level P2 … P6.
        pub anchor_sizes: Vec<f32> where 1.0..=8192.0 => "pixels",
        /// Height / width.
        pub anchor_ratios: Vec<f32> where 0.01..=100.0,
        /// Candidates per level before suppression (training, inference).
        pub pre_nms: [usize; 2] where 1..=100_000,
        /// Proposals per image after it (training, inference).
        pub post_nms: [usize; 2] where 1..=100_000,
        /// Suppression threshold.
        pub nms: f32 where 0.0..=1.0,
        /// Anchors from this IoU on are objects.
        pub foreground: f32 where 0.0..=1.0,
        /// Anchors below this IoU are background.
        pub background: f32 where 0.0..=1.0,
        /// Anchors trained on per image.
        pub sample_size: usize where 1..=65_536,
        /// Largest share of objects among them.
        pub positive_fraction: f32 where 0.0..=1.0,
        /// Boxes with a smaller side are dropped.
        pub min_size: f32 where 0.0..=8192.0 => "pixels",
    }
}

settings! {
    /// Box head.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct RoiConfig {
        /// Bins per side.
        pub pool_size: usize where 1..=64,
        /// Samples per bin and direction of RoIAlign.
        pub sampling_ratio: usize where 0..=64,
        /// A box of this side is pooled from level `canonical_level`.
        pub canonical_size: f32 where 1.0..=8192.0 => "pixels",
        /// See `canonical_size`; 4 in the FPN paper.
        pub canonical_level: usize where 0..=16,
        /// Width of fc6 and fc7.
        pub representation: usize where 1..=65_536,
        /// Weights of the box coder.
        pub box_weights: [f32; 4] where 1e-3..=1e3,
        /// Proposals from this IoU on are objects, others background.
        pub foreground: f32 where 0.0..=1.0,
        /// Proposals trained on per image.
        pub sample_size: usize where 1..=65_536,
        /// Largest share of objects among them.
        pub positive_fraction: f32 where 0.0..=1.0,
        /// Transition point of smooth-L1.
        pub smooth_l1_beta: f64 where 1e-6..=1e3,
        /// Detections need a higher score.
        pub score_threshold: f32 where 0.0..=1.0,
        /// Suppression threshold per class.
        pub nms: f32 where 0.0..=1.0,
        /// Detections kept per image.
        pub max_detections: usize where 1..=10_000,
        /// Detections with a smaller side are dropped.
        pub min_size: f32 where 0.0..=8192.0 => "pixels",
    }
}

impl DetectorConfig {
    /// Strides of P2 … P6.
    pub const STRIDES: [usize; 5] = [4, 8, 16, 32, 64];

    /// Labels of objects: 1 to this; the background is 0.
    pub fn labels(&self) -> usize {
        self.num_classes.saturating_sub(1)
    }

    /// Why the values contradict each other, if they do.
    pub(super) fn check(&self) -> std::result::Result<(), String> {
        let of_levels = self.rpn.anchor_sizes.len() == Self::STRIDES.len();
        require(of_levels, "rpn.anchor_sizes needs one entry for each of P2 … P6")?;
        require(!self.rpn.anchor_ratios.is_empty(), "rpn.anchor_ratios is empty")?;
        let of_maps = matches!(self.backbone.map_scales.len(), 0 | 4);
        require(of_maps, "backbone.map_scales needs one entry for each of the body's four maps, or none")?;
        self.input.check()
    }
}
