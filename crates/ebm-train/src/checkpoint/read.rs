//! Reading checkpoints: every hash is verified, and a damaged one is skipped with its reason.

use super::{
    Checkpoint, CheckpointData, CheckpointState, LATEST, MODEL, OPTIMIZER, STATE, SUMS, list_steps,
    step_name, sums, tensors,
};
use crate::error::{Error, Result};
use crate::files::{MAX_BYTES, MAX_TEXT_BYTES, read_if_exists};
use std::fmt;
use std::path::{Path, PathBuf};

/// A checkpoint that was read, and what was not.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The checkpoint, its tensors on the CPU.
    pub checkpoint: Checkpoint,
    /// Its directory.
    pub path: PathBuf,
    /// What should have been read instead and was damaged: show these as warnings.
    pub skipped: Vec<Skipped>,
}

/// A checkpoint or pointer that was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The checkpoint's directory, or `LATEST`.
    pub path: PathBuf,
    /// Why: names the file, and for a wrong hash the expected and the actual one.
    pub reason: String,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "skipped {}: {}", self.path.display(), self.reason)
    }
}

/// Reads the checkpoint that `LATEST` in `dir` names, or else the newest valid one.
///
/// # Errors
/// [`Error::NoCheckpoint`], [`Error::NoValidCheckpoint`], or [`Error::Io`] where `dir` cannot be listed.
pub fn load_latest(dir: &Path) -> Result<Loaded> {
    let mut skipped = Vec::new();
    let mut steps = list_steps(dir)?;
    let pointer = dir.join(LATEST);
    match read_if_exists(&pointer, MAX_TEXT_BYTES) {
        Ok(None) if steps.is_empty() => return Err(Error::NoCheckpoint(dir.into())),
        Ok(None) => skipped.push(Skipped { path: pointer, reason: "it does not exist".into() }),
        Ok(Some(text)) => match sums::parse_latest(dir, &text) {
            Ok(step) => {
                let path = dir.join(step_name(step));
                let verify = |sums: &[u8]| sums::verify_latest(dir, &text, step, sums);
                match read_verified(&path, verify) {
                    Ok(checkpoint) => return Ok(Loaded { checkpoint, path, skipped }),
                    Err(error @ Error::Schema { .. }) => return Err(error),
                    // The pointer itself may be what is damaged, so the step stays a candidate.
                    Err(error) => skipped.push(Skipped { path: pointer, reason: error.to_string() }),
                }
            }
            Err(error) => skipped.push(Skipped { path: pointer, reason: error.to_string() }),
        },
        Err(error) => skipped.push(Skipped { path: pointer, reason: error.to_string() }),
    }
    steps.reverse();
    first_valid(dir, &steps, skipped)
}

/// Reads one checkpoint's directory.
///
/// # Errors
/// [`Error::File`], [`Error::Schema`], [`Error::Io`].
pub fn load_checkpoint(step_dir: &Path) -> Result<Checkpoint> {
    read_verified(step_dir, |_| Ok(()))
}

fn first_valid(dir: &Path, steps: &[usize], mut skipped: Vec<Skipped>) -> Result<Loaded> {
    for &step in steps {
        let path = dir.join(step_name(step));
        match load_checkpoint(&path) {
            Ok(checkpoint) => return Ok(Loaded { checkpoint, path, skipped }),
            Err(error @ Error::Schema { .. }) => return Err(error),
            Err(error) => skipped.push(Skipped { path, reason: error.to_string() }),
        }
    }
    Err(Error::NoValidCheckpoint { path: dir.into(), skipped })
}

/// Reads a checkpoint after its files agree with `SHA256SUMS` and the sums with `verify_sums`.
fn read_verified(path: &Path, verify_sums: impl Fn(&[u8]) -> Result<()>) -> Result<Checkpoint> {
    let [sums, state] = [read(path, SUMS, MAX_TEXT_BYTES)?, read(path, STATE, MAX_TEXT_BYTES)?];
    let [model, optimizer] = [read(path, MODEL, MAX_BYTES)?, read(path, OPTIMIZER, MAX_BYTES)?];
    sums::verify(path, &sums, &[(MODEL, &model), (OPTIMIZER, &optimizer), (STATE, &state)])?;
    verify_sums(&sums)?;
    Ok(Checkpoint {
        state: CheckpointState::parse(&state, &path.join(STATE))?,
        data: CheckpointData {
            model: tensors::decode(&model, &path.join(MODEL))?,
            optimizer: tensors::decode(&optimizer, &path.join(OPTIMIZER))?,
        },
    })
}

fn read(dir: &Path, name: &str, limit: u64) -> Result<Vec<u8>> {
    let path = dir.join(name);
    read_if_exists(&path, limit)?.ok_or_else(|| Error::corrupt(path, "it does not exist"))
}
