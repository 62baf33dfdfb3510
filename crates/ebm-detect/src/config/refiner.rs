//! A box refiner: a network of its own that places other detectors' boxes.

use ebm_core::{AnyObjective, GradientAscent};
use ebm_experiment::config::{Setting, Settings, settings};
use ebm_nn::efficientnet::EfficientNetLite0;
use serde::{Deserialize, Serialize};

use super::{InputConfig, TrainingConfig, require};

settings! {
    /// A box refiner, how it is trained, and how boxes climb.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct RefinerConfig {
        /// How an image becomes the network's input.
        pub input: InputConfig,
        /// The network.
        pub network: RefinerNetworkConfig,
        /// The loss, with the number of samples and where they come from.
        pub objective: AnyObjective,
        /// How boxes climb f, in (c_x/w₀, c_y/h₀, log w, log h).
        pub ascent: GradientAscent,
        /// Factors of these step lengths among which the validation images choose.
        pub step_factors: Vec<f64> where 0.0..=1e3,
        /// The training.
        pub training: TrainingConfig,
        /// Stages of the body that are trained, counted from its end.
        pub trained_stages: usize where 0..=7,
        /// What their learning rate is multiplied by.
        pub body_rate: f64 where 0.0..=1e3,
        /// Objects with a shorter side are not trained on, in pixels of the input.
        pub min_object: f32 where 0.0..=8192.0 => "pixels",
        /// At most so many objects of an image are trained on in a step, drawn …
        pub objects: usize where 1..=10_000,
        /// … with weights that are the root of their area to this power; 0: all alike.
        pub size_power: f64 where 0.0..=8.0,
        /// The validation loss is a mean over at most so many images, evenly chosen.
        pub validation_images: usize where 1..=1_000_000 => "images",
    }
}

settings! {
    /// Body, pyramid, and f of a pooled box.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct RefinerNetworkConfig {
        /// Classes that f tells apart, with the background, which is class 0; 1: f is the same for all.
        pub num_classes: usize where 1..=10_000,
        /// The feature extractor.
        pub body: BodyKind,
        /// Channels of a ResNet's first stage; those of the standard network are 64.
        pub width: usize where 1..=1024,
        /// Strides of the pyramid's levels, finest first.
        pub strides: Vec<usize> where 2..=32 => "pixels",
        /// What the body's map of each of these strides is multiplied by, to be of the order of 1.
        pub map_scales: Vec<f64> where 1e-6..=1e6,
        /// Pixels per side of the pyramid's output convolutions: 1 or 3.
        pub kernel: usize where 1..=3,
        /// Channels of each level.
        pub channels: usize where 1..=4096,
        /// The ways in which every box is seen; what is pooled stands side by side.
        pub views: Vec<ViewConfig>,
        /// Up to this side, the root of its area, a box has the first level; with each doubling the next …
        pub canonical_size: f32 where 1.0..=8192.0 => "pixels",
        /// … as far as this one, counted from 0: 0 gives all boxes the first level.
        pub coarsest_level: usize where 0..=3,
        /// Width of fc6 and fc7.
        pub representation: usize where 1..=65_536,
    }
}

settings! {
    /// A way in which a box is seen.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct ViewConfig {
        /// So many levels above the box's own, as far as there are any.
        pub level: usize where 0..=3,
        /// The box is enlarged about its centre by this.
        pub context: f32 where 0.1..=10.0,
        /// Bins per side.
        pub bins: usize where 1..=64,
    }
}

/// Bodies of refiners.
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
    /// The strides of its maps, finest first.
    #[must_use]
    pub fn strides(self) -> &'static [usize] {
        match self {
            Self::Resnet18 | Self::Resnet50 => &[4, 8, 16, 32],
            Self::EfficientnetLite0 => &EfficientNetLite0::STRIDES,
        }
    }

    /// Where in the image the first pixel of the map of this stride has its centre, pixels being squares.
    #[must_use]
    pub fn origin(self, stride: usize) -> f32 {
        match self {
            // Convolutions that pad as much before as behind keep it in the middle of the first pixel.
            Self::Resnet18 | Self::Resnet50 => 0.5,
            // Those that pad behind alone, where they halve the map, put it into the last of them.
            Self::EfficientnetLite0 => stride as f32 - 0.5,
        }
    }
}

impl RefinerNetworkConfig {
    /// Whether f is the same for all classes.
    #[must_use]
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
        self.network.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_configuration_survives_a_round_trip() {
        for (name, _) in RefinerConfig::EMBEDDED {
            let config = RefinerConfig::embedded(name).unwrap();
            assert_eq!(RefinerConfig::parse(name, &config.to_toml().unwrap()).unwrap(), config);
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let refused = |text: &str| {
            RefinerConfig::parse("mine", &format!("extends = 'refiner'\n{text}")).unwrap_err().to_string()
        };
        assert!(refused("network.strides = [4, 16]").contains("in a row"));
        assert!(refused("network.strides = [2, 4]").contains("in a row"));
        assert!(refused("network.map_scales = [1.0]").contains("network.map_scales needs one entry"));
        assert!(refused("network.kernel = 2").contains("network.kernel is 2"));
        assert!(refused("network.views = []").contains("network.views is empty"));
        assert!(refused("network.coarsest_level = 3").contains("network.coarsest_level is no index"));
        assert!(refused("input.long_side = 32").contains("input.long_side"));
        assert!(refused("training.step = 1").contains("did you mean `steps`"));
    }
}
