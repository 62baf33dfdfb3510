//! The training loop. It knows steps, checkpoints and the non-finite guard, and nothing of the task.

use crate::checkpoint::{
    Checkpoint, CheckpointData, CheckpointState, CheckpointStore, Loaded, SCHEMA_VERSION, load_latest,
};
use crate::distributed::Group;
use crate::dump;
use crate::error::{BoxError, Error, Result};
use crate::guard::{NonFiniteGuard, Verdict};
use crate::metrics::{MetricsLog, MetricsRecord};
use crate::progress::{Progress, RunSpec};
use crate::run_dir::RunDir;
use crate::together::{self, Start};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a step reports.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepReport {
    /// The loss.
    pub loss: f64,
    /// The norm of the gradient, before any clipping.
    pub grad_norm: f64,
    /// What else is worth logging, by name: the learning rate, parts of the loss.
    pub scalars: BTreeMap<String, f64>,
}

/// Something to train. A step is a function of the step's number and the state alone (batch, learning
/// rate and random generators derive from the number and the seed), so that a resumed run repeats an
/// uninterrupted one bit for bit.
pub trait TrainTask {
    /// What a step computed and [`apply`](Self::apply) consumes: the gradients, and new running
    /// statistics where there are any.
    type Update;

    /// Computes the loss and the gradients of a step without changing anything that
    /// [`state`](Self::state) saves.
    ///
    /// # Errors
    /// The task's own; they end the run.
    fn step(&mut self, step: usize) -> std::result::Result<(StepReport, Self::Update), BoxError>;

    /// Updates the parameters. Called only where loss and gradient norm are finite.
    ///
    /// # Errors
    /// The task's own; they end the run.
    fn apply(&mut self, step: usize, update: Self::Update) -> std::result::Result<(), BoxError>;

    /// The tensors to save.
    ///
    /// # Errors
    /// The task's own; they end the run.
    fn state(&self) -> std::result::Result<CheckpointData, BoxError>;

    /// Takes up saved tensors, which lie on the CPU. Must refuse names or shapes that differ from its own.
    ///
    /// # Errors
    /// The task's own; they end the run.
    fn restore(&mut self, data: CheckpointData) -> std::result::Result<(), BoxError>;
}

/// Trains `task` in `run`, as rank 0 of `group`, whose other processes [`follow`](together::follow). Returns the number
/// of completed steps: fewer than those of `spec` where `progress` asked it to stop.
///
/// Each step: compute, judge ([`NonFiniteGuard`]), log, update. A step that is not finite is logged and
/// its update dropped; a checkpoint due there waits for the next finite step. A resumed run cuts off what
/// was logged after its checkpoint.
pub(crate) fn lead<T: TrainTask>(
    spec: &RunSpec<'_>,
    run: &RunDir,
    task: &mut T,
    progress: &mut dyn Progress,
    group: &Group,
) -> Result<usize> {
    let (end, every) = (spec.steps, spec.checkpoint_every);
    let mut run = Run::start(spec, run, task, progress)?;
    let start = Start {
        seed: run.seed,
        config_digest: run.config_digest.clone(),
        end,
        step: run.step,
        guard_hits: run.guard.hits().to_vec(),
    };
    together::send_start(group, &start, task)?;
    let mut due = false;
    let mut stopped = false;
    while run.step < end && !stopped {
        let skipped = run.one_step(task, progress)?;
        stopped = group.any(progress.stop_requested())?;
        due |= every > 0 && run.step.is_multiple_of(every);
        if (due && !skipped) || stopped || run.step == end {
            run.checkpoint(task)?;
            due = false;
        }
    }
    together::part(run.step, task, group)?;
    Ok(run.step)
}

/// Weight of the newest loss in the average that is shown.
const SMOOTHING: f64 = 0.05;

/// A run between two steps.
struct Run {
    /// Its directory.
    path: PathBuf,
    /// The number of completed steps.
    step: usize,
    seed: u64,
    config_digest: String,
    store: CheckpointStore,
    log: MetricsLog,
    guard: NonFiniteGuard,
    /// The finite values of the last step that was applied.
    metrics: BTreeMap<String, f64>,
    /// The loss, averaged over recent steps.
    smoothed: Option<f64>,
}

impl Run {
    fn start<T: TrainTask>(
        spec: &RunSpec<'_>,
        run: &RunDir,
        task: &mut T,
        progress: &mut dyn Progress,
    ) -> Result<Self> {
        let (dir, log_path, config_digest) =
            (run.checkpoints_path(), run.metrics_path(), run.config_digest());
        let store = CheckpointStore::open(&dir)?;
        let (mut step, mut guard, mut metrics, mut length) =
            (0, NonFiniteGuard::default(), BTreeMap::new(), 0);
        let mut from = None;
        if !store.is_empty()? {
            if !spec.resume {
                let remedy = "resume the run or choose another name";
                return Err(Error::Refused(format!("{} already holds checkpoints; {remedy}", dir.display())));
            }
            let Loaded { checkpoint: Checkpoint { data, state }, path, skipped } = load_latest(&dir)?;
            skipped.iter().for_each(|skipped| progress.message(&skipped.to_string()));
            check_fits(&state, &path, spec, &config_digest)?;
            task.restore(data).map_err(|source| Error::Task { step: state.step, source })?;
            (step, guard) = (state.step, NonFiniteGuard::new(state.guard_hits));
            (metrics, length, from) = (state.metrics, state.metrics_len, Some(path));
        }
        let log = MetricsLog::open_at(&log_path, length)?;
        if log.len() < length {
            let (path, left) = (log_path.display(), log.len());
            progress.message(&format!("{path}: {left} of {length} bytes are left"));
        }
        if let Some(from) = from {
            progress.resumed(step);
            progress.message(&format!("going on from step {step}, {}", from.display()));
        }
        let (path, seed, smoothed) = (run.path().into(), spec.seed, None);
        Ok(Self { path, step, seed, config_digest, store, log, guard, metrics, smoothed })
    }

    /// Runs one step and returns whether its update was skipped.
    fn one_step<T: TrainTask>(&mut self, task: &mut T, progress: &mut dyn Progress) -> Result<bool> {
        let step = self.step;
        let fail = |source| Error::Task { step, source };
        let (report, update) = task.step(step).map_err(fail)?;
        let verdict = self.guard.check(step, report.loss, report.grad_norm);
        let skipped = !matches!(verdict, Ok(Verdict::Apply));
        // Logged also where the guard gives up: this line is what explains why.
        self.log.append(&record(step, &report, skipped))?;
        if let Err(error) = verdict {
            let data = task.state().map_err(fail)?;
            let path = dump::write(&self.path, step, &report, self.guard.hits(), &data)?;
            progress.message(&format!("{} holds what led to it", path.display()));
            return Err(error);
        }
        if skipped {
            let text = format!("step {step}: loss {} is not finite; the update was skipped", report.loss);
            progress.message(&text);
        } else {
            task.apply(step, update).map_err(fail)?;
            self.metrics = finite_metrics(&report);
            let before = self.smoothed.unwrap_or(report.loss);
            self.smoothed = Some(before + SMOOTHING * (report.loss - before));
        }
        self.step += 1;
        progress.advance(self.step, &format!("loss {:.4}", self.smoothed.unwrap_or(report.loss)));
        Ok(skipped)
    }

    fn checkpoint<T: TrainTask>(&mut self, task: &T) -> Result<()> {
        // The state refers to the log's length, so the log must reach the disk first.
        self.log.sync()?;
        let data = task.state().map_err(|source| Error::Task { step: self.step, source })?;
        let state = CheckpointState {
            schema_version: SCHEMA_VERSION,
            step: self.step,
            seed: self.seed,
            config_digest: self.config_digest.clone(),
            metrics: self.metrics.clone(),
            metrics_len: self.log.len(),
            guard_hits: self.guard.hits().to_vec(),
        };
        self.store.save(&Checkpoint { data, state })?;
        Ok(())
    }
}

/// Refuses a checkpoint of another seed, configuration or length.
fn check_fits(state: &CheckpointState, path: &Path, spec: &RunSpec<'_>, config_digest: &str) -> Result<()> {
    let path = path.display();
    for (what, found, expected) in [
        ("seed", state.seed.to_string(), spec.seed.to_string()),
        ("configuration digest", state.config_digest.clone(), config_digest.to_string()),
    ] {
        if found != expected {
            return Err(Error::Refused(format!(
                "{path} was written with {what} {found}, the run has {expected}; restore the run's configuration or \
                 start a new run"
            )));
        }
    }
    if state.step > spec.steps {
        return Err(Error::Refused(format!(
            "{path} has {} completed steps, more than {}; train more steps or start a new run",
            state.step, spec.steps
        )));
    }
    Ok(())
}

fn record(step: usize, report: &StepReport, skipped: bool) -> MetricsRecord {
    let finite = |value: f64| value.is_finite().then_some(value);
    let scalars = report.scalars.iter().map(|(name, &value)| (name.clone(), finite(value)));
    MetricsRecord {
        step,
        loss: finite(report.loss),
        grad_norm: finite(report.grad_norm),
        skipped,
        scalars: scalars.collect(),
    }
}

fn finite_metrics(report: &StepReport) -> BTreeMap<String, f64> {
    let scalars = report.scalars.iter().map(|(name, &value)| (name.clone(), value));
    // The loss last: no scalar takes its name.
    scalars.chain([("loss".to_string(), report.loss)]).filter(|(_, value)| value.is_finite()).collect()
}
