//! Settings of a method: a row of Table 2.

use ebm_core::{AnyObjective, GaussianMixture, GradientAscent, StepRule, parametric::Baseline};
use ebm_experiment::config::settings_table;

use crate::{Result, energy_head::Coordinates, inference::BoxAscent};

settings_table! {
    /// Method of placing detections' boxes. Without a density and a confidence, it is the detector's regression.
    pub struct MethodConfig {
        /// Name of the method in result files.
        pub key: String,
        /// Name of the method in tables.
        pub title: String,
        /// Published figures.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub published: Option<Published>,
        /// Density over the box coder's offsets, which replaces the regression.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub density: Option<Baseline>,
        /// Confidence that boxes are refined by.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub confidence: Option<ConfidenceConfig>,
    }

    /// Published figures on COCO test-dev.
    #[derive(Copy)]
    pub struct Published {
        /// AP, AP50 and AP75 in per cent.
        pub ap: [f64; 3] where 0.0..=100.0 => "per cent",
        /// Frames per second on a TITAN Xp.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub fps: Option<f64> where 0.0..=1e5,
    }

    /// Settings of a confidence branch: its training objective, and its gradient ascent.
    pub struct ConfidenceConfig {
        /// Loss, with the number of samples and their proposal.
        pub objective: AnyObjective,
        /// Learning rate, in place of that in [`ExperimentConfig::confidence`](super::ExperimentConfig::confidence).
        pub learning_rate: f64 where 1e-9..=10.0,
        /// Coordinates of gradient ascent.
        pub coordinates: Coordinates,
        /// T of Algorithm S1.
        pub steps_per_ascent: usize where 0..=10_000,
        /// λ of Algorithm S1 for position and for size; in edge coordinates, for the upper left and for the lower
        /// right corner.
        pub step_length: [f64; 2] where 0.0..=1e3,
        /// η of Algorithm S1.
        pub step_decay: f64 where 1e-6..=1.0,
    }
}

impl MethodConfig {
    /// Returns `true` if the method adds layers to the detector, which are trained.
    pub fn is_trained(&self) -> bool {
        self.density.is_some() || self.confidence.is_some()
    }

    /// Returns the settings of gradient ascent; `None` for a method that does not refine boxes.
    pub fn ascent(&self) -> Option<BoxAscent> {
        self.confidence.as_ref().map(ConfidenceConfig::ascent)
    }

    /// Returns the method trained with samples from Eq. 5 with the standard deviations `sigmas`.
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
    /// Returns the settings of Algorithm S1.
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
