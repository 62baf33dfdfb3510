//! Training loop, in one process or in several. It handles steps, checkpoints and the non-finite guard, and knows
//! nothing of the task.
//!
//! Of several processes only rank 0 holds the run's directory, log and checkpoints, and only rank 0 reports; the
//! others compute. They start from rank 0's state, and the means of [`Updater`](crate::Updater) keep them equal,
//! byte for byte. All ranks apply the same update, skip the same step, and stop at the same step if any of them
//! is asked to. If one fails, all do.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::checkpoint::{
    Checkpoint, CheckpointData, CheckpointState, CheckpointStore, Loaded, SCHEMA_VERSION, decode, encode,
    load_latest, sha256,
};
use crate::distributed::Group;
use crate::error::{BoxError, Error, Result};
use crate::guard::NonFiniteGuard;
use crate::metrics::{MetricsLog, MetricsRecord};
use crate::progress::{Progress, RunSpec};
use crate::run_dir::RunDir;

/// Report of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepReport {
    /// Loss of the step.
    pub loss: f64,
    /// Norm of the gradient, before any clipping.
    pub grad_norm: f64,
    /// Other values to log, by name: the learning rate, parts of the loss.
    pub scalars: BTreeMap<String, f64>,
}

/// Task to train. A step depends only on the step's number and the state (batch, learning rate and random generators
/// derive from the number and the seed), so that a resumed run repeats an uninterrupted one bit for bit.
pub trait TrainTask {
    /// Result of a step that [`apply`](Self::apply) consumes: the gradients, and new running statistics if there
    /// are any.
    type Update;

    /// Computes the loss and the gradients of a step without changing anything that [`state`](Self::state) saves.
    ///
    /// # Errors
    /// The errors of the task; they end the run.
    fn step(&mut self, step: usize) -> std::result::Result<(StepReport, Self::Update), BoxError>;

    /// Updates the parameters. It is called only if loss and gradient norm are finite.
    ///
    /// # Errors
    /// The errors of the task; they end the run.
    fn apply(&mut self, step: usize, update: Self::Update) -> std::result::Result<(), BoxError>;

    /// Returns the tensors to save.
    ///
    /// # Errors
    /// The errors of the task; they end the run.
    fn state(&self) -> std::result::Result<CheckpointData, BoxError>;

    /// Restores saved tensors, which are on the CPU. It must refuse names or shapes that differ from its own.
    ///
    /// # Errors
    /// The errors of the task; they end the run.
    fn restore(&mut self, data: CheckpointData) -> std::result::Result<(), BoxError>;
}

/// Trains `task` according to `spec`, as a stage of `progress`, and leaves its last checkpoint in the run's
/// directory.
///
/// Each step is computed, checked ([`NonFiniteGuard`]), logged and applied. A step that is not finite is logged
/// and not applied; a checkpoint that is due then waits for the next finite step. A resumed run cuts off log
/// lines after its checkpoint.
///
/// # Errors
/// [`Error::Interrupted`] if `progress` asked it to stop, with a checkpoint committed; [`Error::Task`];
/// [`Error::NonFinite`] at the third non-finite step within 100, without a checkpoint; [`Error::Refused`] if the
/// run or its checkpoints do not fit; and the errors of [`RunDir::create`] or [`RunDir::open`],
/// [`CheckpointStore::save`] and [`load_latest`].
pub fn train_run<T: TrainTask>(
    spec: &RunSpec<'_>,
    task: &mut T,
    progress: &mut dyn Progress,
) -> Result<RunDir> {
    train_as_first(spec, task, progress, &Group::alone())
}

/// Trains like [`train_run`] in the processes of `group`. Each process has its own `task` on its own share of the
/// batches, which takes its means over the group. Rank 0 returns the run.
///
/// # Errors
/// The errors of [`train_run`], on every rank. If only one rank has failed, the others return [`Error::Rank`]
/// with its number and reason. The group cannot be used any more after an error.
pub fn train_together<T: TrainTask>(
    spec: &RunSpec<'_>,
    task: &mut T,
    progress: &mut dyn Progress,
    group: &Group,
) -> Result<Option<RunDir>> {
    let trained = match group.is_first() {
        true => train_as_first(spec, task, progress, group).map(Some),
        false => run_steps(spec, task, progress, group, None).map(|()| None),
    };
    trained.inspect_err(|error| group.fail(&error.to_string()))
}

/// Trains as rank 0.
fn train_as_first<T: TrainTask>(
    spec: &RunSpec<'_>,
    task: &mut T,
    progress: &mut dyn Progress,
    group: &Group,
) -> Result<RunDir> {
    let run = spec.open(&progress.environment())?;
    progress.begin(&format!("training {}", spec.name), spec.whole.unwrap_or(spec.steps));
    let records = Records::open(spec, &run, task, progress)?;
    run_steps(spec, task, progress, group, Some(records))?;
    Ok(run)
}

/// Runs the loop of one rank; rank 0 has `records`.
fn run_steps<T: TrainTask>(
    spec: &RunSpec<'_>,
    task: &mut T,
    progress: &mut dyn Progress,
    group: &Group,
    mut records: Option<Records>,
) -> Result<()> {
    let Start { mut step, guard_hits, .. } = begin_together(spec, task, group, records.as_ref())?;
    let mut guard = NonFiniteGuard::new(guard_hits);
    let mut stopped = false;
    while step < spec.steps && !stopped {
        let fail = |source| Error::Task { step, source };
        let (report, update) = task.step(step).map_err(fail)?;
        let verdict = guard.check(step, report.loss, report.grad_norm);
        if let Some(records) = &mut records {
            records.log(step, &report, &verdict)?;
        }
        let applies = verdict?;
        if applies {
            task.apply(step, update).map_err(fail)?;
        }
        step += 1;
        if let Some(records) = &mut records {
            records.report(step, &report, applies, progress);
        }
        stopped = group.any(progress.stop_requested())?;
        if let Some(records) = &mut records {
            let every = spec.checkpoint_every;
            records.is_due |= every > 0 && step.is_multiple_of(every);
            if (records.is_due && applies) || stopped || step == spec.steps {
                records.checkpoint(spec, step, &guard, task)?;
            }
        }
    }
    end_together(step, task, group)?;
    if records.is_some() {
        progress.end();
    }
    if step < spec.steps {
        return Err(Error::Interrupted { path: spec.root.join(spec.name), step });
    }
    Ok(())
}

/// State of a training at its start, except the tensors.
#[derive(Serialize, Deserialize)]
struct Start {
    seed: u64,
    config_digest: String,
    end: usize,
    step: usize,
    guard_hits: Vec<usize>,
}

/// Name in errors of the state that rank 0 sends.
const SENT: &str = "rank 0's state";

/// Returns the start of rank 0, which has `records`, on every rank; the other ranks load its tensors.
fn begin_together<T: TrainTask>(
    spec: &RunSpec<'_>,
    task: &mut T,
    group: &Group,
    records: Option<&Records>,
) -> Result<Start> {
    let (step, guard_hits) =
        records.map_or_else(Default::default, |records| (records.step, records.guard_hits.clone()));
    let own = Start { seed: spec.seed, config_digest: spec.digest(), end: spec.steps, step, guard_hits };
    if group.world() == 1 {
        return Ok(own);
    }
    let text = serde_json::to_vec(&own).map_err(Error::json(SENT.as_ref()))?;
    let first: Start = serde_json::from_slice(&group.share(text)?).map_err(Error::json(SENT.as_ref()))?;
    let fail = |source| Error::Task { step: first.step, source };
    if group.is_first() {
        let data = task.state().map_err(fail)?;
        group.share(encode(&data.model, step)?)?;
        group.share(encode(&data.optimizer, step)?)?;
        return Ok(own);
    }
    let [model, optimizer] = [group.share(Vec::new())?, group.share(Vec::new())?];
    for (what, theirs, mine) in [
        ("seed", first.seed.to_string(), own.seed.to_string()),
        ("number of steps", first.end.to_string(), own.end.to_string()),
        ("configuration digest", first.config_digest.clone(), own.config_digest),
    ] {
        if theirs != mine {
            let remedy = "start all processes with the same arguments";
            return Err(Error::Refused(format!("its {what} is {mine}, rank 0's is {theirs}; {remedy}")));
        }
    }
    let path = Path::new(SENT);
    let data = CheckpointData { model: decode(&model, path)?, optimizer: decode(&optimizer, path)? };
    task.restore(data).map_err(fail)?;
    Ok(first)
}

/// Ends the loop on every rank after a check that all have the same state. Rank 0 has saved its last checkpoint.
///
/// # Errors
/// [`Error::Refused`] on a rank whose state differs from rank 0's.
fn end_together<T: TrainTask>(step: usize, task: &T, group: &Group) -> Result<()> {
    if group.world() == 1 {
        return Ok(());
    }
    let data = task.state().map_err(|source| Error::Task { step, source })?;
    let digest = sha256(&[encode(&data.model, step)?, encode(&data.optimizer, step)?].concat());
    if group.share(digest.clone().into_bytes())? != digest.into_bytes() {
        return Err(Error::Refused(format!(
            "after step {step} its parameters are not rank 0's: the processes compute differently; start all of them \
             with the same program on machines of one kind"
        )));
    }
    group.any(false)?;
    Ok(())
}

/// Weight of the newest loss in the displayed average.
const SMOOTHING: f64 = 0.05;

/// Files of a run, which rank 0 writes, and the loss that it displays.
struct Records {
    store: CheckpointStore,
    log: MetricsLog,
    /// Number of completed steps when this process began.
    step: usize,
    /// Steps that the guard remembered then.
    guard_hits: Vec<usize>,
    /// `true` if a checkpoint waits for a finite step.
    is_due: bool,
    /// Loss, averaged over recent steps.
    smoothed: Option<f64>,
}

impl Records {
    /// Opens the files of `run`, and restores `task` from its last checkpoint if there is one.
    fn open<T: TrainTask>(
        spec: &RunSpec<'_>,
        run: &RunDir,
        task: &mut T,
        progress: &mut dyn Progress,
    ) -> Result<Self> {
        let (dir, log_path) = (run.path().join("checkpoints"), run.path().join("metrics.jsonl"));
        let store = CheckpointStore::open(&dir)?;
        let (mut step, mut guard_hits, mut length) = (0, Vec::new(), 0);
        let mut from = None;
        match load_latest(&dir) {
            Err(Error::NoCheckpoint(_)) => {}
            _ if !spec.resume => {
                let remedy = "resume the run or choose another name";
                return Err(Error::Refused(format!("{} already holds checkpoints; {remedy}", dir.display())));
            }
            loaded => {
                let Loaded { checkpoint: Checkpoint { data, state }, path, skipped } = loaded?;
                skipped.iter().for_each(|skipped| progress.message(skipped));
                check_fits(&state, &path, spec)?;
                task.restore(data).map_err(|source| Error::Task { step: state.step, source })?;
                (step, guard_hits, length) = (state.step, state.guard_hits, state.metrics_len);
                from = Some(path);
            }
        }
        let log = MetricsLog::open(&log_path, length)?;
        if log.bytes() < length {
            let (path, left) = (log_path.display(), log.bytes());
            progress.message(&format!("{path}: {left} of {length} bytes are left"));
        }
        if let Some(from) = from {
            progress.resumed(step);
            if !spec.is_quiet {
                progress.message(&format!("going on from step {step}, {}", from.display()));
            }
        }
        Ok(Self { store, log, step, guard_hits, is_due: false, smoothed: None })
    }

    /// Logs a step, also if the guard fails, because this line explains the failure.
    fn log(&mut self, step: usize, report: &StepReport, verdict: &Result<bool>) -> Result<()> {
        let finite = |value: f64| value.is_finite().then_some(value);
        let scalars = report.scalars.iter().map(|(name, &value)| (name.clone(), finite(value)));
        self.log.append(&MetricsRecord {
            step,
            loss: finite(report.loss),
            grad_norm: finite(report.grad_norm),
            skipped: !matches!(verdict, Ok(true)),
            scalars: scalars.collect(),
        })
    }

    /// Reports the last of `done` steps, whose update was `applied` or skipped.
    fn report(&mut self, done: usize, report: &StepReport, applied: bool, progress: &mut dyn Progress) {
        let loss = report.loss;
        if applied {
            let before = self.smoothed.unwrap_or(loss);
            self.smoothed = Some(before + SMOOTHING * (loss - before));
        } else {
            let step = done - 1;
            progress.message(&format!("step {step}: loss {loss} is not finite; the update was skipped"));
        }
        progress.advance(done, &format!("loss {:.4}", self.smoothed.unwrap_or(loss)));
    }

    fn checkpoint<T: TrainTask>(
        &mut self,
        spec: &RunSpec<'_>,
        step: usize,
        guard: &NonFiniteGuard,
        task: &T,
    ) -> Result<()> {
        // The state refers to the log's length, so the log must reach the disk first.
        self.log.sync()?;
        let data = task.state().map_err(|source| Error::Task { step, source })?;
        let state = CheckpointState {
            schema_version: SCHEMA_VERSION,
            step,
            seed: spec.seed,
            config_digest: spec.digest(),
            metrics_len: self.log.bytes(),
            guard_hits: guard.hits().to_vec(),
        };
        self.is_due = false;
        self.store.save(&Checkpoint { data, state })
    }
}

/// Refuses a checkpoint with another seed or configuration, or with more steps.
fn check_fits(state: &CheckpointState, path: &Path, spec: &RunSpec<'_>) -> Result<()> {
    let path = path.display();
    for (what, found, expected) in [
        ("seed", state.seed.to_string(), spec.seed.to_string()),
        ("configuration digest", state.config_digest.clone(), spec.digest()),
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
