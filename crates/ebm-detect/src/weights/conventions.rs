//! What weights take for granted and their names and shapes do not tell.

use serde::Serialize;

use crate::config::{ChannelOrder, Convention, DetectorConfig};

/// The part of a configuration that belongs to weights as their shapes do. With another they load, and detect
/// badly.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    #[serde(skip_serializing_if = "Vec::is_empty")]
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
}
