//! The training loop. It knows steps, checkpoints and the non-finite guard, and nothing of the task.

use crate::checkpoint::{
    Checkpoint, CheckpointData, CheckpointState, CheckpointStore, Retention, SCHEMA_VERSION, load_latest,
};
use crate::dump;
use crate::error::{BoxError, Error, Result};
use crate::guard::{NonFiniteGuard, Verdict};
use crate::metrics::{MetricsLog, MetricsRecord};
use crate::observer::{Event, Observer};
use crate::run_dir::RunDir;
use crate::together::{self, Start};
use ebm_distributed::Group;
use std::collections::BTreeMap;
use std::ops::Range;
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

/// How a run is trained.
#[derive(Debug)]
pub struct TrainOptions<'a> {
    /// The run, which holds the lock.
    pub run: &'a RunDir,
    /// The root seed, recorded in checkpoints.
    pub seed: u64,
    /// A checkpoint is committed every so many steps and at the end; 0: at the end only.
    pub checkpoint_every: usize,
    /// Which checkpoints are kept.
    pub retention: Retention,
    /// Whether to go on from the latest valid checkpoint, if there is any. Otherwise there must be none.
    pub resume: bool,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The number of completed steps.
    pub step: usize,
    /// Whether the observer stopped it before the end.
    pub stopped: bool,
    /// The last checkpoint.
    pub checkpoint: Option<PathBuf>,
}

/// Trains `task` for `steps`.
///
/// Each step: compute, judge ([`NonFiniteGuard`]), log, update. A step that is not finite is logged and
/// its update dropped; a checkpoint due there waits for the next finite step. A resumed run cuts off what
/// was logged after its checkpoint.
///
/// # Errors
/// [`Error::Task`]; [`Error::NonFinite`] at the third non-finite step within 100, without a checkpoint;
/// [`Error::HasCheckpoints`], [`Error::OtherRun`], [`Error::OutsideSteps`] where the run's checkpoints do
/// not fit; and those of [`CheckpointStore::save`], [`load_latest`] and [`MetricsLog`].
pub fn train<T: TrainTask>(
    steps: Range<usize>,
    task: &mut T,
    observer: &mut dyn Observer,
    options: &TrainOptions<'_>,
) -> Result<Outcome> {
    lead(steps, task, observer, options, &Group::alone())
}

/// [`train`] as rank 0 of `group`, whose other processes [`follow`](together::follow).
pub(crate) fn lead<T: TrainTask>(
    steps: Range<usize>,
    task: &mut T,
    observer: &mut dyn Observer,
    options: &TrainOptions<'_>,
    group: &Group,
) -> Result<Outcome> {
    let mut run = Run::start(&steps, task, observer, options)?;
    let start = Start {
        seed: run.seed,
        config_digest: run.config_digest.clone(),
        end: steps.end,
        step: run.step,
        guard_hits: run.guard.hits().to_vec(),
    };
    together::send_start(group, &start, task)?;
    let mut due = false;
    let mut stopped = false;
    while run.step < steps.end && !stopped {
        let skipped = run.one_step(task, observer)?;
        stopped = group.any(observer.stop_requested())?;
        due |= options.checkpoint_every > 0 && run.step.is_multiple_of(options.checkpoint_every);
        if (due && !skipped) || stopped || run.step == steps.end {
            run.checkpoint(task, observer)?;
            due = false;
        }
    }
    together::part(run.step, task, group)?;
    let stopped = run.step < steps.end;
    observer.event(Event::Finished { step: run.step, stopped });
    Ok(Outcome { step: run.step, stopped, checkpoint: run.last_checkpoint })
}

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
    last_checkpoint: Option<PathBuf>,
}

impl Run {
    fn start<T: TrainTask>(
        steps: &Range<usize>,
        task: &mut T,
        observer: &mut dyn Observer,
        options: &TrainOptions<'_>,
    ) -> Result<Self> {
        let dir = options.run.checkpoints_path();
        let store = CheckpointStore::open(&dir, options.retention.clone())?;
        let (seed, config_digest) = (options.seed, options.run.config_digest());
        let log_path = options.run.metrics_path();
        if store.is_empty()? {
            let log = MetricsLog::open_at(log_path, 0)?;
            observer.event(Event::Started { step: steps.start, end: steps.end, resumed_from: None });
            let (guard, metrics) = Default::default();
            let step = steps.start;
            let last_checkpoint = None;
            return Ok(Self {
                path: options.run.path().into(),
                step,
                seed,
                config_digest,
                store,
                log,
                guard,
                metrics,
                last_checkpoint,
            });
        }
        if !options.resume {
            return Err(Error::HasCheckpoints(dir));
        }
        let loaded = load_latest(&dir)?;
        for skipped in &loaded.skipped {
            observer.event(Event::Warning { message: &skipped.to_string() });
        }
        let Checkpoint { data, state } = loaded.checkpoint;
        check_fits(&state, &loaded.path, steps, seed, &config_digest)?;
        task.restore(data).map_err(|source| Error::Task { step: state.step, source })?;
        let log = MetricsLog::open_at(&log_path, state.metrics_len)?;
        if log.len() < state.metrics_len {
            let path = log_path.display();
            let message = format!("{path}: {} of {} bytes are left", log.len(), state.metrics_len);
            observer.event(Event::Warning { message: &message });
        }
        let (step, end, path) = (state.step, steps.end, loaded.path);
        observer.event(Event::Started { step, end, resumed_from: Some(&path) });
        let (guard, metrics) = (NonFiniteGuard::new(state.guard_hits), state.metrics);
        let (path, last_checkpoint) = (options.run.path().into(), Some(path));
        Ok(Self { path, step, seed, config_digest, store, log, guard, metrics, last_checkpoint })
    }

    /// Runs one step and returns whether its update was skipped.
    fn one_step<T: TrainTask>(&mut self, task: &mut T, observer: &mut dyn Observer) -> Result<bool> {
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
            observer.event(Event::Warning { message: &format!("{} holds what led to it", path.display()) });
            return Err(error);
        }
        if !skipped {
            task.apply(step, update).map_err(fail)?;
            self.metrics = finite_metrics(&report);
        }
        self.step += 1;
        observer.event(Event::Step { step, report: &report, skipped });
        Ok(skipped)
    }

    fn checkpoint<T: TrainTask>(&mut self, task: &T, observer: &mut dyn Observer) -> Result<()> {
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
        let path = self.store.save(&Checkpoint { data, state })?;
        observer.event(Event::Checkpointed { step: self.step, path: &path });
        self.last_checkpoint = Some(path);
        Ok(())
    }
}

/// Refuses a checkpoint of another seed, configuration or range of steps.
fn check_fits(
    state: &CheckpointState,
    path: &Path,
    steps: &Range<usize>,
    seed: u64,
    config_digest: &str,
) -> Result<()> {
    for (what, found, expected) in [
        ("seed", state.seed.to_string(), seed.to_string()),
        ("configuration digest", state.config_digest.clone(), config_digest.to_string()),
    ] {
        if found != expected {
            return Err(Error::OtherRun { path: path.into(), what, found, expected });
        }
    }
    if state.step < steps.start || state.step > steps.end {
        let (step, start, end) = (state.step, steps.start, steps.end);
        return Err(Error::OutsideSteps { path: path.into(), step, start, end });
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
