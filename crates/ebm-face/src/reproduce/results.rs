//! Results of a reproduction.

use ebm_core::GridDensity;
use ebm_eval::AbsoluteError;
use ebm_experiment::{Calibration, PairedDifference};
use serde::{Deserialize, Serialize};

/// Errors of one method and one seed, before or after refinement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Number of the fold, if the people are divided into folds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold: Option<usize>,
    /// Key of the method.
    pub method: String,
    /// Whether the estimates were refined with f of the same seed.
    pub refined: bool,
    /// Seed.
    pub seed: u64,
    /// Mean absolute error, averaged over the coordinates, in the unit of y.
    pub mae: f64,
    /// Mean absolute error of each coordinate.
    #[serde(rename = "mae_by_coordinate")]
    pub coordinates: Vec<f64>,
    /// Mean of −log p(y | x), in nats, if the method has a density.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nll: Option<f64>,
}

impl Row {
    /// Makes a row from the error of the estimates.
    pub fn new(method: &str, refined: bool, seed: u64, error: AbsoluteError) -> Self {
        Self {
            fold: None,
            method: method.to_owned(),
            refined,
            seed,
            mae: error.mean,
            coordinates: error.coordinates,
            nll: None,
        }
    }
}

/// A row of an ablation of the energy model: the validation error of the baselines of seed 0, refined by an energy
/// model that was trained with other settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AblationRow {
    /// Standard deviations σ_l of Eq. 5, if these are varied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sigmas: Vec<f64>,
    /// Key of the objective, if this is varied. `ebm` is the objective of the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<String>,
    /// Step length λ that was best on the validation split.
    pub step_length: f64,
    /// MAE on the validation split, averaged over the refined baselines of seed 0.
    pub mae: f64,
    /// MAE before refinement, averaged likewise.
    pub mae_before: f64,
    /// Number of baselines whose error is lower after refinement.
    pub lowered: usize,
    /// MAE in the paper.
    #[serde(rename = "published_mae", default, skip_serializing_if = "Option::is_none")]
    pub published: Option<f64>,
}

/// Change of the absolute error by refinement, in the unit of y, paired by image, over all images and seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PairedRow {
    /// Number of the fold, as in [`Row`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fold: Option<usize>,
    /// Key of the method.
    pub method: String,
    /// Difference of the errors, refined minus unrefined.
    #[serde(flatten)]
    pub difference: PairedDifference,
}

/// Quality of the densities of one network, for one coordinate of y.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DensityRow {
    /// Number of the fold, as in [`Row`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fold: Option<usize>,
    /// Key of the method.
    pub method: String,
    /// Seed.
    pub seed: u64,
    /// Name of the coordinate.
    pub coordinate: String,
    /// Likelihood, coverage and width on the images of the results, calibrated on the validation images.
    #[serde(flatten)]
    pub calibration: Calibration,
    /// Mean absolute error, in the unit of y, over the fraction [`ANSWERED`](Self::ANSWERED) of the images with the
    /// narrowest 50 % regions. The estimate is a baseline's before refinement, or the energy model's median.
    pub risk_coverage: Vec<f64>,
}

impl DensityRow {
    /// Fractions of the images in [`risk_coverage`](Self::risk_coverage).
    pub const ANSWERED: [f64; 4] = [0.25, 0.5, 0.75, 1.0];
}

/// An image with its target, estimates and densities.
#[derive(Clone, Debug)]
pub struct Example {
    /// Index among the images of the results.
    pub index: usize,
    /// Reason for the choice of this image, such as `certain`.
    pub reason: &'static str,
    /// Target y, D numbers.
    pub target: Vec<f64>,
    /// Estimate of a baseline, before and after refinement.
    pub estimate: [Vec<f64>; 2],
    /// Density p(y | x) of each coordinate by the energy model.
    pub density: Vec<GridDensity>,
}

/// Results of a reproduction.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// Errors, one row for each method and seed, before and after refinement.
    pub rows: Vec<Row>,
    /// Quality of the densities, one row for each method, seed and coordinate with a density, if the validation
    /// images are not the images of the results.
    pub calibration: Vec<DensityRow>,
    /// Changes by refinement, one row for each method that was refined.
    pub paired: Vec<PairedRow>,
    /// Ablation, one row for each energy model, if [`Options::ablation`](super::Options::ablation) is set.
    pub ablation: Vec<AblationRow>,
    /// A few images with their densities, from the first seed.
    #[serde(skip)]
    pub examples: Vec<Example>,
    /// Step length λ that the validation split chose, or the one of each fold.
    pub step_lengths: Vec<f64>,
    /// Number of images that the rows are computed on.
    pub images: usize,
    /// Name of the split that the rows are computed on: `test`, `validation` or `report`.
    #[serde(rename = "split")]
    pub part: &'static str,
}

impl Outcome {
    /// Adds the results `found` of the fold number `fold`.
    pub(super) fn join(&mut self, fold: usize, mut found: Self) {
        found.rows.iter_mut().for_each(|row| row.fold = Some(fold));
        found.calibration.iter_mut().for_each(|row| row.fold = Some(fold));
        found.paired.iter_mut().for_each(|row| row.fold = Some(fold));
        if fold == 0 {
            (self.examples, self.part) = (found.examples, found.part);
        }
        self.rows.extend(found.rows);
        self.calibration.extend(found.calibration);
        self.paired.extend(found.paired);
        self.step_lengths.extend(found.step_lengths);
        self.images += found.images;
    }

    /// Returns the step length λ if all rows have the same one.
    pub fn step_length(&self) -> Option<f64> {
        <[f64; 1]>::try_from(self.step_lengths.as_slice()).ok().map(|[one]| one)
    }
}
