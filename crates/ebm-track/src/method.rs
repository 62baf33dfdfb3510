//! Rows of Table 3: training of the box module, and refinement of boxes.

use ebm_core::{AnyObjective, GaussianMixture, GradientAscent, StepRule};
use ebm_experiment::config::{Setting, settings_table};
use serde::{Deserialize, Serialize};

use crate::Result;

settings_table! {
    /// A method of Table 3: training of the box module, and refinement of boxes.
    pub struct MethodConfig {
        /// Name in result files.
        pub key: String,
        /// Name in tables.
        pub title: String,
        /// Figures in Table 3.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub published: Option<Published>,
        /// Loss, with the number and the proposal of its samples.
        pub objective: AnyObjective,
        /// Refinement of boxes in prediction.
        pub refinement: Refinement,
    }

    /// A row of Table 3, in percent.
    #[derive(Copy)]
    pub struct Published {
        /// Precision, normalised precision and success on TrackingNet's test set.
        pub tracking_net: [f64; 3] where 0.0..=100.0 => "per cent",
        /// OP50, OP75 and AUC on UAV123.
        pub uav123: [f64; 3] where 0.0..=100.0 => "per cent",
    }

    /// Another tracker, as Table 3 quotes it, in percent.
    pub struct RivalConfig {
        /// Name of the tracker.
        pub name: String,
        /// Precision, normalised precision and success on TrackingNet's test set.
        pub tracking_net: [f64; 3] where 0.0..=100.0 => "per cent",
        /// OP50, OP75 and AUC on UAV123.
        #[serde(default)]
        pub uav123: Quoted,
    }

    /// Figures in percent. A missing figure is a dash in the table.
    #[derive(Copy, Default)]
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
    /// Returns this method, trained with samples of Eq. 5 with the standard deviations `sigmas`.
    ///
    /// # Errors
    /// When a standard deviation is not positive.
    pub fn with_sigmas(&self, sigmas: &[f64]) -> Result<Self> {
        let objective = self.objective.clone().with_gaussian(GaussianMixture::isotropic(sigmas, 4)?);
        Ok(Self { objective, ..self.clone() })
    }

    /// Returns the proposal of p(y|x) in tracking, if exp f is trained as a density: the narrowest component of Eq. 5 in
    /// training, and one that is four times as wide. Near a box f is known well; far from it, exp f may not fall.
    pub fn proposal(&self) -> Option<GaussianMixture> {
        let mixture = self.objective.density_proposal()?;
        let widest = |sigmas: &&Vec<f64>| sigmas.iter().copied().fold(0.0, f64::max);
        let narrowest = mixture.sigmas().iter().min_by(|a, b| widest(a).total_cmp(&widest(b)))?;
        let wide = narrowest.iter().map(|sigma| WIDER * sigma).collect();
        GaussianMixture::new(vec![narrowest.clone(), wide]).ok()
    }
}

/// Chosen on five sequences, by the effective sample size and the widths of calibrated bands.
const WIDER: f64 = 4.0;

/// Coordinates in which boxes are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepCoordinates {
    /// Pixels, as in ATOM: [`PixelSteps`](crate::box_module::PixelSteps).
    Pixels,
    /// Relative coordinates, as in the paper: `(c_x/w₀, c_y/h₀, log w, log h)`. w₀ and h₀ are the size of the first
    /// initial box.
    Relative,
}

impl Setting for StepCoordinates {}

settings_table! {
    /// Gradient ascent on f with steps that are always taken.
    pub struct Refinement {
        /// Coordinates of the steps.
        pub coordinates: StepCoordinates,
        /// T, the number of steps.
        pub steps: usize where 0..=1000,
        /// Step length λ for position and for size.
        pub step_length: [f64; 2] where 0.0..=1e3,
    }
}

impl Refinement {
    /// Returns this refinement with its step lengths multiplied by `factor`.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        Self { step_length: self.step_length.map(|length| length * factor), ..self.clone() }
    }

    /// Returns this refinement for [`refine`](ebm_core::refine).
    pub fn ascent(&self) -> GradientAscent {
        let [position, size] = self.step_length;
        let step_length = vec![position, position, size, size];
        GradientAscent { steps: self.steps, step_length, decay: 1.0, rule: StepRule::Plain }
    }
}
