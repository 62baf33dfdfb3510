//! A row of a table: a way to find the boxes of detections.

use ebm_core::{AnyObjective, GaussianMixture, GradientAscent, StepRule, parametric::Baseline};
use ebm_experiment::config::settings;
use serde::{Deserialize, Serialize};

use crate::{Result, energy_head::Coordinates, inference::BoxAscent};

settings! {
    /// How the boxes of a detection are found: by the detector's own regression, where the row adds nothing
    /// to it.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct MethodConfig {
        /// Its name in result files.
        pub key: String,
        /// Its name in tables.
        pub title: String,
        /// What was published of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub published: Option<Published>,
        /// A density over the box coder's offsets in the place of the regression.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub density: Option<Baseline>,
        /// A confidence that the boxes climb.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub confidence: Option<ConfidenceConfig>,
    }
}

settings! {
    /// Figures on COCO test-dev.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Published {
        /// AP, AP50 and AP75 in per cent.
        pub ap: [f64; 3] where 0.0..=100.0 => "per cent",
        /// Frames per second on a TITAN Xp.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub fps: Option<f64> where 0.0..=1e5,
    }
}

settings! {
    /// The confidence branch: what it is trained by, and how boxes climb it.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct ConfidenceConfig {
        /// The loss, with the number of samples and where they come from.
        pub objective: AnyObjective,
        /// In place of [`ExperimentConfig::confidence`](super::ExperimentConfig::confidence)'s.
        pub learning_rate: f64 where 1e-9..=10.0,
        /// In which coordinates the boxes climb.
        pub coordinates: Coordinates,
        /// T of Algorithm S1.
        pub steps_per_ascent: usize where 0..=10_000,
        /// λ of Algorithm S1 for position and for size; for edges, of the upper left and of the lower right
        /// corner.
        pub step_length: [f64; 2] where 0.0..=1e3,
        /// η of Algorithm S1.
        pub step_decay: f64 where 1e-6..=1.0,
    }
}

impl MethodConfig {
    /// Whether it adds layers to the detector, which are trained.
    #[must_use]
    pub fn is_trained(&self) -> bool {
        self.density.is_some() || self.confidence.is_some()
    }

    /// How its boxes climb, where they do.
    #[must_use]
    pub fn ascent(&self) -> Option<BoxAscent> {
        self.confidence.as_ref().map(ConfidenceConfig::ascent)
    }

    /// The same, trained with samples from Eq. 5 with these standard deviations.
    ///
    /// # Errors
    /// When one of them is not positive.
    pub fn with_sigmas(&self, sigmas: &[f64]) -> Result<Self> {
        let mixture = GaussianMixture::isotropic(sigmas, 4)?;
        let confidence = self.confidence.clone().map(|confidence| ConfidenceConfig {
            objective: confidence.objective.with_gaussian(mixture),
            ..confidence
        });
        Ok(Self { confidence, ..self.clone() })
    }
}

impl ConfidenceConfig {
    /// Algorithm S1.
    #[must_use]
    pub fn ascent(&self) -> BoxAscent {
        let [position, size] = self.step_length;
        let ascent = GradientAscent {
            steps: self.steps_per_ascent,
            step_length: vec![position, position, size, size],
            decay: self.step_decay,
            rule: StepRule::Backtracking,
        };
        BoxAscent { ascent, coordinates: self.coordinates }
    }
}
