//! Settings of the tracker.

use ebm_experiment::config::{check_ranges, settings_table};

use crate::classifier::ClassifierConfig;
use crate::localize::LocalizeConfig;
use crate::{Error, Result};

settings_table! {
    /// Settings of a [`TargetTracker`](super::TargetTracker). The defaults are ATOM's.
    #[serde(default)]
    pub struct TrackerConfig {
        /// Side of the crop, a multiple of 16.
        pub crop: usize where 16..=2048 => "pixels",
        /// Side of the search region, in √(width · height) of the target.
        pub search_factor: f64 where 1.01..=100.0,
        /// Minimum fraction of the box that stays inside the image along each axis.
        pub inside_ratio: f64 where 0.0..=1.0,
        /// Number of copies of the first frame's features with dropped channels.
        pub dropout_copies: usize where 0..=1000,
        /// Probability that a channel is dropped in these copies.
        pub dropout: f64 where 0.0..=0.99,
        /// Classifier.
        pub classifier: ClassifierConfig,
        /// Localisation in the scores of the classifier.
        pub localize: LocalizeConfig,
        /// Refinement of several boxes.
        pub boxes: BoxConfig,
    }

    /// Boxes to refine, and selection of the best.
    #[serde(default)]
    pub struct BoxConfig {
        /// Number of random boxes, beside the box of the last size at the classifier's location.
        pub random: usize where 0..=10_000,
        /// Maximum shift of the random boxes' centres, in √(width · height).
        pub position_jitter: f64 where 0.0..=100.0,
        /// Maximum change of the random boxes' sides, in √(width · height).
        pub size_jitter: f64 where 0.0..=100.0,
        /// Minimum side of the random boxes, as a fraction of the shorter side of the box.
        pub least_size: f64 where 1e-6..=1e3,
        /// Aspect ratio above which a refined box is discarded.
        pub max_aspect: f64 where 1.001..=1e6,
        /// Number of boxes to average: those with the highest f at the start of the last step.
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
    /// Returns √(width · height) of the target in the crop, in pixels. It is the same for every target.
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
