//! The loop in several processes that train one model.
//!
//! Rank 0 holds the run's directory, log and checkpoints and is the only one that reports; the others
//! compute. They start from rank 0's state, and the means that [`Updater`](crate::Updater) takes keep them
//! equal, byte for byte: each applies the same update, skips the same step, and stops at the same one, when
//! any of them is asked to. Where one fails, all do.

use crate::checkpoint::{CheckpointData, decode, encode, sha256};
use crate::distributed::Group;
use crate::error::{Error, Result};
use crate::guard::{NonFiniteGuard, Verdict};
use crate::progress::{Progress, RunSpec, lead_run};
use crate::run_dir::RunDir;
use crate::trainer::TrainTask;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// [`train_run`](crate::train_run) by the processes of `group`, each with its own `task` on its own share of
/// the batches, which takes its means over the group. Rank 0 gets the run.
///
/// # Errors
/// Those of [`train_run`](crate::train_run), on every rank; where one rank alone has failed, the others' is
/// [`crate::distributed::Error::Rank`], with its number and reason. The group is not used any more then.
pub fn train_together<T: TrainTask>(
    spec: &RunSpec<'_>,
    task: &mut T,
    progress: &mut dyn Progress,
    group: &Group,
) -> Result<Option<RunDir>> {
    group.guard(|| {
        if group.is_first() {
            return lead_run(spec, task, progress, group).map(Some);
        }
        let step = follow(spec, task, &mut || progress.stop_requested(), group)?;
        if step < spec.steps {
            return Err(Error::Interrupted { path: spec.root.join(spec.name), step });
        }
        Ok(None)
    })
}

/// Where rank 0 starts, beside the tensors, and with what.
#[derive(Serialize, Deserialize)]
pub(crate) struct Start {
    pub seed: u64,
    pub config_digest: String,
    pub end: usize,
    pub step: usize,
    pub guard_hits: Vec<usize>,
}

/// What errors call the state that rank 0 sends.
const SENT: &str = "rank 0's state";

/// Tells the other ranks where rank 0 starts.
pub(crate) fn send_start<T: TrainTask>(group: &Group, start: &Start, task: &T) -> Result<()> {
    if group.world() == 1 {
        return Ok(());
    }
    let step = start.step;
    let start = serde_json::to_vec(start).map_err(Error::json(SENT.as_ref()))?;
    let data = task.state().map_err(|source| Error::Task { step, source })?;
    for bytes in [start, encode(&data.model, step)?, encode(&data.optimizer, step)?] {
        group.share(bytes)?;
    }
    Ok(())
}

/// Takes up what rank 0 [sent](send_start).
fn receive_start<T: TrainTask>(spec: &RunSpec<'_>, task: &mut T, group: &Group) -> Result<Start> {
    let next = || group.share(Vec::new());
    let start: Start = serde_json::from_slice(&next()?).map_err(Error::json(SENT.as_ref()))?;
    let [model, optimizer] = [next()?, next()?];
    for (what, theirs, mine) in [
        ("seed", start.seed.to_string(), spec.seed.to_string()),
        ("number of steps", start.end.to_string(), spec.steps.to_string()),
        ("configuration digest", start.config_digest.clone(), sha256(spec.identity().as_bytes())),
    ] {
        if theirs != mine {
            let remedy = "start all processes with the same arguments";
            return Err(Error::Refused(format!("its {what} is {mine}, rank 0's is {theirs}; {remedy}")));
        }
    }
    let path = Path::new(SENT);
    let data = CheckpointData { model: decode(&model, path)?, optimizer: decode(&optimizer, path)? };
    task.restore(data).map_err(|source| Error::Task { step: start.step, source })?;
    Ok(start)
}

/// The loop of a rank that is not rank 0; returns the number of completed steps.
fn follow<T: TrainTask>(
    spec: &RunSpec<'_>,
    task: &mut T,
    stop_requested: &mut dyn FnMut() -> bool,
    group: &Group,
) -> Result<usize> {
    let Start { mut step, guard_hits, .. } = receive_start(spec, task, group)?;
    let mut guard = NonFiniteGuard::new(guard_hits);
    let mut stopped = false;
    while step < spec.steps && !stopped {
        let fail = |source| Error::Task { step, source };
        let (report, update) = task.step(step).map_err(fail)?;
        if guard.check(step, report.loss, report.grad_norm)? == Verdict::Apply {
            task.apply(step, update).map_err(fail)?;
        }
        step += 1;
        stopped = group.any(stop_requested())?;
    }
    part(step, task, group)?;
    Ok(step)
}

/// The end of the loop, on every rank: all have come here, rank 0 with its last checkpoint, and all hold the
/// same state.
///
/// # Errors
/// [`Error::Refused`] on a rank whose state differs from rank 0's.
pub(crate) fn part<T: TrainTask>(step: usize, task: &T, group: &Group) -> Result<()> {
    if group.world() == 1 {
        return Ok(());
    }
    let data = task.state().map_err(|source| Error::Task { step, source })?;
    let digest = sha256(&[encode(&data.model, step)?, encode(&data.optimizer, step)?].concat());
    let differs = group.share(digest.clone().into_bytes())? != digest.into_bytes();
    if differs {
        return Err(Error::Refused(format!(
            "after step {step} its parameters are not rank 0's: the processes compute differently; start all of them \
             with the same program on machines of one kind"
        )));
    }
    group.any(false)?;
    Ok(())
}
