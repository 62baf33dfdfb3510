//! Evaluation of predictions on rows with known y.

use ebm_core::{EnergyModel, GradientAscent};
use ebm_eval::calibration::calibration_error;
use serde::Serialize;

use crate::regressor::{Complete, TabularRegressor, complete};
use crate::target::{Target, TargetSpec};
use crate::{Error, Prediction, Result, Table};

/// Figures of a fit on some rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// Number of rows that have all targets.
    pub samples: usize,
    /// Mean of log p(y | x) of all targets together, in nats and in their own units; none without a density.
    pub log_likelihood: Option<f64>,
    /// Standard error of `log_likelihood` over the rows.
    pub log_likelihood_error: Option<f64>,
    /// Figures of each target.
    pub targets: Vec<TargetEvaluation>,
    /// log p of each row.
    #[serde(skip)]
    pub log_probs: Vec<f64>,
}

/// Figures of one target, in its own units.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TargetEvaluation {
    /// Name of the target.
    pub name: String,
    /// Root of the mean squared error of the mean.
    pub rmse: f64,
    /// Mean absolute error of the median, or of the prediction without a density.
    pub mae: f64,
    /// Figures of the densities; none without a density.
    pub density: Option<DensityEvaluation>,
}

/// Figures of a target's densities.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DensityEvaluation {
    /// Mean continuous ranked probability score.
    pub crps: f64,
    /// Expected calibration error: the mean |observed − nominal| frequency of y below quantiles.
    pub ece: f64,
    /// Fraction of y in the predicted 90 % region.
    pub coverage: f64,
    /// Mean width of the predicted 90 % regions.
    pub width: f64,
    /// Fraction of y in the calibrated 90 % region.
    pub conformal_coverage: f64,
    /// Mean width of the calibrated 90 % regions.
    pub conformal_width: f64,
    /// Fraction of y in the predicted 50 % region.
    pub coverage_50: f64,
    /// Fraction of y in the calibrated 50 % region.
    pub conformal_coverage_50: f64,
    /// F(y) of each row.
    #[serde(skip)]
    pub pit: Vec<f64>,
}

/// Evaluates `regressor` on the rows of `table` that have all targets.
///
/// # Errors
/// [`Error::Input`] without such a row, and the errors of [`TabularRegressor::predict`].
pub fn evaluate(regressor: &TabularRegressor, table: &Table) -> Result<Evaluation> {
    evaluate_predictions(regressor, table, &regressor.predict(table)?)
}

/// Evaluates `predictions`, one for each row of `table`, on the rows that have all targets.
///
/// # Errors
/// [`Error::Input`] without such a row.
pub fn evaluate_predictions(
    regressor: &TabularRegressor,
    table: &Table,
    predictions: &[Prediction],
) -> Result<Evaluation> {
    let targets = &regressor.fitted().targets;
    let Complete { y, rows, .. } = complete_rows(targets, table)?;
    let predictions: Vec<&Prediction> = rows.iter().map(|row| &predictions[*row]).collect();
    let log_probs: Vec<f64> = predictions.iter().filter_map(|prediction| prediction.log_prob).collect();
    let count = y.len() as f64;
    let mut found = Vec::new();
    for (k, target) in targets.iter().enumerate() {
        let y: Vec<f64> = y.iter().map(|values| values[k]).collect();
        let squares = predictions.iter().zip(&y).map(|(prediction, y)| (prediction.mean[k] - y).powi(2));
        let rmse = (squares.sum::<f64>() / count).sqrt();
        let densities: Vec<_> =
            predictions.iter().filter_map(|prediction| prediction.targets.get(k)).collect();
        let mut absolute = 0.0;
        for (prediction, y) in predictions.iter().zip(&y) {
            let middle = match prediction.targets.get(k) {
                Some(density) => density.quantile(0.5)?,
                None => prediction.mean[k],
            };
            absolute += (middle - y).abs();
        }
        let density =
            if densities.is_empty() { None } else { Some(density_figures(regressor, k, &densities, &y)?) };
        found.push(TargetEvaluation { name: target.name.clone(), rmse, mae: absolute / count, density });
    }
    let has_density = !log_probs.is_empty();
    let mean = log_probs.iter().sum::<f64>() / count;
    let variance = log_probs.iter().map(|log_p| (log_p - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    Ok(Evaluation {
        samples: y.len(),
        log_likelihood: has_density.then_some(mean),
        log_likelihood_error: (has_density && y.len() > 1).then(|| (variance / count).sqrt()),
        targets: found,
        log_probs,
    })
}

/// Selects the rows that have all targets, at least one.
pub(crate) fn complete_rows(targets: &[Target], table: &Table) -> Result<Complete> {
    let found = complete(table, &targets.iter().map(Target::spec).collect::<Vec<TargetSpec>>())?;
    if found.y.is_empty() {
        return Err(Error::input("an evaluation", "0 rows, and at least 1 are needed"));
    }
    Ok(found)
}

fn density_figures(
    regressor: &TabularRegressor,
    target: usize,
    densities: &[&crate::TargetDensity],
    y: &[f64],
) -> Result<DensityEvaluation> {
    let count = y.len() as f64;
    let pit: Vec<f64> = densities.iter().zip(y).map(|(density, y)| density.cdf(*y)).collect();
    let masses: Vec<f64> = densities.iter().zip(y).map(|(density, y)| density.mass_of(*y)).collect();
    let within = |mass: f64| masses.iter().filter(|&&own| own <= mass).count() as f64 / count;
    let width = |mass: f64| {
        let widths = densities.iter().map(|density| density.width(mass)).collect::<Result<Vec<_>>>()?;
        Ok::<_, Error>(widths.iter().sum::<f64>() / count)
    };
    let crps = densities.iter().zip(y).map(|(density, y)| density.crps(*y)).collect::<Result<Vec<_>>>()?;
    let levels: Vec<f64> = (1..20).map(|level| f64::from(level) / 20.0).collect();
    let [mass, mass_50] = [regressor.mass(target, 0.9)?, regressor.mass(target, 0.5)?];
    Ok(DensityEvaluation {
        crps: crps.iter().sum::<f64>() / count,
        ece: calibration_error(&pit, &levels)?,
        coverage: within(0.9),
        width: width(0.9)?,
        conformal_coverage: within(mass),
        conformal_width: width(mass)?,
        coverage_50: within(0.5),
        conformal_coverage_50: within(mass_50),
        pit,
    })
}

/// Refines the predictions of `baseline` by gradient ascent on the f of `energy` (Algorithm S1). Returns the root mean
/// squared error of each target, before and after.
///
/// # Errors
/// Fails if the two were fitted to different targets or rows, and with the errors of the refinement.
pub fn refined_rmse(
    energy: &TabularRegressor,
    baseline: &TabularRegressor,
    table: &Table,
) -> Result<Vec<[f64; 2]>> {
    let (targets, own) = (&energy.fitted().targets, &baseline.fitted().targets);
    if targets != own {
        let reason = "it was fitted to other targets or rows than the energy model";
        return Err(Error::input(format!("the baseline {}", baseline.fitted().method), reason));
    }
    let Complete { table, y, .. } = complete_rows(targets, table)?;
    let x = energy.encode(&table)?.x;
    let mut rng = ebm_base::Key::new(energy.fitted().seed).split("refinement").rng();
    let features = energy.ensemble().features(&x, energy.config().density.samples, &mut rng)?;
    let initial = baseline.predict(&table)?;
    let z: Vec<f32> = initial
        .iter()
        .flat_map(|prediction| {
            targets.iter().zip(&prediction.mean).map(|(target, y)| target.encode(*y) as f32)
        })
        .collect();
    let z = candle_core::Tensor::from_vec(z, (y.len(), 1, targets.len()), &candle_core::Device::Cpu)?;
    let ascent: &GradientAscent = &energy.config().refinement;
    let refined = energy.ensemble().bind(&features, y.len()).refine(&z, ascent)?;
    let refined = refined.y.squeeze(1)?.to_dtype(candle_core::DType::F64)?.to_vec2::<f64>()?;
    let root = |squares: f64| (squares / y.len() as f64).sqrt();
    let pair = |k: usize| {
        let [mut before, mut after] = [0.0, 0.0];
        for (place, prediction) in initial.iter().enumerate() {
            before += (prediction.mean[k] - y[place][k]).powi(2);
            after += (targets[k].decode(refined[place][k]) - y[place][k]).powi(2);
        }
        [root(before), root(after)]
    };
    Ok((0..targets.len()).map(pair).collect())
}
