//! Fitting: from a table to densities.

mod folder;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ebm_base::Key;
use ebm_eval::calibration::SplitConformal;
use ebm_nn::params::ParamStore;
use rand::seq::SliceRandom;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::config::{Built, TabularConfig};
use crate::features::{ColumnRoles, Encoded, Features};
use crate::model::{Ensemble, Network, Shape};
use crate::prediction::Prediction;
use crate::target::{Target, TargetSpec};
use crate::training::{Rows, Trained, train};
use crate::{Error, Result, Table};

/// Options of a fit: the targets, the roles of the other columns, and the method.
#[derive(Clone, Debug)]
pub struct FitOptions {
    /// One to three columns to predict.
    pub targets: Vec<TargetSpec>,
    /// Roles of the other columns.
    pub roles: ColumnRoles,
    /// Column of weights, which is no input. Training draws rows with probabilities in proportion to these.
    pub weight: Option<String>,
    /// Key of the method.
    pub method: String,
    /// Seed of all random choices.
    pub seed: u64,
    /// Smallest number of rows for a fit; by default 20.
    pub min_rows: usize,
    /// Ends the fit with an error once it is true.
    pub stop: Arc<AtomicBool>,
}

impl FitOptions {
    /// Creates the options of an energy-based model for a real-valued target, predicted from all other columns.
    pub fn new(target: &str) -> Self {
        let targets = vec![TargetSpec::real(target)];
        let (roles, method, min_rows) = (ColumnRoles::default(), "ebm".to_owned(), MIN_ROWS);
        Self { targets, roles, weight: None, method, seed: 0, min_rows, stop: Arc::default() }
    }
}

/// Contents of a run's `regressor.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    /// Key of the method.
    pub method: String,
    /// Seed of all random choices.
    pub seed: u64,
    /// Encoding of the columns as x.
    pub features: Features,
    /// Targets with their scales.
    pub targets: Vec<Target>,
    /// For each target, the masses of the smallest highest-density regions that contain the y of the calibration rows;
    /// ascending.
    pub masses: Vec<Vec<f64>>,
    /// Number of rows for training and validation.
    pub rows: usize,
    /// Calibration rows of the table, counted from 0.
    pub held_out: Vec<usize>,
    /// Number of updates of each network at its best validation.
    pub steps: Vec<usize>,
    /// SHA-256 of the other files in the folder of a fit, by name; none in memory.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

/// A fitted model.
///
/// ```no_run
/// use ebm_tabular::{FitOptions, ReadOptions, Table, TabularConfig, TabularRegressor};
///
/// let table = Table::read("houses.csv".as_ref(), &ReadOptions::default())?;
/// let regressor = TabularRegressor::fit(&table, &FitOptions::new("price"), &TabularConfig::new()?, &mut |_| {})?;
/// for prediction in regressor.predict(&Table::read("new.csv".as_ref(), &ReadOptions::default())?)? {
///     let price = &prediction.targets[0];
///     println!("{} {:?}", price.quantile(0.5)?, price.region(regressor.mass(0, 0.9)?)?);
/// }
/// # Ok::<(), ebm_tabular::Error>(())
/// ```
#[derive(Clone)]
pub struct TabularRegressor {
    config: TabularConfig,
    fitted: Fitted,
    ensemble: Ensemble,
    stores: Vec<ParamStore>,
}

/// Smallest number of rows for a fit, unless the options have another.
const MIN_ROWS: usize = 20;
/// Smallest number of rows for the calibration of 90 % regions; with fewer, regions stay uncalibrated.
const MIN_CALIBRATION: usize = 19;
/// Largest number of calibration rows. More rows hardly improve the calibration, and each costs a prediction.
const MAX_CALIBRATION: usize = 2000;
/// Resolution, in standard deviations, above which a message is given.
const COARSE_RESOLUTION: f64 = 0.05;
/// Number of parts of the rows. Each network is validated on one part and learns from the others.
const FOLDS: usize = 5;

impl TabularRegressor {
    /// Fits the method that `options` name to the rows of `table` that have all targets. Messages about left-out rows and
    /// about gaps go to `say`; [`Features::columns`] describes the columns.
    ///
    /// # Errors
    /// [`Error::Input`] for a table that cannot be learnt from, and the errors of training.
    pub fn fit(
        table: &Table,
        options: &FitOptions,
        config: &TabularConfig,
        say: &mut dyn FnMut(&str),
    ) -> Result<Self> {
        if !(1..=3).contains(&options.targets.len()) {
            let reason = format!("{} targets; one, two or three are possible", options.targets.len());
            return Err(Error::input(table.name(), reason));
        }
        let given = table.rows();
        let mut specs = options.targets.clone();
        for spec in &mut specs {
            spec.form = Some(table.form(table.column(&spec.name)?, None)?);
        }
        let Complete { table, y, rows: places } = complete(table, &specs)?;
        if table.rows() < given {
            say(&format!("{} rows without a target are left out", given - table.rows()));
        }
        let least = options.min_rows;
        if table.rows() < least {
            let reason = format!("{} rows, and at least {least} are needed", table.rows());
            return Err(Error::input("a fit", reason));
        }
        let key = Key::new(options.seed);
        let reason = "is no weight; weights are numbers from 0 on";
        let weights = |name: &String| table.all_values(name, |weight| weight >= 0.0, reason);
        let weights = options.weight.as_ref().map(weights).transpose()?;
        let [held_out, mut learnt] = parts(table.rows(), config.calibration, key, say);
        learnt.retain(|&row| weights.as_ref().is_none_or(|weights| weights[row] > 0.0));
        if learnt.len() < least / 2 {
            let reason = format!("{} rows to learn from with a weight above 0 are too few", learnt.len());
            return Err(Error::input(table.name(), reason));
        }
        let known = table.select(&learnt);
        let mut roles = options.roles.clone();
        roles.ignored.extend(options.weight.clone());
        let features = Features::find(&known, &specs, &roles)?;
        let scale = |(k, spec): (usize, &TargetSpec)| {
            let y: Vec<f64> = learnt.iter().map(|&row| y[row][k]).collect();
            Target::find(spec, &y, table.name())
        };
        let targets = specs.iter().enumerate().map(scale).collect::<Result<Vec<_>>>()?;
        for (k, target) in targets.iter().enumerate() {
            say_about(target, learnt.iter().map(|&row| y[row][k]), say);
        }
        let Encoded { x, unknown } = features.encode(&table)?;
        for (column, count) in unknown {
            say(&format!("{count} rows have a {column:?} that is rare or cannot be read: it counts as none"));
        }
        let rows = Rows { x: &x, y: &y, targets: &targets, weights: weights.as_deref(), stop: &options.stop };
        let trained = members(config, options, &rows, &learnt, features.dim())?;
        let steps = trained.iter().map(|member| member.step).collect();
        let stores: Vec<ParamStore> = trained.into_iter().map(|member| member.store).collect();
        let fitted = Fitted {
            method: options.method.clone(),
            seed: options.seed,
            features,
            masses: vec![vec![]; targets.len()],
            targets,
            rows: learnt.len(),
            held_out: held_out.iter().map(|&row| places[row]).collect(),
            steps,
            files: BTreeMap::new(),
        };
        let mut regressor = Self::assemble(config.clone(), fitted, stores)?;
        if !held_out.is_empty() {
            regressor.calibrate(
                &table.select(&held_out),
                &held_out.iter().map(|&row| y[row].clone()).collect::<Vec<_>>(),
            )?;
        }
        Ok(regressor)
    }

    fn assemble(config: TabularConfig, fitted: Fitted, stores: Vec<ParamStore>) -> Result<Self> {
        let method = build(&config, &fitted.method, &fitted.targets, Key::new(fitted.seed))?;
        let (inputs, dim) = (fitted.features.dim(), fitted.targets.len());
        let shape = Shape { inputs, dim, network: &config.network, method: &method };
        let networks = stores.iter().map(|store| Network::new(&shape, &store.constants()?));
        let ensemble = Ensemble(networks.collect::<Result<_>>()?);
        Ok(Self { config, fitted, ensemble, stores })
    }

    /// Computes the masses of regions that contain y on rows that were not learnt from.
    fn calibrate(&mut self, table: &Table, y: &[Vec<f64>]) -> Result<()> {
        if !self.has_density()? {
            return Ok(());
        }
        for (prediction, y) in self.predict(table)?.iter().zip(y) {
            for ((masses, density), y) in self.fitted.masses.iter_mut().zip(&prediction.targets).zip(y) {
                masses.push(density.mass_of(*y));
            }
        }
        self.fitted.masses.iter_mut().for_each(|masses| masses.sort_by(f64::total_cmp));
        Ok(())
    }

    /// Returns the contents of `regressor.json`.
    pub fn fitted(&self) -> &Fitted {
        &self.fitted
    }

    /// Returns the settings.
    pub fn config(&self) -> &TabularConfig {
        &self.config
    }

    /// Returns the networks as one density of z.
    pub fn ensemble(&self) -> &Ensemble {
        &self.ensemble
    }

    /// Returns whether the method has a density.
    ///
    /// # Errors
    /// [`Error::Config`] if the settings lack the method.
    pub fn has_density(&self) -> Result<bool> {
        Ok(self.config.method(&self.fitted.method)?.model.has_density())
    }

    /// Encodes the rows as x, (B, F).
    ///
    /// # Errors
    /// The errors of [`Features::encode`].
    pub fn encode(&self, table: &Table) -> Result<Encoded> {
        self.fitted.features.encode(table)
    }

    /// Predicts p(y | x) of every row. The target columns may be missing; a row with all targets also gets its log p.
    ///
    /// # Errors
    /// [`Error::Input`] for a missing column of x, and for a text in a column of numbers.
    pub fn predict(&self, table: &Table) -> Result<Vec<Prediction>> {
        self.predictions(table, &self.encode(table)?)?.collect()
    }

    /// Returns the mass of a target's highest-density regions that contain y with probability `level`, calibrated on rows
    /// that were not learnt from. With too few such rows it is `level` itself.
    ///
    /// # Errors
    /// Fails for a level outside (0, 1).
    pub fn mass(&self, target: usize, level: f64) -> Result<f64> {
        let masses = &self.fitted.masses[target];
        match SplitConformal::calibrate(masses, 1.0 - level) {
            Ok(found) => Ok(found.threshold.clamp(1e-6, 1.0)),
            Err(ebm_eval::Error::Empty { .. } | ebm_eval::Error::TooFew { .. }) => Ok(level),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the largest level at which [`mass`](Self::mass) is calibrated; 0 without calibration rows.
    pub fn largest_level(&self) -> f64 {
        let count = self.fitted.masses[0].len() as f64;
        count / (count + 1.0)
    }

    /// Returns whether [`mass`](Self::mass) is calibrated on rows that were not learnt from.
    pub fn is_calibrated(&self) -> bool {
        self.fitted.masses.iter().all(|masses| !masses.is_empty())
    }
}

/// Trains the networks, each validated on its part of the rows `learnt`.
fn members(
    config: &TabularConfig,
    options: &FitOptions,
    rows: &Rows<'_>,
    learnt: &[usize],
    inputs: usize,
) -> Result<Vec<Trained>> {
    let key = Key::new(options.seed);
    let member = |index: usize| {
        let method = &build(config, &options.method, rows.targets, key)?;
        let shape = Shape { inputs, dim: rows.targets.len(), network: &config.network, method };
        let [judged, others] = [true, false].map(|is_judged| {
            let is_chosen = |place: usize| (place % FOLDS == index % FOLDS) == is_judged;
            let chosen = learnt.iter().enumerate().filter(|(place, _)| is_chosen(*place));
            chosen.map(|(_, row)| *row).collect::<Vec<_>>()
        });
        train(&shape, &config.training, rows, &others, &judged, key.split("member").index(index as u64))
    };
    (0..config.members).into_par_iter().map(member).collect()
}

/// Builds the method for these targets.
fn build(config: &TabularConfig, method: &str, targets: &[Target], key: Key) -> Result<Built> {
    let shown: Vec<[f64; 2]> = targets.iter().map(Target::shown).collect();
    config.method(method)?.model.build(&shown, &mut key.split("pool").rng())
}

/// Rows of a table that have all targets.
pub(crate) struct Complete {
    pub(crate) table: Table,
    /// D target values of each row.
    pub(crate) y: Vec<Vec<f64>>,
    /// Positions of the rows in the original table.
    rows: Vec<usize>,
}

/// Selects the rows of `table` that have all targets.
pub(crate) fn complete(table: &Table, specs: &[TargetSpec]) -> Result<Complete> {
    let columns = specs.iter().map(|spec| Target::read(spec, table)).collect::<Result<Vec<_>>>()?;
    let mut rows = Vec::new();
    let mut y = Vec::new();
    for row in 0..table.rows() {
        if let Some(values) = columns.iter().map(|column| column[row]).collect::<Option<Vec<f64>>>() {
            rows.push(row);
            y.push(values);
        }
    }
    Ok(Complete { table: table.select(&rows), y, rows })
}

/// Says what training does with the values `y` of a target that are far from all others, and with those on a lattice.
fn say_about(target: &Target, y: impl Iterator<Item = f64>, say: &mut dyn FnMut(&str)) {
    let (name, step) = (&target.name, target.resolution());
    let far: Vec<f64> = y.filter(|y| target.is_far(*y)).collect();
    if let Some(first) = far.first() {
        let count = far.len();
        say(&format!(
            "{count} rows have a {name:?} far from all others, such as {first}: it is learnt as the nearest of these"
        ));
    }
    if target.relative_resolution() > COARSE_RESOLUTION {
        say(&format!(
            "{name:?} has values in steps of {step}; training spreads each value evenly over one step"
        ));
    }
}

/// Divides the rows at random into calibration rows and rows to learn from.
fn parts(rows: usize, share: f64, key: Key, say: &mut dyn FnMut(&str)) -> [Vec<usize>; 2] {
    let mut order: Vec<usize> = (0..rows).collect();
    order.shuffle(&mut key.split("parts").rng());
    let mut count = ((rows as f64 * share).round() as usize).min(MAX_CALIBRATION);
    if share > 0.0 && count < MIN_CALIBRATION {
        say(&format!(
            "{count} of {rows} rows are too few to calibrate regions on, {MIN_CALIBRATION} are needed; all rows are learnt from"
        ));
        count = 0;
    }
    let learnt = order.split_off(count);
    [order, learnt]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_row_is_both_learnt_from_and_calibrated_on() {
        for (rows, share, expected) in [(300, 0.1, 30), (100, 0.1, 0), (100, 0.0, 0), (50_000, 0.2, 2000)] {
            let [held_out, learnt] = parts(rows, share, Key::new(0), &mut |_| {});
            assert_eq!(held_out.len(), expected);
            let mut all = [held_out, learnt].concat();
            all.sort_unstable();
            assert_eq!(all, (0..rows).collect::<Vec<_>>());
        }
    }
}
