//! Predictions: p(y | x) of the rows of a table.

use candle_core::{DType, Device, Tensor};
use ebm_base::Key;
use ebm_core::rand::RngCore;
use ebm_core::{
    AdaptiveSampler, EnergyModel, GaussianMixture, Grid, GridDensity, ImportanceDensity, WeightedSamples,
};
use rayon::prelude::*;

use crate::model::{Ensemble, MemberFeatures, StudentProposal};
use crate::regressor::TabularRegressor;
use crate::target::Target;
use crate::{Encoded, Error, Result, Table};

/// Number of rows that are predicted together.
pub(crate) const BATCH_ROWS: usize = 64;
/// Factor on the number of samples for several targets.
const JOINT_FACTOR: usize = 8;
/// Standard deviations of the proposal for a baseline's density of several targets, in units of the targets' own.
const SEARCH_SIGMAS: [f64; 4] = [0.03, 0.3, 1.0, 2.0];
/// Drop of log p between two modes, in nats, from which on both count.
const PROMINENCE: f64 = 0.1;

/// Prediction for one row.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// Marginal density of each target; empty for a method without a density.
    pub targets: Vec<TargetDensity>,
    /// Point prediction of each target: the mean of its density, if the method has one.
    pub mean: Vec<f64>,
    /// log p(y | x) of all targets together, in nats and their own units; none if the row lacks a target or the method has
    /// no density.
    pub log_prob: Option<f64>,
}

/// p(y | x) of one target, in its own units.
#[derive(Clone, Debug)]
pub struct TargetDensity {
    z: GridDensity,
    target: Target,
}

impl TargetDensity {
    /// Returns the target.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Returns the mean E\[Y\].
    pub fn mean(&self) -> f64 {
        self.z.expectation(|z| self.target.decode(z))
    }

    /// Returns the quantile of y at this probability.
    ///
    /// # Errors
    /// Fails for a probability outside \[0, 1\].
    pub fn quantile(&self, probability: f64) -> Result<f64> {
        Ok(self.target.decode(self.z.quantile(probability)?))
    }

    /// Returns the modes of y, the most likely first, found on the scale of the network.
    pub fn modes(&self) -> Vec<f64> {
        self.z.modes(PROMINENCE).into_iter().map(|z| self.target.decode(z)).collect()
    }

    /// Returns the smallest region of this mass as intervals of y. Its size is measured on the scale of the network.
    ///
    /// # Errors
    /// Fails for a mass outside (0, 1\].
    pub fn region(&self, mass: f64) -> Result<Vec<[f64; 2]>> {
        let region = self.z.highest_density_region(mass)?;
        Ok(region.intervals.iter().map(|interval| interval.map(|z| self.target.decode(z))).collect())
    }

    /// Returns the total width of that region.
    ///
    /// # Errors
    /// The errors of [`region`](Self::region).
    pub fn width(&self, mass: f64) -> Result<f64> {
        Ok(self.region(mass)?.iter().map(|[from, to]| to - from).sum())
    }

    /// Returns the mass of the smallest such region that contains y; 1 if y is beyond the grid.
    pub fn mass_of(&self, y: f64) -> f64 {
        self.z.mass_above(self.z.log_prob(self.target.encode(y)))
    }

    /// Returns P(Y ≤ y).
    pub fn cdf(&self, y: f64) -> f64 {
        let [low, high] = self.target.support.bounds();
        self.z.cdf(self.target.encode(y.clamp(low, high)))
    }

    /// Returns log p(y), in nats and the units of y; −∞ beyond the grid and outside of the target's support.
    pub fn log_prob(&self, y: f64) -> f64 {
        let [low, high] = self.target.support.bounds();
        if y <= low || y >= high {
            return f64::NEG_INFINITY;
        }
        self.z.log_prob(self.target.encode(y)) + self.target.log_slope(y)
    }

    /// Computes the continuous ranked probability score (CRPS), ∫ (F(t) − 1{t ≥ y})² dt, in y's own units.
    ///
    /// # Errors
    /// Fails for a y that is not finite.
    pub fn crps(&self, y: f64) -> Result<f64> {
        let points: Vec<f64> = self.z.points().iter().map(|&z| self.target.decode(z)).collect();
        Ok(ebm_eval::calibration::crps_of_cdf(&points, self.z.cdf_values(), y)?)
    }

    /// Returns the density as pairs (y, p) for a plot.
    pub fn curve(&self) -> Vec<[f64; 2]> {
        let points = self.z.points().iter().zip(self.z.log_prob_values());
        points
            .map(|(&z, log_p)| {
                let y = self.target.decode(z);
                [y, (log_p + self.target.log_slope(y)).exp()]
            })
            .collect()
    }

    /// Draws independent samples.
    pub fn sample(&self, count: usize, rng: &mut dyn RngCore) -> Vec<f64> {
        self.z.sample(count, rng).into_iter().map(|z| self.target.decode(z)).collect()
    }
}

impl TabularRegressor {
    /// Predicts as [`predict`](Self::predict) does, a batch of rows on each core at a time. `rows` is the encoded table.
    ///
    /// # Errors
    /// [`Error::Input`] for a text in the column of a target.
    pub fn predictions(
        &self,
        table: &Table,
        rows: &Encoded,
    ) -> Result<impl Iterator<Item = Result<Prediction>>> {
        let known = self.known_targets(table)?;
        let (x, total) = (&rows.x, table.rows());
        let batch = move |start: usize| {
            let count = BATCH_ROWS.min(total - start);
            let y = |row: usize| known.iter().map(|column| column[start + row]).collect::<Option<Vec<f64>>>();
            let y: Vec<Option<Vec<f64>>> =
                (0..count).map(|row| if known.is_empty() { None } else { y(row) }).collect();
            predict_batch(self, &x.narrow(0, start, count)?, &y)
        };
        let each = move |start| match batch(start) {
            Ok(found) => found.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        };
        let together = rayon::current_num_threads() * BATCH_ROWS;
        let several = move |first| {
            let starts = (first..total.min(first + together)).into_par_iter().step_by(BATCH_ROWS);
            starts.map(&each).collect::<Vec<_>>()
        };
        Ok((0..total).step_by(together).flat_map(several).flatten())
    }

    /// Reads the targets of the rows, a list for each target; none if the table lacks one.
    ///
    /// # Errors
    /// [`Error::Input`] for a text in the column of a target.
    pub fn known_targets(&self, table: &Table) -> Result<Vec<Vec<Option<f64>>>> {
        let known = |target: &Target| match table.column(&target.name) {
            Ok(_) => Target::read(&target.spec(), table).map(Some),
            Err(_) => Ok(None),
        };
        let known = self.fitted().targets.iter().map(known).collect::<Result<Option<Vec<_>>>>();
        Ok(known?.unwrap_or_default())
    }

    /// Computes log p(y | x) of rows x (B, F) by `ensemble`, some of the networks, in nats and y's own units.
    pub(crate) fn log_probs(&self, ensemble: &Ensemble, x: &Tensor, y: &[Vec<f64>]) -> Result<Vec<f64>> {
        let batch = |(place, y): (usize, &[Vec<f64>])| {
            let x = x.narrow(0, place * BATCH_ROWS, y.len())?;
            let mut rng = Key::new(self.fitted().seed).split("prediction").rng();
            let features = ensemble.features(&x, num_samples(self), &mut rng)?;
            let y: Vec<Option<Vec<f64>>> = y.iter().cloned().map(Some).collect();
            log_probs(ensemble, &features, &self.fitted().targets, &y)
        };
        let found = y.chunks(BATCH_ROWS).enumerate().map(batch).collect::<Result<Vec<_>>>()?;
        Ok(found.into_iter().flatten().flatten().collect())
    }
}

/// Returns the number of samples for the estimate of Z.
fn num_samples(regressor: &TabularRegressor) -> usize {
    regressor.config().density.samples * if regressor.fitted().targets.len() == 1 { 1 } else { JOINT_FACTOR }
}

/// Predicts a batch of rows, with log p of the rows that have targets.
fn predict_batch(
    regressor: &TabularRegressor,
    x: &Tensor,
    y: &[Option<Vec<f64>>],
) -> Result<Vec<Prediction>> {
    let (ensemble, config) = (regressor.ensemble(), regressor.config());
    let fitted = regressor.fitted();
    let (targets, dim) = (&fitted.targets, fitted.targets.len());
    let mut rng = Key::new(fitted.seed).split("prediction").rng();
    let samples = num_samples(regressor);
    let features = ensemble.features(x, samples, &mut rng)?;
    if !regressor.has_density()? {
        let location = ensemble.location(&features)?.to_dtype(DType::F64)?.to_vec2::<f64>()?;
        let decoded = |z: Vec<f64>| targets.iter().zip(z).map(|(target, z)| target.decode(z)).collect();
        let predictions =
            location.into_iter().map(|z| Prediction { targets: vec![], mean: decoded(z), log_prob: None });
        return Ok(predictions.collect());
    }
    let log_probs = log_probs(ensemble, &features, targets, y)?;
    let densities = if dim == 1 {
        let [low, high] = targets[0].shown();
        let grid = Grid::new(low, high, config.density.points)?;
        ensemble
            .bind(&features, y.len())
            .adaptive_grid(&grid)?
            .into_iter()
            .map(|density| vec![density])
            .collect()
    } else {
        marginals(ensemble, &features, samples, dim, &mut rng)?
    };
    let prediction = |(densities, log_prob): (Vec<GridDensity>, Option<f64>)| {
        let of = |(z, target): (GridDensity, &Target)| TargetDensity { z, target: target.clone() };
        let densities: Vec<TargetDensity> = densities.into_iter().zip(targets).map(of).collect();
        let mean = densities.iter().map(TargetDensity::mean).collect();
        Prediction { targets: densities, mean, log_prob }
    };
    Ok(densities.into_iter().zip(log_probs).map(prediction).collect())
}

/// Computes log p(y | x) of the rows with known y.
fn log_probs(
    ensemble: &Ensemble,
    features: &Vec<MemberFeatures>,
    targets: &[Target],
    y: &[Option<Vec<f64>>],
) -> Result<Vec<Option<f64>>> {
    let mut z = Vec::with_capacity(y.len() * targets.len());
    for y in y {
        match y {
            Some(y) => z.extend(targets.iter().zip(y).map(|(target, y)| target.encode(*y) as f32)),
            None => z.extend(targets.iter().map(|_| 0.0)),
        }
    }
    let z = Tensor::from_vec(z, (y.len(), 1, targets.len()), &Device::Cpu)?;
    let log_p = ensemble.score(features, &z)?.squeeze(1)?.to_dtype(DType::F64)?.to_vec1::<f64>()?;
    let slope = |y: &Vec<f64>| targets.iter().zip(y).map(|(target, y)| target.log_slope(*y)).sum::<f64>();
    Ok(y.iter().zip(log_p).map(|(y, log_p)| y.as_ref().map(|y| log_p + slope(y))).collect())
}

/// Computes the marginal densities of several targets by importance sampling: about the networks' own estimates, or,
/// for a baseline, with an adaptive proposal.
fn marginals(
    ensemble: &Ensemble,
    features: &Vec<MemberFeatures>,
    samples: usize,
    dim: usize,
    rng: &mut dyn RngCore,
) -> Result<Vec<Vec<GridDensity>>> {
    let found = match proposal(features)? {
        Some(proposal) => {
            let center = proposal.location.squeeze(1)?;
            ImportanceDensity::from_model(ensemble, features, &proposal, &center, samples, rng)?
        }
        None => {
            let proposal = GaussianMixture::isotropic(&SEARCH_SIGMAS, dim)?;
            let center = ensemble.location(features)?;
            AdaptiveSampler::new(samples).densities(ensemble, features, &proposal, &center, rng)?
        }
    };
    let marginal = |density: &ImportanceDensity, k: usize| {
        let values = density.samples().map(|sample| [sample[k]]).collect();
        WeightedSamples::<1>::new(density, values)?.marginal(0)
    };
    let row = |density: &ImportanceDensity| {
        (0..dim).map(|k| marginal(density, k)).collect::<ebm_core::Result<Vec<_>>>().map_err(Error::from)
    };
    found.iter().map(row).collect()
}

/// Returns a proposal about the mean of all networks' estimates that is wide enough for each; none for a baseline.
fn proposal(features: &[MemberFeatures]) -> Result<Option<StudentProposal>> {
    let parts = features.iter().map(|features| match features {
        MemberFeatures::Energy { features, .. } => {
            Some((features.location.clone(), features.log_scale.clone()))
        }
        MemberFeatures::Outputs(_) => None,
    });
    let Some(parts) = parts.collect::<Option<Vec<_>>>() else { return Ok(None) };
    let (locations, log_scales): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
    let locations = Tensor::stack(&locations, 0)?;
    let location = locations.mean(0)?;
    let between = locations.broadcast_sub(&location)?.sqr()?.mean(0)?;
    let within = (Tensor::stack(&log_scales, 0)? * 2.0)?.exp()?.mean(0)?;
    Ok(Some(StudentProposal { location, log_scale: ((between + within)?.log()? * 0.5)? }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Support, TargetSpec};

    /// A standard normal z of a target above 0, so that log y is normal: closed forms of each figure.
    #[test]
    fn figures_of_a_log_normal_target_have_closed_forms() {
        let spec = TargetSpec { support: Support::Positive, ..TargetSpec::real("y") };
        // log y is −1 and 1 as often: z = log y.
        let target = Target::find(&spec, &[(-1f64).exp(), 1f64.exp()], "test").unwrap();
        let grid = Grid::new(-9.0, 9.0, 4001).unwrap();
        let f: Vec<f64> = grid.points().iter().map(|z| -0.5 * z * z).collect();
        let density = TargetDensity { z: GridDensity::from_scores(&grid, &f).unwrap(), target };
        let close =
            |found: f64, expected: f64| assert!((found - expected).abs() < 2e-3, "{found} {expected}");
        close(density.mean(), 0.5f64.exp());
        close(density.quantile(0.5).unwrap(), 1.0);
        // P(|Z| < 1), P(Z < 1) and P(Z < −1).
        close(density.mass_of(1f64.exp()), 0.682_689);
        close(density.mass_of((-1f64).exp()), 0.682_689);
        close(density.cdf(1f64.exp()), 0.841_345);
        close(density.cdf((-1f64).exp()), 0.158_655);
        close(density.width(0.682_689).unwrap(), 1f64.exp() - (-1f64).exp());
        let curve = density.curve();
        let area: f64 =
            curve.windows(2).map(|ends| 0.5 * (ends[1][0] - ends[0][0]) * (ends[0][1] + ends[1][1])).sum();
        close(area, 1.0);
        close(density.log_prob(1.0), -0.5 * std::f64::consts::TAU.ln());
        assert_eq!([0.0, -1.0, f64::INFINITY].map(|y| density.log_prob(y)), [f64::NEG_INFINITY; 3]);
        assert_eq!([-1.0, 0.0, f64::INFINITY].map(|y| density.cdf(y)), [0.0, 0.0, 1.0]);
        // The density of y at 1, whose z is 0.
        let [_, p] = curve[2000];
        close(p, 1.0 / std::f64::consts::TAU.sqrt());
    }
}
