//! The rows of a table, divided and encoded, to which any method can be fitted.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

use candle_core::Tensor;
use ebm_base::Key;
use ebm_nn::params::ParamStore;
use rand::Rng;
use rand::seq::SliceRandom;
use rayon::prelude::*;

use super::{FitOptions, Fitted, TabularRegressor, build};
use crate::config::{NetworkConfig, TabularConfig, TrainingConfig};
use crate::features::{Encoded, Features};
use crate::model::Shape;
use crate::target::{Target, TargetSpec};
use crate::training::{Rows, Trained, train};
use crate::{Error, Result, Style, Table};

/// Smallest number of rows for a fit, unless the options have another.
pub(super) const MIN_ROWS: usize = 20;
/// Smallest number of rows for the calibration of 90 % regions; with fewer, regions stay uncalibrated.
pub const MIN_CALIBRATION: usize = 19;
/// Largest number of calibration rows. More rows hardly improve the calibration, and each costs a prediction.
const MAX_CALIBRATION: usize = 2000;
/// Resolution, in standard deviations, above which a message is given.
const COARSE_RESOLUTION: f64 = 0.05;
/// Least number of parts of the rows. Each network is validated on one part and learns from the others.
const MIN_FOLDS: usize = 5;

/// Number of networks whose validation decides about bins, dropout and each setting of a search.
const TRIED: usize = 3;

/// Settings of a network and its training, and the encoding of its inputs.
#[derive(Clone, PartialEq)]
struct Recipe {
    network: NetworkConfig,
    training: TrainingConfig,
    features: Features,
}

/// A recipe with the first few networks that were trained by it.
struct Tried {
    recipe: Recipe,
    trained: Vec<Trained>,
    /// Mean of the networks' validations, lower is better.
    value: f64,
}

impl Recipe {
    /// Draws other settings; each stays as it is with probability 1/2. Inputs have the bins of `features`, or none.
    fn drawn(&self, features: &Features, rng: &mut impl Rng) -> Self {
        let mut other = self.clone();
        let Self { network, training, .. } = &mut other;
        if rng.random() {
            network.width = pick(&[32, 64, 128, 256], rng);
        }
        if rng.random() {
            network.depth = pick(&[1, 2, 3], rng);
        }
        if rng.random() {
            network.hidden = pick(&[32, 64, 128], rng);
        }
        if rng.random() {
            training.learning_rate = pick(&[0.002, 0.004, 0.008, 0.016], rng);
        }
        if rng.random() {
            training.dropout = pick(&[0.0, 0.05, 0.1, 0.2], rng);
        }
        if rng.random() {
            training.batch = pick(&[64, 128, 256], rng);
        }
        if rng.random() {
            let features = features.clone();
            other.features = if rng.random() { features } else { features.without_bins() };
        }
        other
    }
}

/// The settings that a search changes, as `--set` takes them.
impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (NetworkConfig { width, depth, hidden, .. }, training) = (self.network, self.training);
        let TrainingConfig { batch, learning_rate, dropout, .. } = training;
        write!(
            f,
            "network.width={width} network.depth={depth} network.hidden={hidden} training.batch={batch} "
        )?;
        write!(f, "training.learning_rate={learning_rate} training.dropout={dropout}")?;
        f.write_str(if self.features.bins().is_empty() { " network.bins=0" } else { "" })
    }
}

/// Returns one of `values`, each with the same probability.
fn pick<T: Copy, const N: usize>(values: &[T; N], rng: &mut impl Rng) -> T {
    values[rng.random_range(0..N)]
}

/// Rows of a table that have all targets, divided and encoded.
pub(super) struct Prepared<'a> {
    pub(super) config: &'a TabularConfig,
    pub(super) options: &'a FitOptions,
    rows: Complete,
    pub(super) x: Tensor,
    weights: Option<Vec<f64>>,
    features: Features,
    targets: Vec<Target>,
    held_out: Vec<usize>,
    learnt: Vec<usize>,
}

impl<'a> Prepared<'a> {
    /// Divides the rows of `table` that have all targets, and finds the encoding on those to learn from.
    pub(super) fn new(
        table: &Table,
        options: &'a FitOptions,
        config: &'a TabularConfig,
        say: &mut dyn FnMut(&str),
    ) -> Result<Self> {
        if !(1..=3).contains(&options.targets.len()) {
            let reason = format!("{} targets; one, two or three are possible", options.targets.len());
            return Err(Error::input(table.name(), reason));
        }
        let mut specs = options.targets.clone();
        for spec in &mut specs {
            spec.form = Some(table.form(table.column(&spec.name)?, None)?);
        }
        let rows = complete(table, &specs)?;
        let Complete { table: complete, y, .. } = &rows;
        if complete.rows() < table.rows() {
            say(&format!("{} rows without a target are left out", table.rows() - complete.rows()));
        }
        let least = options.min_rows;
        if complete.rows() < least {
            let reason = format!("{} rows, and at least {least} are needed", complete.rows());
            return Err(Error::input("a fit", reason));
        }
        let reason = "is no weight; weights are numbers from 0 on";
        // The number of a date's days is no weight.
        let is_weight = |style, value| matches!(style, Style::Point | Style::Comma) && value >= 0.0;
        let weights = |name: &String| complete.all_values(name, is_weight, reason);
        let weights = options.weight.as_ref().map(weights).transpose()?;
        let [held_out, mut learnt] = parts(complete.rows(), config.calibration, Key::new(options.seed), say);
        learnt.retain(|&row| weights.as_ref().is_none_or(|weights| weights[row] > 0.0));
        if learnt.len() < least / 2 {
            let reason = format!("{} rows to learn from with a weight above 0 are too few", learnt.len());
            return Err(Error::input(table.name(), reason));
        }
        let mut roles = options.roles.clone();
        roles.ignored.extend(options.weight.clone());
        let features = Features::find(&complete.select(&learnt), &specs, &roles, config.network.bins)?;
        let scale = |(k, spec): (usize, &TargetSpec)| {
            let y: Vec<f64> = learnt.iter().map(|&row| y[row][k]).collect();
            Target::find(spec, &y, table.name())
        };
        let targets = specs.iter().enumerate().map(scale).collect::<Result<Vec<_>>>()?;
        for (k, target) in targets.iter().enumerate() {
            say_about(target, learnt.iter().map(|&row| y[row][k]), say);
        }
        let Encoded { x, unknown } = features.encode(complete)?;
        for (column, count) in unknown {
            say(&format!("{count} rows have a {column:?} that is rare or cannot be read: it counts as none"));
        }
        Ok(Self { config, options, rows, x, weights, features, targets, held_out, learnt })
    }

    /// Fits the method of this key; its regions are not calibrated. All networks have bins and dropout, or go without one of
    /// them or both if the first few networks have the better validation so. A search then tries other settings.
    pub(super) fn train(&self, method: &str, say: &mut dyn FnMut(&str)) -> Result<TabularRegressor> {
        let start = Instant::now();
        let TabularConfig { network, training, .. } = *self.config;
        let given = Recipe { network, training, features: self.features.clone() };
        let plain = Recipe { features: self.features.clone().without_bins(), ..given.clone() };
        let recipes = if plain == given { vec![plain] } else { vec![given, plain] };
        let mut best = self.best(method, recipes)?;
        if training.dropout > 0.0 {
            let mut whole = best.recipe.clone();
            whole.training.dropout = 0.0;
            best = self.better_of(method, best, whole)?;
        }
        let first = best.value;
        if let Some(budget) = self.options.search {
            let mut count = 0;
            while start.elapsed() < budget {
                let key = Key::new(self.options.seed).split("search").index(count);
                let drawn = best.recipe.drawn(&self.features, &mut key.rng());
                best = self.better_of(method, best, drawn)?;
                count += 1;
            }
            say(&format!(
                "{count} others tried, validation better by {:.4}: {}",
                first - best.value,
                best.recipe
            ));
        }
        let Tried { recipe, mut trained, .. } = best;
        let others = (trained.len()..self.config.members).into_par_iter();
        let others = others.map(|index| self.member(method, index, &recipe));
        trained.extend(others.collect::<Result<Vec<Trained>>>()?);
        let steps = trained.iter().map(|member| member.step).collect();
        let temperatures = trained.iter().map(|member| member.temperature).collect();
        let stores: Vec<ParamStore> = trained.into_iter().map(|member| member.store).collect();
        let fitted = Fitted {
            method: method.to_owned(),
            seed: self.options.seed,
            features: recipe.features,
            masses: vec![vec![]; self.targets.len()],
            targets: self.targets.clone(),
            rows: self.learnt.len(),
            held_out: self.held_out.iter().map(|&row| self.rows.rows[row]).collect(),
            steps,
            temperatures,
            files: BTreeMap::new(),
        };
        let Recipe { network, training, .. } = recipe;
        TabularRegressor::assemble(TabularConfig { network, training, ..self.config.clone() }, fitted, stores)
    }

    /// Tries `recipe`, and returns the better of it and `best`.
    fn better_of(&self, method: &str, best: Tried, recipe: Recipe) -> Result<Tried> {
        let found = self.best(method, vec![recipe])?;
        Ok(if found.value < best.value { found } else { best })
    }

    /// Trains the first few networks with each of the recipes, and returns those with the smallest mean validation.
    fn best(&self, method: &str, recipes: Vec<Recipe>) -> Result<Tried> {
        let tried = self.config.members.min(TRIED);
        let tries: Vec<_> = recipes.iter().flat_map(|of| (0..tried).map(move |index| (of, index))).collect();
        let all = tries.into_par_iter().map(|(recipe, index)| self.member(method, index, recipe));
        let mut all = all.collect::<Result<Vec<Trained>>>()?.into_iter();
        let tries = recipes.into_iter().map(|recipe| {
            let trained: Vec<Trained> = all.by_ref().take(tried).collect();
            let value = trained.iter().map(|member| member.value).sum::<f64>() / tried as f64;
            Tried { recipe, trained, value }
        });
        let best = tries.min_by(|a, b| a.value.total_cmp(&b.value));
        best.ok_or_else(|| Error::config("members", "a fit needs a network"))
    }

    /// Calibrates the regions of a fit.
    pub(super) fn calibrated(&self, mut regressor: TabularRegressor) -> Result<TabularRegressor> {
        if !self.held_out.is_empty() {
            let y: Vec<Vec<f64>> = self.held_out.iter().map(|&row| self.rows.y[row].clone()).collect();
            regressor.calibrate(&self.rows.table.select(&self.held_out), &y)?;
        }
        Ok(regressor)
    }

    /// Trains a network, validated on its part of the rows.
    fn member(&self, method: &str, index: usize, recipe: &Recipe) -> Result<Trained> {
        let key = Key::new(self.options.seed);
        let method = &build(self.config, method, &self.targets, key)?;
        let dim = self.targets.len();
        let shape = Shape { features: &recipe.features, dim, network: &recipe.network, method };
        let (weights, targets) = (self.weights.as_deref(), &*self.targets);
        let rows = Rows { x: &self.x, y: &self.rows.y, targets, weights, stop: &self.options.stop };
        let [judged, others] = [true, false].map(|is_judged| self.part(index, is_judged));
        let key = key.split("member").index(index as u64);
        train(&shape, &recipe.training, &rows, &others, &judged, key)
    }

    /// Returns the number of parts of the rows: one for each network, if that leaves ten rows in each, and at least five.
    pub(super) fn folds(&self) -> usize {
        self.config.members.min(self.learnt.len() / 10).max(MIN_FOLDS)
    }

    /// Returns the rows that validate the network `index`, or those that it learns from.
    pub(super) fn part(&self, index: usize, is_judged: bool) -> Vec<usize> {
        let folds = self.folds();
        let is_chosen = |place: usize| (place % folds == index % folds) == is_judged;
        let chosen = self.learnt.iter().enumerate().filter(|(place, _)| is_chosen(*place));
        chosen.map(|(_, row)| *row).collect()
    }

    /// Returns the targets of a row, with those far from all others at the nearest of these.
    pub(super) fn near(&self, row: usize) -> Vec<f64> {
        self.targets.iter().zip(&self.rows.y[row]).map(|(target, y)| target.near(*y)).collect()
    }
}

/// Rows of a table that have all targets.
pub(crate) struct Complete {
    pub(crate) table: Table,
    /// D target values of each row.
    pub(crate) y: Vec<Vec<f64>>,
    /// Positions of the rows in the original table.
    pub(crate) rows: Vec<usize>,
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
