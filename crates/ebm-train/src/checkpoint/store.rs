//! Writing of checkpoints: the commit protocol, and the removal of old ones.

use super::{Checkpoint, MODEL, OPTIMIZER, STATE, SUMS, list_steps, step_name, sums, tensors};
use crate::error::{Error, Result};
use crate::files;
use std::path::{Path, PathBuf};

/// Number of checkpoints that are kept, the newest ones.
const KEPT: usize = 3;

/// Writer of checkpoints in one directory. Only one process may have a store on a directory at a time: hold the
/// run's lock ([`RunDir`](crate::RunDir)). Readers need no lock.
#[derive(Debug)]
pub struct CheckpointStore {
    dir: PathBuf,
}

impl CheckpointStore {
    /// Opens or creates a directory of checkpoints and removes the unfinished files of a killed process.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Io`].
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self> {
        let dir = dir.into();
        files::create_dir(&dir)?;
        files::remove_unfinished(&dir)?;
        Ok(Self { dir })
    }

    /// Commits a checkpoint. It removes checkpoints of later steps, which a resumed run has abandoned, and all
    /// but the newest three.
    ///
    /// # Errors
    /// [`Error::NonFinite`] and other refusals before anything is written; [`Error::DiskFull`] and [`Error::Io`]
    /// with every earlier checkpoint intact.
    pub fn save(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        let step = checkpoint.state.step;
        let path = self.dir.join(step_name(step));
        let model = tensors::encode(&checkpoint.data.model, step)?;
        let optimizer = tensors::encode(&checkpoint.data.optimizer, step)?;
        let state = serde_json::to_vec_pretty(&checkpoint.state).map_err(Error::json(&path.join(STATE)))?;
        let contents = [(MODEL, model.as_slice()), (OPTIMIZER, &optimizer), (STATE, &state)];
        let sums = sums::render(&contents);

        let temporary = self.dir.join(format!(".tmp-{step}-{}", std::process::id()));
        let written =
            write_all(&temporary, &contents, &sums).and_then(|()| self.put(&temporary, &path, step));
        if written.is_err() {
            // The first error is the one to report; the rest is removed when the store opens again.
            let _ = files::remove(&temporary);
        }
        written?;
        self.collect(step)
    }

    /// Gives a complete directory its final name. A checkpoint of the same step, which a resumed run has
    /// abandoned, is removed first, because a directory cannot be renamed over another.
    fn put(&self, temporary: &Path, path: &Path, step: usize) -> Result<()> {
        if path.exists() {
            self.discard(step)?;
        }
        files::rename(temporary, path)
    }

    /// Removes a checkpoint. It is renamed first, so that half of it never counts as a checkpoint.
    fn discard(&self, step: usize) -> Result<()> {
        let old = self.dir.join(format!(".old-{step}-{}", std::process::id()));
        files::rename(&self.dir.join(step_name(step)), &old)?;
        files::remove(&old)
    }

    /// Removes old and abandoned checkpoints after the checkpoint of `newest` was committed.
    fn collect(&self, newest: usize) -> Result<()> {
        let steps = list_steps(&self.dir)?;
        let current = steps.iter().filter(|&&step| step <= newest).count();
        for (index, &step) in steps.iter().enumerate() {
            if step > newest || index + KEPT < current {
                self.discard(step)?;
            }
        }
        Ok(())
    }
}

fn write_all(dir: &Path, contents: &[(&str, &[u8])], sums: &str) -> Result<()> {
    files::create_dir(dir)?;
    for (name, bytes) in contents {
        files::write_durable(&dir.join(name), bytes)?;
    }
    files::write_durable(&dir.join(SUMS), sums.as_bytes())?;
    files::sync_dir(dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::{CheckpointData, CheckpointState, SCHEMA_VERSION, load_latest};
    use crate::files::faults::{Fault, with};
    use candle_core::{Device, Tensor};
    use std::fs;

    fn checkpoint(step: usize) -> Checkpoint {
        let tensor = Tensor::new(&[step as f64, 1.0], &Device::Cpu).unwrap();
        let tensors: std::collections::BTreeMap<_, _> = [("weight".to_owned(), tensor)].into();
        let state = CheckpointState {
            schema_version: SCHEMA_VERSION,
            step,
            seed: 1,
            config_digest: "digest".into(),
            metrics_len: 0,
            guard_hits: vec![],
        };
        Checkpoint { data: CheckpointData { model: tensors.clone(), optimizer: tensors }, state }
    }

    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for name in files::names(from).unwrap() {
            let (from, to) = (from.join(&name), to.join(&name));
            if from.is_dir() {
                copy(&from, &to);
            } else {
                fs::copy(from, to).unwrap();
            }
        }
    }

    /// Tests the first commit of a run, one that drops an old checkpoint, and one that replaces its own step,
    /// each with an error and with a kill at every operation on the disk.
    #[test]
    fn whatever_fails_in_a_commit_the_latest_or_its_predecessor_is_there() {
        for (before, step) in [(vec![], 10), (vec![10, 20, 30], 40), (vec![10, 20], 20)] {
            let earlier = tempfile::tempdir().unwrap();
            for &old in &before {
                CheckpointStore::open(earlier.path()).unwrap().save(&checkpoint(old)).unwrap();
            }
            for fault in [Fault::Error, Fault::Kill] {
                let mut at = 0;
                loop {
                    let dir = tempfile::tempdir().unwrap();
                    let open = || CheckpointStore::open(dir.path()).unwrap();
                    copy(earlier.path(), dir.path());
                    let mut store = open();
                    let (result, operations) = with(fault, at, || store.save(&checkpoint(step)));
                    if operations.len() <= at {
                        assert!(result.is_ok() && at >= 12, "{at} operations");
                        break;
                    }
                    let place = format!("{before:?}, {fault:?} at {at}, {}", operations[at]);
                    match load_latest(dir.path()) {
                        Ok(loaded) => {
                            let found = loaded.checkpoint.state.step;
                            assert!(found == step || before.contains(&found), "{place}: {found}");
                            assert!(found == step || Some(&found) >= before.iter().rev().nth(1), "{place}");
                            assert!(found == step || result.is_err(), "{place}: a commit that is not there");
                        }
                        Err(error) => assert!(before.is_empty() && result.is_err(), "{place}: {error}"),
                    }
                    // The next start removes unfinished files, and the next commit succeeds.
                    open().save(&checkpoint(50)).unwrap();
                    assert_eq!(load_latest(dir.path()).unwrap().checkpoint.state.step, 50, "{place}");
                    let names = files::names(dir.path()).unwrap();
                    assert!(names.iter().all(|name| !name.starts_with('.')), "{place}: {names:?}");
                    at += 1;
                }
            }
        }
    }
}
