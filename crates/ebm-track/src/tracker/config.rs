//! The tracker's settings.

use serde::{Deserialize, Serialize};

use crate::classifier::ClassifierConfig;
use crate::error::{Error, Result};
use crate::localize::LocalizeConfig;

/// The settings of a [`TargetTracker`](super::TargetTracker); by default ATOM's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrackerConfig {
    /// The side of the crop, in pixels; a multiple of 16.
    pub crop: usize,
    /// The side of the region that is searched, in √(width · height) of the target.
    pub search_factor: f64,
    /// The least share of the box that the classifier may leave inside the image along each axis.
    pub inside_ratio: f64,
    /// Copies of the first frame's features in which channels are dropped …
    pub dropout_copies: usize,
    /// … with this probability.
    pub dropout: f64,
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
    pub random: usize,
    /// Their centres differ by at most this, in √(width · height).
    pub position_jitter: f64,
    /// Their sizes differ by at most this, in √(width · height).
    pub size_jitter: f64,
    /// Their sides are at least this fraction of the shorter side of the box.
    pub least_size: f64,
    /// A refined box with a side so many times the other is discarded.
    pub max_aspect: f64,
    /// The mean of so many boxes is the answer: those with the highest f where the last step began.
    pub top: usize,
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
        let fail = |reason: &str| Err(Error::Config { part: "tracker", reason: reason.to_owned() });
        let positive = |value: f64| value > 0.0 && value.is_finite();
        let BoxConfig { position_jitter, size_jitter, least_size, max_aspect, top, .. } = self.boxes;
        if self.crop == 0 || !self.crop.is_multiple_of(16) {
            return fail("crop must be a positive multiple of 16");
        }
        if !(self.search_factor > 1.0 && self.search_factor.is_finite()) {
            return fail("search_factor must exceed 1: the target has to fit into the crop");
        }
        if !(0.0..=1.0).contains(&self.inside_ratio) || !(0.0..1.0).contains(&self.dropout) {
            return fail("inside_ratio must be in 0 to 1, dropout at least 0 and below 1");
        }
        if ![position_jitter, size_jitter].iter().all(|&v| v >= 0.0 && v.is_finite())
            || !positive(least_size)
            || max_aspect.is_nan()
            || max_aspect <= 1.0
            || top == 0
        {
            return fail(
                "boxes: jitters must not be negative, least_size positive, max_aspect above 1, top at least 1",
            );
        }
        Ok(())
    }
}
