//! What weights take for granted and their names and shapes do not tell.

use serde::{Deserialize, Serialize};

use crate::config::{ChannelOrder, Convention, DetectorConfig};

/// The part of a configuration that belongs to weights as their shapes do. With another they load, and detect
/// badly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conventions {
    /// What the second corner of a box means.
    pub boxes: Convention,
    /// The order of the input's channels.
    pub channels: ChannelOrder,
    /// What pixel values are multiplied by.
    pub scale: f32,
    /// What is subtracted from them then, per channel.
    pub mean: [f32; 3],
    /// What they are divided by then, per channel.
    pub std: [f32; 3],
    /// Where a bottleneck has its stride.
    pub stride_in_1x1: bool,
    /// What normalisation adds to the variance.
    pub norm_eps: f64,
    /// What the body's maps are multiplied by; none where they stay as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub map_scales: Vec<f64>,
}

impl Conventions {
    /// Those of a configuration.
    pub fn of(config: &DetectorConfig) -> Self {
        let (input, backbone) = (&config.input, &config.backbone);
        Self {
            boxes: config.convention,
            channels: input.channels,
            scale: input.scale,
            mean: input.mean,
            std: input.std,
            stride_in_1x1: backbone.stride_in_1x1,
            norm_eps: backbone.norm_eps,
            map_scales: backbone.map_scales.clone(),
        }
    }

    /// What a configuration has otherwise, each with both values; empty where they agree.
    pub(super) fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let mut compare = |what: &str, weights: String, config: String| {
            if weights != config {
                found.push(format!("{what} {weights} (configuration: {config})"));
            }
        };
        let word = |convention| match convention {
            Convention::HalfOpen => "half_open",
            Convention::Inclusive => "inclusive",
        };
        compare("boxes", word(self.boxes).to_owned(), word(other.boxes).to_owned());
        let word = |order| match order {
            ChannelOrder::Rgb => "rgb",
            ChannelOrder::Bgr => "bgr",
        };
        compare("channels", word(self.channels).to_owned(), word(other.channels).to_owned());
        compare("scale", self.scale.to_string(), other.scale.to_string());
        compare("mean", format!("{:?}", self.mean), format!("{:?}", other.mean));
        compare("std", format!("{:?}", self.std), format!("{:?}", other.std));
        compare("stride_in_1x1", self.stride_in_1x1.to_string(), other.stride_in_1x1.to_string());
        compare("norm_eps", self.norm_eps.to_string(), other.norm_eps.to_string());
        compare("map_scales", format!("{:?}", self.map_scales), format!("{:?}", other.map_scales));
        found
    }
}
