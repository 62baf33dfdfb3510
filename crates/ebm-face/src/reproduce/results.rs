//! What a reproduction finds.

use ebm_core::GridDensity;
use ebm_eval::AbsoluteError;
use ebm_experiment::{Calibration, PairedDifference};
use serde::{Deserialize, Serialize};

/// One method, one seed, before or after refinement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Which part of the people was left for the results, where they are divided into folds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold: Option<usize>,
    /// The method's key.
    pub method: String,
    /// Whether its estimates were refined with f of the same seed.
    pub refined: bool,
    /// The seed.
    pub seed: u64,
    /// The mean absolute error, averaged over the coordinates, in the units of y.
    pub mae: f64,
    /// The same of each coordinate.
    #[serde(rename = "mae_by_coordinate")]
    pub coordinates: Vec<f64>,
    /// The mean of −log p(y | x), in nats, where the method has a density.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nll: Option<f64>,
}

impl Row {
    /// A row with the error of its estimates.
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

/// A row of a study of the energy model: the validation error of the baselines of seed 0, refined by one that was
/// trained otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AblationRow {
    /// σ_l of Eq. 5, where these are varied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sigmas: Vec<f64>,
    /// The key of the objective, where this is varied; `ebm` is the table's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<String>,
    /// λ that was best on the validation split.
    pub step_length: f64,
    /// MAE on the validation split, the mean over the refined baselines of seed 0.
    pub mae: f64,
    /// The same before refinement.
    pub mae_before: f64,
    /// How many of the baselines have a lower error refined.
    pub lowered: usize,
    /// The paper's figure.
    #[serde(rename = "published_mae", default, skip_serializing_if = "Option::is_none")]
    pub published: Option<f64>,
}

/// The change of the absolute error of the same image by refinement, over all images and seeds: refined less unrefined,
/// in the unit of y.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PairedRow {
    /// As in [`Row`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fold: Option<usize>,
    /// The method's key.
    pub method: String,
    /// The difference.
    #[serde(flatten)]
    pub difference: PairedDifference,
}

/// How good the densities of one network are, for one coordinate of y.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DensityRow {
    /// As in [`Row`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fold: Option<usize>,
    /// The method's key.
    pub method: String,
    /// The seed.
    pub seed: u64,
    /// The name of the coordinate.
    pub coordinate: String,
    /// Likelihood, coverage and width on the images of the results, calibrated on those of validation.
    #[serde(flatten)]
    pub calibration: Calibration,
    /// The mean absolute error, in the unit of y, over the share [`ANSWERED`](Self::ANSWERED) of the images
    /// whose 50 % regions are narrowest: of a baseline's estimate before refinement, of the median of the
    /// energy model's density.
    pub risk_coverage: Vec<f64>,
}

impl DensityRow {
    /// The shares of [`risk_coverage`](Self::risk_coverage).
    pub const ANSWERED: [f64; 4] = [0.25, 0.5, 0.75, 1.0];
}

/// One image with all that is known of its y.
#[derive(Clone, Debug)]
pub struct Example {
    /// Its place among the images of the results.
    pub index: usize,
    /// Why it was chosen.
    pub reason: &'static str,
    /// y, D numbers.
    pub target: Vec<f64>,
    /// A baseline's estimate, before and after refinement.
    pub estimate: [Vec<f64>; 2],
    /// p(y | x) of each coordinate by the energy model.
    pub density: Vec<GridDensity>,
}

/// What a reproduction finds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// One for each method, seed, before and after refinement.
    pub rows: Vec<Row>,
    /// One for each method, seed and coordinate with a density, where there are validation images beside
    /// those of the results.
    pub calibration: Vec<DensityRow>,
    /// One for each method that was refined.
    pub paired: Vec<PairedRow>,
    /// One for each energy model of a study, where asked for.
    pub ablation: Vec<AblationRow>,
    /// A few images with their densities, by the first seed.
    #[serde(skip)]
    pub examples: Vec<Example>,
    /// λ, chosen on the validation split; of each fold, where there are folds.
    pub step_lengths: Vec<f64>,
    /// How many images the rows are of.
    pub images: usize,
    /// The split that the rows are of: `test`, `validation` or `report`.
    #[serde(rename = "split")]
    pub part: &'static str,
}

impl Outcome {
    /// Adds what was `found` of one of the folds.
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

    /// λ, where all rows have the same.
    pub fn step_length(&self) -> Option<f64> {
        <[f64; 1]>::try_from(self.step_lengths.as_slice()).ok().map(|[one]| one)
    }
}
