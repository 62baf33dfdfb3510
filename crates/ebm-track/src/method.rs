//! The rows of Table 3: how the box module is trained, and with what it refines boxes.

use ebm_core::{AnyObjective, GaussianMixture, GradientAscent, StepRule};
use ebm_experiment::config::{Setting, settings};
use serde::{Deserialize, Serialize};

use crate::Result;

settings! {
    /// How the box module is trained, and with what it refines boxes.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct MethodConfig {
        /// Its name in result files.
        pub key: String,
        /// Its name in tables.
        pub title: String,
        /// Its row of Table 3.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub published: Option<Published>,
        /// The loss, with the number of samples and where they come from.
        pub objective: AnyObjective,
        /// How boxes are refined in prediction.
        pub refinement: Refinement,
    }

    /// A row of Table 3, in percent.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Published {
        /// Precision, normalised precision and success on TrackingNet's test set.
        pub tracking_net: [f64; 3] where 0.0..=100.0 => "per cent",
        /// OP50, OP75 and AUC on UAV123.
        pub uav123: [f64; 3] where 0.0..=100.0 => "per cent",
    }

    /// Another tracker, as Table 3 quotes it, in percent.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct RivalConfig {
        /// Its name.
        pub name: String,
        /// Precision, normalised precision and success on TrackingNet's test set.
        pub tracking_net: [f64; 3] where 0.0..=100.0 => "per cent",
        /// On UAV123.
        #[serde(default)]
        pub uav123: Quoted,
    }

    /// Figures in percent, none where the table has a dash.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Quoted {
        /// OP50.
        pub op50: Option<f64> where 0.0..=100.0 => "per cent",
        /// OP75.
        pub op75: Option<f64> where 0.0..=100.0 => "per cent",
        /// AUC.
        pub auc: Option<f64> where 0.0..=100.0 => "per cent",
    }
}

impl MethodConfig {
    /// The same, trained with samples from Eq. 5 with these standard deviations.
    ///
    /// # Errors
    /// When one of them is not positive.
    pub fn with_sigmas(&self, sigmas: &[f64]) -> Result<Self> {
        let objective = self.objective.clone().with_gaussian(GaussianMixture::isotropic(sigmas, 4)?);
        Ok(Self { objective, ..self.clone() })
    }

    /// The narrowest component of Eq. 5 as f is trained with, where exp f is trained to be a density: so near to
    /// a box f is known well, and far from it exp f need not fall.
    pub fn proposal(&self) -> Option<GaussianMixture> {
        let mixture = match &self.objective {
            AnyObjective::Quality(_) | AnyObjective::SquaredQuality(_) => None,
            objective => objective.gaussian(),
        }?;
        let widest = |sigmas: &&Vec<f64>| sigmas.iter().copied().fold(0.0, f64::max);
        let narrowest = mixture.sigmas().iter().min_by(|a, b| widest(a).total_cmp(&widest(b)))?;
        GaussianMixture::new(vec![narrowest.clone()]).ok()
    }
}

/// The coordinates in which boxes are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepCoordinates {
    /// [`PixelSteps`](crate::box_module::PixelSteps): ATOM.
    Pixels,
    /// `(c_x/w₀, c_y/h₀, log w, log h)`, w₀ and h₀ being the size of the first of the initial boxes: the
    /// paper.
    Relative,
}

impl Setting for StepCoordinates {}

settings! {
    /// Gradient ascent on f with steps that are always taken.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Refinement {
        /// In which coordinates.
        pub coordinates: StepCoordinates,
        /// T.
        pub steps: usize where 0..=10_000,
        /// λ for position and for size.
        pub step_length: [f64; 2] where 0.0..=1e3,
    }
}

impl Refinement {
    /// The same with step lengths `factor` times as long.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        Self { step_length: self.step_length.map(|length| length * factor), ..self.clone() }
    }

    /// The same for [`refine`](ebm_core::refine).
    pub fn ascent(&self) -> GradientAscent {
        let [position, size] = self.step_length;
        let step_length = vec![position, position, size, size];
        GradientAscent { steps: self.steps, step_length, decay: 1.0, rule: StepRule::Plain }
    }
}
