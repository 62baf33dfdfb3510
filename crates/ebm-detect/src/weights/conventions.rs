//! What weights take for granted and their names and shapes do not tell.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::metadata::to_toml;
use crate::config::{ChannelOrder, Convention, DetectorConfig};
use crate::{Error, Result};

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
    pub(super) fn differences(&self, config: &Self) -> Result<Vec<String>> {
        let [weights, config] = [self.to_table()?, config.to_table()?];
        let keys: BTreeSet<_> = weights.keys().chain(config.keys()).collect();
        let show = |table: &Table, key: &String| match table.get(key) {
            None => "[]".to_owned(),
            Some(Value::String(word)) => word.clone(),
            Some(other) => other.to_string(),
        };
        let differing = keys.into_iter().filter(|key| weights.get(*key) != config.get(*key));
        Ok(differing
            .map(|key| format!("{key} {} (configuration: {})", show(&weights, key), show(&config, key)))
            .collect())
    }

    /// By way of its text, in which a number has the digits of its type.
    fn to_table(&self) -> Result<Table> {
        to_toml(self)?.parse().map_err(|error: toml::de::Error| Error::config("conventions", error))
    }
}
