//! Fitting: from a table to densities.

mod choice;
mod folder;
mod prepared;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ebm_base::Key;
use ebm_eval::calibration::SplitConformal;
use ebm_nn::params::ParamStore;
use serde::{Deserialize, Serialize};

pub use prepared::MIN_CALIBRATION;
pub(crate) use prepared::{Complete, complete};
use prepared::{MIN_ROWS, Prepared};

use crate::config::{Built, TabularConfig};
use crate::features::{ColumnRoles, Encoded, Features};
use crate::model::{Ensemble, Network, Shape};
use crate::prediction::Prediction;
use crate::target::{Target, TargetSpec};
use crate::{Result, Table};

/// Options of a fit: the targets, the roles of the other columns, and the method.
#[derive(Clone, Debug)]
pub struct FitOptions {
    /// One to three columns to predict.
    pub targets: Vec<TargetSpec>,
    /// Roles of the other columns.
    pub roles: ColumnRoles,
    /// Column of weights, which is no input. Training draws rows with probabilities in proportion to these.
    pub weight: Option<String>,
    /// Key of the method, or `auto`.
    pub method: String,
    /// Seed of all random choices.
    pub seed: u64,
    /// Smallest number of rows for a fit; by default 20.
    pub min_rows: usize,
    /// Time for a search over settings, by the validation of a few networks each. The settings that are being tried when it
    /// is over are tried to their end, and the other networks are trained afterwards. None for the given settings.
    pub search: Option<Duration>,
    /// Ends the fit with an error once it is true.
    pub stop: Arc<AtomicBool>,
}

impl FitOptions {
    /// Creates the options of an energy-based model for a real-valued target, predicted from all other columns.
    pub fn new(target: &str) -> Self {
        let targets = vec![TargetSpec::real(target)];
        let (roles, method, min_rows) = (ColumnRoles::default(), "ebm".to_owned(), MIN_ROWS);
        Self { targets, roles, weight: None, method, seed: 0, min_rows, search: None, stop: Arc::default() }
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
    /// Temperature of f of each network, at which its validation is best; 1 for a baseline.
    #[serde(default)]
    pub temperatures: Vec<f64>,
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

/// Method that fits the energy-based model and the mixture, and keeps the better.
const AUTO: &str = "auto";

impl TabularRegressor {
    /// Fits the method that `options` name to the rows of `table` that have all targets. `auto` fits the energy-based model
    /// (`ebm`) and the mixture (`mixture`): it keeps the mixture unless the energy-based model has the higher mean log p on
    /// validation rows, by more than one standard error of the paired difference. Messages about left-out rows, about gaps
    /// and about the kept method go to `say`; [`Features::columns`] describes the columns.
    ///
    /// # Errors
    /// [`Error::Input`](crate::Error::Input) for a table that cannot be learnt from, and the errors of training.
    pub fn fit(
        table: &Table,
        options: &FitOptions,
        config: &TabularConfig,
        say: &mut dyn FnMut(&str),
    ) -> Result<Self> {
        let prepared = Prepared::new(table, options, config, say)?;
        prepared.calibrated(match &*options.method {
            AUTO => prepared.better(say)?,
            method => prepared.train(method, say)?,
        })
    }

    fn assemble(config: TabularConfig, fitted: Fitted, stores: Vec<ParamStore>) -> Result<Self> {
        let method = build(&config, &fitted.method, &fitted.targets, Key::new(fitted.seed))?;
        let (features, dim) = (&fitted.features, fitted.targets.len());
        let shape = Shape { features, dim, network: &config.network, method: &method };
        let networks = stores.iter().enumerate().map(|(index, store)| {
            let temperature = fitted.temperatures.get(index).copied().unwrap_or(1.0);
            Ok(Network::new(&shape, &store.constants()?)?.tempered(temperature))
        });
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
    /// [`Error::Config`](crate::Error::Config) if the settings lack the method.
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
    /// [`Error::Input`](crate::Error::Input) for a missing column of x, and for a text in a column of numbers.
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

/// Builds the method for these targets.
fn build(config: &TabularConfig, method: &str, targets: &[Target], key: Key) -> Result<Built> {
    let shown: Vec<[f64; 2]> = targets.iter().map(Target::shown).collect();
    config.method(method)?.model.build(&shown, &mut key.split("pool").rng())
}
