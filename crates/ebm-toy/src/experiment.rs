//! The experiment of Figure 2: methods, problems and seeds.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use candle_core::{DType, Tensor};
use ebm_base::Key;
use ebm_core::parametric::{Gaussian, Parametric};
use ebm_core::{AnyObjective, EnergyModel, Grid, GridDensity};
use ebm_experiment::config::Settings;
use ebm_experiment::config::{settings, settings_table};
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use crate::course::Schedule;
use crate::dataset::{POINTS, Points, Problem, RANGE};
use crate::energy::ToyEnergy;
use crate::evaluation::{ROWS, Truth, column, predictions};
use crate::layout::Network;
use crate::network::Heads;
use crate::{Error, Result};

settings_table! {
    /// Settings of Figure 2 and of the other objectives, from a configuration file.
    pub struct Experiment {
        /// Network of f.
        pub network: Network,
        /// Schedule of the training, shared by all methods.
        pub schedule: Schedule,
        /// Number of points on each axis of the grid for the divergence.
        pub evaluation_points: usize where 2..=8192,
        /// Number of fresh points that calibrate a model, and of others that the calibration is judged by.
        pub fresh_points: usize where 2..=100_000,
        /// Number of models of each method; they differ in initialisation, order and noise.
        pub models: u64 where 1..=10_000,
        /// Methods, the rows of the table.
        pub methods: Vec<Method>,
    }

    /// A method, one row of the table.
    pub struct Method {
        /// Name in tables and JSON.
        pub name: String,
        /// Problems that these settings are for; all problems if empty.
        #[serde(default)]
        pub problems: Vec<Problem>,
        /// Number of models of this method, if it differs from [`Experiment::models`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub models: Option<u64> where 1..=10_000,
        /// Model that is trained.
        pub model: ModelConfig,
    }
}

settings! {
    /// A model and its objective.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ModelConfig {
        /// Gaussian density p(y | x) = N(y; μ(x), σ²(x)).
        Gaussian,
        /// Energy-based model f(x, y) with an objective.
        Energy(AnyObjective),
        /// Energy-based model f(x, y) with NCE and a jointly learned proposal.
        JointNce {
            /// Number K of components of the proposal.
            components: usize where 1..=1024,
            /// Number M of samples.
            num_samples: usize where 1..=65_536,
        },
    }
}

/// Training points of models, and the reference for their evaluation.
pub struct Dataset {
    /// Name in tables and JSON: that of the problem, or `data` for the user's own points.
    pub name: &'static str,
    /// Problem whose methods and settings are used.
    pub problem: Problem,
    /// Training points.
    pub points: Points,
    /// Reference for the evaluation.
    pub reference: Reference,
}

/// Reference for the evaluation of a model.
pub enum Reference {
    /// True density of the points.
    Truth(Truth),
    /// Held-out points that no model is trained on.
    HeldOut(Points),
}

impl Dataset {
    /// Creates a data set of a problem's 2 000 points, which do not depend on a model's seed, and its density on
    /// `grid` × `grid` points.
    pub fn of_problem(problem: Problem, grid: usize) -> Self {
        let reference = Reference::Truth(Truth::new(problem, grid));
        Self { name: problem.name(), problem, points: training_points(problem), reference }
    }

    /// Creates a data set of the user's own points. A fifth of them, always the same, is held out.
    ///
    /// # Errors
    /// [`Error::Input`] for fewer than two points, or a point outside of [`RANGE`], where densities are normalised.
    pub fn of_points(points: &Points, problem: Problem) -> Result<Self> {
        let outside = |value: &&f32| !(RANGE[0]..=RANGE[1]).contains(&f64::from(**value));
        let count = points.x.len();
        let other = points.x.iter().chain(&points.y).find(outside).filter(|_| count >= 2);
        if count < 2 || other.is_some() {
            let other = other.map_or(String::new(), |value| format!(", one with {value}"));
            let remedy = "give at least two, with x and y from −3 to 3: scale both columns into that range";
            return Err(Error::input("the data", format!("{count} points{other}; {remedy}")));
        }
        let mut order: Vec<usize> = (0..count).collect();
        order.shuffle(&mut Key::new(0).split("toy held out").rng());
        let pick = |indices: &[usize]| Points {
            x: indices.iter().map(|&index| points.x[index]).collect(),
            y: indices.iter().map(|&index| points.y[index]).collect(),
        };
        let (held_out, rest) = order.split_at(count.div_ceil(5));
        let (held_out, points) = (pick(held_out), pick(rest));
        Ok(Self { name: "data", problem, points, reference: Reference::HeldOut(held_out) })
    }
}

/// Figures of one trained model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Name of the data set, see [`Dataset::name`].
    pub dataset: &'static str,
    /// Name of the method.
    pub method: String,
    /// Seed of initialisation, order and noise; the training points do not depend on it.
    pub seed: u64,
    /// Mean of KL(truth ‖ model) over x in nats; none without a known density.
    pub kl: Option<f64>,
    /// Mean of −log p(y | x) of the held-out points in nats; none with a known density.
    pub held_out_nll: Option<f64>,
    /// Wall time of the training alone; other models may train at the same time.
    pub train_seconds: f64,
    /// Mean loss of the last epoch; comparable only between seeds of one method.
    pub final_loss: f64,
}

/// A trained model.
pub enum Trained {
    /// Network of f.
    Energy(ToyEnergy),
    /// Network of mean and log-variance.
    Gaussian(Heads),
}

impl Trained {
    /// Computes the log-density, up to a constant for each x, (B, N), at `x`, (B, 1), and `y`, (1, N), which is
    /// shared by all x.
    ///
    /// # Errors
    /// Fails if a tensor operation fails.
    pub fn log_density(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let y = y.broadcast_as((x.dim(0)?, y.dim(1)?))?.contiguous()?.unsqueeze(2)?;
        match self {
            Self::Energy(model) => Ok(model.score(&model.features(x)?.detach(), &y)?.detach()),
            Self::Gaussian(heads) => {
                let outputs = heads.outputs(x)?.detach();
                let density = Gaussian::new(1)?.log_prob(&outputs, &y)?;
                let missing = ebm_core::Error::Unsupported {
                    what: "the density of this baseline",
                    remedy: "compare baselines that have one",
                };
                Ok(density.ok_or(missing)?)
            }
        }
    }
}

impl Trained {
    /// Computes p(y | x) on `grid` for each `x`.
    ///
    /// # Errors
    /// The errors of the network and the densities.
    pub fn densities(&self, x: &[f64], grid: &Grid) -> Result<Vec<GridDensity>> {
        let y = column(&grid.points())?.t()?;
        let mut densities = Vec::with_capacity(x.len());
        for x in x.chunks(ROWS) {
            let f = self.log_density(&column(x)?, &y)?.to_dtype(DType::F64)?;
            for f in f.to_vec2::<f64>()? {
                densities.push(GridDensity::from_scores(grid, &f)?);
            }
        }
        Ok(densities)
    }
}

impl Settings for Experiment {
    const EMBEDDED: &'static [(&'static str, &'static str)] =
        &[("figure2", include_str!("../configs/figure2.toml"))];
}

impl Experiment {
    /// Returns the methods for a problem.
    pub fn methods(&self, problem: Problem) -> impl Iterator<Item = &Method> {
        self.methods.iter().filter(move |m| m.problems.is_empty() || m.problems.contains(&problem))
    }

    /// Returns the number of models of a method.
    pub fn models(&self, method: &Method) -> u64 {
        method.models.unwrap_or(self.models)
    }

    /// Trains one model and evaluates it.
    ///
    /// # Errors
    /// The errors of training and evaluation.
    pub fn run(&self, method: &Method, dataset: &Dataset, seed: u64) -> Result<(Row, Trained)> {
        let key = Key::new(seed).split("toy").split(dataset.name).split(&method.name);
        let start = Instant::now();
        let (trained, history) = self.train(method, &dataset.points, key)?;
        let train_seconds = start.elapsed().as_secs_f64();
        let (kl, held_out_nll) = match &dataset.reference {
            Reference::Truth(truth) => (Some(truth.divergence(|x, y| trained.log_density(x, y))?), None),
            Reference::HeldOut(points) => (None, Some(predictions(&trained, points)?.nll()?)),
        };
        let row = Row {
            dataset: dataset.name,
            method: method.name.clone(),
            seed,
            kl,
            held_out_nll,
            train_seconds,
            final_loss: history.last().copied().unwrap_or(f64::NAN),
        };
        Ok((row, trained))
    }
}

/// Draws the training points of a problem: 2 000 points that do not depend on a model's seed.
pub fn training_points(problem: Problem) -> Points {
    problem.points(POINTS, &mut Key::new(0).split("toy points").split(problem.name()).rng())
}

/// One training to run.
pub struct Job<'a> {
    /// Method to train.
    pub method: &'a Method,
    /// Training points and reference.
    pub dataset: &'a Dataset,
    /// Seed of the model.
    pub seed: u64,
}

/// Runs all jobs, `threads` at a time. Each job has one thread, so that its time does not depend on the others. `done`
/// is called after each job; the results are in the order of the jobs.
///
/// # Errors
/// Returns the first error; jobs that have not started are then left out.
pub fn run_all(
    experiment: &Experiment,
    jobs: &[Job<'_>],
    threads: usize,
    done: &(dyn Fn(&Row) + Sync),
) -> Result<Vec<(Row, Trained)>> {
    let (next, slots) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    slots.lock().unwrap_or_else(PoisonError::into_inner).resize_with(jobs.len(), || None);
    let worker = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { return };
            let result = experiment.run(job.method, job.dataset, job.seed);
            match &result {
                Ok((row, _)) => done(row),
                Err(_) => next.store(jobs.len(), Ordering::Relaxed),
            }
            slots.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(result);
        }
    };
    std::thread::scope(|scope| -> Result<()> {
        for _ in 0..threads.clamp(1, jobs.len().max(1)) {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
            let pool = pool.map_err(|error| no_thread(&error))?;
            let started = std::thread::Builder::new().spawn_scoped(scope, move || pool.install(worker));
            started.map_err(|error| no_thread(&error))?;
        }
        Ok(())
    })?;
    let slots = slots.into_inner().unwrap_or_else(PoisonError::into_inner);
    slots.into_iter().flatten().collect()
}

fn no_thread(error: &dyn std::error::Error) -> Error {
    candle_core::Error::Msg(format!("cannot start a thread: {error}; take fewer")).into()
}
