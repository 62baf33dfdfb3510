//! Settings of the networks of `candle_transformers`, which the feature `transformers` compiles.

use ebm_experiment::config::{Setting, settings};
use serde::{Deserialize, Serialize};

settings! {
    /// A published ConvNeXt.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct ConvNeXtConfig {
        /// The widths and depths.
        pub size: ConvNeXtSize,
        /// Which paper's blocks.
        #[serde(default)]
        pub version: ConvNeXtVersion,
    }
}

/// The sizes of the published networks, from the smallest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "names of published networks")]
pub enum ConvNeXtSize {
    Atto,
    Femto,
    Pico,
    Nano,
    Tiny,
    Small,
    Base,
    Large,
    XLarge,
    Huge,
}

impl Setting for ConvNeXtSize {}

/// What a block ends with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConvNeXtVersion {
    /// A factor for each channel, `gamma`.
    #[default]
    V1,
    /// Global response normalisation within the block, `grn`.
    V2,
}

impl Setting for ConvNeXtVersion {}

impl ConvNeXtConfig {
    /// The length of g_x: the channels of the last stage.
    pub fn num_features(&self) -> usize {
        match self.size {
            ConvNeXtSize::Atto => 320,
            ConvNeXtSize::Femto => 384,
            ConvNeXtSize::Pico => 512,
            ConvNeXtSize::Nano => 640,
            ConvNeXtSize::Tiny | ConvNeXtSize::Small => 768,
            ConvNeXtSize::Base => 1024,
            ConvNeXtSize::Large => 1536,
            ConvNeXtSize::XLarge => 2048,
            ConvNeXtSize::Huge => 2816,
        }
    }
}
