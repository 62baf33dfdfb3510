//! Settings of a box refiner: a separate network that refines other detectors' boxes.

use ebm_core::{AnyObjective, GradientAscent};
use ebm_experiment::config::{Setting, Settings, settings_table};
use ebm_nn::efficientnet::EfficientNetLite0;
use serde::{Deserialize, Serialize};

use super::{InputConfig, TrainingConfig, require};

settings_table! {
    /// Settings of a box refiner, its training and its gradient ascent.
    pub struct RefinerConfig {
        /// Conversion of an image to the network's input.
        pub input: InputConfig,
        /// Network.
        pub network: RefinerNetworkConfig,
        /// Loss, with the number of samples and their proposal.
        pub objective: AnyObjective,
        /// Gradient ascent on f, in the coordinates (c_x/w₀, c_y/h₀, log w, log h).
        pub ascent: GradientAscent,
        /// Factors of these step lengths to choose from on the validation images.
        pub step_factors: Vec<f64> where 0.0..=1e3,
        /// Optimiser and schedule.
        pub training: TrainingConfig,
        /// Number of trained stages of the body, counted from its end.
        pub trained_stages: usize where 0..=7,
        /// Factor of the learning rate of these stages.
        pub body_rate: f64 where 0.0..=1e3,
        /// Least side of the objects that are trained on, in pixels of the input.
        pub min_object: f32 where 0.0..=8192.0 => "pixels",
        /// Largest number of objects of an image in a step; if there are more, a sample is drawn.
        pub objects: usize where 1..=10_000,
        /// Power of √area that is an object's weight in this draw; 0 for equal weights.
        pub size_power: f64 where 0.0..=8.0,
        /// Largest number of validation images for the validation loss; they are chosen evenly.
        pub validation_images: usize where 1..=1_000_000 => "images",
    }

    /// Settings of a refiner's network: body, pyramid, and f of a pooled box.
    pub struct RefinerNetworkConfig {
        /// Number of classes of f, including the background, which is class 0; 1 for a class-agnostic f.
        pub num_classes: usize where 1..=10_000,
        /// Feature extractor.
        pub body: BodyKind,
        /// Channels of a ResNet's first stage; 64 in the standard networks.
        pub width: usize where 1..=1024,
        /// Strides of the pyramid's levels, finest first.
        pub strides: Vec<usize> where 2..=32 => "pixels",
        /// Factor of the body's map of each of these strides, which brings it to the order of 1.
        pub map_scales: Vec<f64> where 1e-6..=1e6,
        /// Pixels per side of the pyramid's output convolutions: 1 or 3.
        pub kernel: usize where 1..=3,
        /// Channels of each level.
        pub channels: usize where 1..=4096,
        /// Views that every box is pooled in; the pooled features are concatenated.
        pub views: Vec<ViewConfig>,
        /// Side s: a box whose side (root of its area) is below 2s is on the first level, below 4s on the next, etc.
        pub canonical_size: f32 where 1.0..=8192.0 => "pixels",
        /// Coarsest level of a box, counted from 0; with 0 all boxes are on the first level.
        pub coarsest_level: usize where 0..=3,
        /// Width of fc6 and fc7.
        pub representation: usize where 1..=65_536,
    }

    /// View of a box: the level and the region that it is pooled from.
    #[derive(Copy)]
    pub struct ViewConfig {
        /// Number of levels above the box's own, limited to the coarsest level.
        pub level: usize where 0..=3,
        /// Factor by which the box is enlarged about its centre.
        pub context: f32 where 0.1..=10.0,
        /// Bins per side.
        pub bins: usize where 1..=64,
    }
}

/// Network that a refiner's feature pyramid is built on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BodyKind {
    /// ResNet-18, its normalisation folded into the convolutions.
    Resnet18,
    /// ResNet-50 in the same form, with the stride in the first 1×1 convolutions.
    Resnet50,
    /// EfficientNet-Lite0, whose normalisation stays as it is.
    EfficientnetLite0,
}

impl Setting for BodyKind {}

impl BodyKind {
    /// Returns the strides of the body's maps, finest first.
    pub fn strides(self) -> &'static [usize] {
        match self {
            Self::Resnet18 | Self::Resnet50 => &[4, 8, 16, 32],
            Self::EfficientnetLite0 => &EfficientNetLite0::STRIDES,
        }
    }

    /// Returns the position in the image of the centre of the first map pixel, for the map of this `stride`, with
    /// pixels as unit squares.
    pub fn origin(self, stride: usize) -> f32 {
        match self {
            // Symmetric padding keeps the centre in the middle of the image's first pixel.
            Self::Resnet18 | Self::Resnet50 => 0.5,
            // Convolutions that halve the map pad only at its end, which moves the centre to pixel `stride` − 1.
            Self::EfficientnetLite0 => stride as f32 - 0.5,
        }
    }
}

impl RefinerNetworkConfig {
    /// Returns `true` if f is the same for all classes.
    pub fn is_class_agnostic(&self) -> bool {
        self.num_classes == 1
    }

    fn check(&self) -> Result<(), String> {
        let known = self.body.strides();
        let first = known.iter().position(|stride| Some(stride) == self.strides.first());
        let are_known = first.is_some_and(|first| known[first..].starts_with(&self.strides));
        let strides = format!("network.strides are {:?}, not some of {known:?} in a row", self.strides);
        require(are_known, &strides)?;
        let of_each = self.map_scales.len() == self.strides.len();
        require(of_each, "network.map_scales needs one entry for each of network.strides")?;
        require(self.kernel != 2, "network.kernel is 2; a kernel of 1 or 3 has a centre")?;
        let is_seen = !self.views.is_empty();
        require(is_seen, "network.views is empty: boxes are pooled from one level at least")?;
        let is_level = self.coarsest_level < self.strides.len();
        require(is_level, "network.coarsest_level is no index into network.strides")
    }
}

impl Settings for RefinerConfig {
    const EMBEDDED: &'static [(&'static str, &'static str)] = &[
        ("refiner", include_str!("../../configs/refiner.toml")),
        ("refiner_lite0", include_str!("../../configs/refiner_lite0.toml")),
    ];

    fn check(&self) -> Result<(), String> {
        self.input.check()?;
        self.ascent.check().map_err(|error| format!("ascent: {error}"))?;
        let is_of_boxes = self.objective.gaussian().is_none_or(|proposal| proposal.dim() == 4);
        require(is_of_boxes, "objective: its proposal is not of the four coordinates of a box")?;
        self.network.check()
    }
}
