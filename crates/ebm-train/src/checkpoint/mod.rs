//! Checkpoints: their content, how they are committed, and how they are read.
//!
//! ```text
//! checkpoints/
//!   step-00000200/
//!     model.safetensors      parameters and buffers
//!     optimizer.safetensors  momenta
//!     state.json             everything else
//!     SHA256SUMS             hashes of the three, as `sha256sum -c` reads them
//! ```
//!
//! **Commit** ([`CheckpointStore::save`]): write into `.tmp-<step>-<pid>/`, synchronise every file and the
//! directory, rename to `step-NNNNNNNN/`, synchronise the parent. A crash at any point leaves the previous
//! checkpoint in place. **Read** ([`load_latest`]): the newest checkpoint with correct hashes, together with the
//! reasons why newer ones were skipped.

mod store;
mod sums;
mod tensors;

pub use store::CheckpointStore;
pub(crate) use sums::hexadecimal;
pub use sums::sha256;
pub(crate) use tensors::{decode, encode};

use crate::error::{Error, Result};
use crate::files::{self, MAX_BYTES, MAX_TEXT_BYTES, read_if_exists};
use candle_core::Tensor;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const MODEL: &str = "model.safetensors";
const OPTIMIZER: &str = "optimizer.safetensors";
const STATE: &str = "state.json";
const SUMS: &str = "SHA256SUMS";

/// Version of the checkpoint layout that this program writes and reads.
pub const SCHEMA_VERSION: u32 = 1;

/// Tensors of a task, by name, of any shape and on any device.
#[derive(Clone, Debug, Default)]
pub struct CheckpointData {
    /// Parameters and buffers.
    pub model: BTreeMap<String, Tensor>,
    /// State of the optimiser, for example one momentum per parameter.
    pub optimizer: BTreeMap<String, Tensor>,
}

/// State that makes resuming exact, besides the tensors. Learning rates and random generators need none, because
/// they are functions of the step and the seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckpointState {
    /// Layout version [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// Number of completed steps, which is the next step to run.
    pub step: usize,
    /// Root seed of the run.
    pub seed: u64,
    /// Digest of the run's configuration.
    pub config_digest: String,
    /// Length in bytes of the metrics log; later lines of a crashed process are cut off.
    pub metrics_len: u64,
    /// Steps with non-finite values that the guard still counts.
    pub guard_hits: Vec<usize>,
}

impl CheckpointState {
    /// Parses a state file; its schema version is checked first.
    fn parse(bytes: &[u8], path: &Path) -> Result<Self> {
        #[derive(Deserialize)]
        struct Version {
            schema_version: u32,
        }
        let json = Error::json(path);
        let Version { schema_version: found } = serde_json::from_slice(bytes).map_err(&json)?;
        if found != SCHEMA_VERSION {
            return Err(Error::Schema(path.to_path_buf(), found));
        }
        serde_json::from_slice(bytes).map_err(&json)
    }
}

/// Checkpoint in memory.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// Tensors of the task.
    pub data: CheckpointData,
    /// All other state.
    pub state: CheckpointState,
}

/// Checkpoint that was read, with the reasons for skipping newer ones.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The checkpoint, its tensors on the CPU.
    pub checkpoint: Checkpoint,
    /// Directory of the checkpoint.
    pub path: PathBuf,
    /// Description of each damaged newer checkpoint, to be shown as a warning: its directory and file, and the
    /// expected and the actual hash if they differ.
    pub skipped: Vec<String>,
}

/// Reads the newest valid checkpoint in `dir`.
///
/// # Errors
/// [`Error::NoCheckpoint`], [`Error::NoValidCheckpoint`], [`Error::Schema`], or [`Error::Io`] if `dir` cannot be
/// listed.
pub fn load_latest(dir: &Path) -> Result<Loaded> {
    let steps = list_steps(dir)?;
    if steps.is_empty() {
        return Err(Error::NoCheckpoint(dir.into()));
    }
    let mut skipped = Vec::new();
    for step in steps.into_iter().rev() {
        let path = dir.join(step_name(step));
        match read_verified(&path) {
            Ok(checkpoint) => return Ok(Loaded { checkpoint, path, skipped }),
            Err(error @ Error::Schema(..)) => return Err(error),
            Err(error) => skipped.push(format!("skipped {}: {error}", path.display())),
        }
    }
    Err(Error::NoValidCheckpoint(dir.into(), skipped))
}

/// Reads a checkpoint's directory after a check of its files against `SHA256SUMS`.
fn read_verified(dir: &Path) -> Result<Checkpoint> {
    let read = |name: &str, limit: u64| {
        let path = dir.join(name);
        read_if_exists(&path, limit)?.ok_or_else(|| Error::corrupt(path, "it does not exist"))
    };
    let [sums, state] = [read(SUMS, MAX_TEXT_BYTES)?, read(STATE, MAX_TEXT_BYTES)?];
    let [model, optimizer] = [read(MODEL, MAX_BYTES)?, read(OPTIMIZER, MAX_BYTES)?];
    sums::verify(dir, &sums, &[(MODEL, &model), (OPTIMIZER, &optimizer), (STATE, &state)])?;
    Ok(Checkpoint {
        state: CheckpointState::parse(&state, &dir.join(STATE))?,
        data: CheckpointData {
            model: decode(&model, &dir.join(MODEL))?,
            optimizer: decode(&optimizer, &dir.join(OPTIMIZER))?,
        },
    })
}

/// Returns `step-00000200` for 200 completed steps.
fn step_name(step: usize) -> String {
    format!("step-{step:08}")
}

/// Inverts [`step_name`]; returns `None` for any other name.
fn parse_step(name: &str) -> Option<usize> {
    let step = name.strip_prefix("step-")?.parse().ok()?;
    (step_name(step) == name).then_some(step)
}

/// Returns the completed steps of all checkpoints in `dir`, ascending; empty if there is no such directory.
fn list_steps(dir: &Path) -> Result<Vec<usize>> {
    let mut steps: Vec<usize> = files::names(dir)?.iter().filter_map(|name| parse_step(name)).collect();
    steps.sort_unstable();
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_steps_are_inverse() {
        for step in [0, 7, 99_999_999, 123_456_789] {
            assert_eq!(parse_step(&step_name(step)), Some(step));
        }
        for name in ["step-7", "step-0000000a", "step-", "step-+0000007", ".tmp-7-1", "step-000000007"] {
            assert_eq!(parse_step(name), None, "{name}");
        }
    }
}
