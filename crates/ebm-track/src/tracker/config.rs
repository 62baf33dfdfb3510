//! The tracker's settings.

use ebm_experiment::config::{check_ranges, settings};
use serde::{Deserialize, Serialize};

use crate::classifier::ClassifierConfig;
use crate::localize::LocalizeConfig;
use crate::{Error, Result};

settings! {
    /// The settings of a [`TargetTracker`](super::TargetTracker); by default ATOM's.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct TrackerConfig {
        /// The side of the crop, in pixels; a multiple of 16.
        pub crop: usize where 16..=2048 => "pixels",
        /// The side of the region that is searched, in √(width · height) of the target.
        pub search_factor: f64 where 1.01..=100.0,
        /// The least share of the box that the classifier may leave inside the image along each axis.
        pub inside_ratio: f64 where 0.0..=1.0,
        /// Copies of the first frame's features in which channels are dropped …
        pub dropout_copies: usize where 0..=1000,
        /// … with this probability.
        pub dropout: f64 where 0.0..=0.99,
        /// The classifier.
        pub classifier: ClassifierConfig,
        /// When its answer is trusted.
        pub localize: LocalizeConfig,
        /// The boxes that are refined.
        pub boxes: BoxConfig,
    }

    /// The boxes that are refined, and what becomes of them.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct BoxConfig {
        /// Random boxes beside the one of the last size at the classifier's place.
        pub random: usize where 0..=10_000,
        /// Their centres differ by at most this, in √(width · height).
        pub position_jitter: f64 where 0.0..=100.0,
        /// Their sizes differ by at most this, in √(width · height).
        pub size_jitter: f64 where 0.0..=100.0,
        /// Their sides are at least this fraction of the shorter side of the box.
        pub least_size: f64 where 1e-6..=1e3,
        /// A refined box with a side so many times the other is discarded.
        pub max_aspect: f64 where 1.001..=1e6,
        /// The mean of so many boxes is the answer: those with the highest f where the last step began.
        pub top: usize where 1..=10_000,
    }
}

impl Default for TrackerConfig {
    fn default() -> Self {
        Self {
            crop: 288,
            search_factor: 5.0,
            inside_ratio: 0.2,
            dropout_copies: 7,
            dropout: 0.2,
            classifier: ClassifierConfig::default(),
            localize: LocalizeConfig::default(),
            boxes: BoxConfig::default(),
        }
    }
}

impl Default for BoxConfig {
    fn default() -> Self {
        Self {
            random: 9,
            position_jitter: 0.05,
            size_jitter: 0.25,
            least_size: 1.0 / 3.0,
            max_aspect: 6.0,
            top: 3,
        }
    }
}

impl TrackerConfig {
    /// √(width · height) of the target in the crop, in pixels: the same for every target.
    pub fn target_side(&self) -> f64 {
        self.crop as f64 / self.search_factor
    }

    pub(super) fn check(&self) -> Result<()> {
        check_ranges("tracker", self)?;
        if self.crop.is_multiple_of(16) {
            return Ok(());
        }
        Err(Error::config("of the tracker", "crop must be a multiple of 16"))
    }
}
