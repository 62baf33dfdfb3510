//! Checkpoints: what they hold, how they are committed, and how they are read back.
//!
//! ```text
//! checkpoints/
//!   LATEST               "step-00000200 <sha256 of its SHA256SUMS>"
//!   step-00000200/
//!     model.safetensors      parameters and buffers
//!     optimizer.safetensors  momenta
//!     state.json             everything else
//!     SHA256SUMS             hashes of the three, as `sha256sum -c` reads them
//! ```
//!
//! **Commit** ([`CheckpointStore::save`]): write into `.tmp-<step>-<pid>/`, synchronise every file and the
//! directory, rename to `step-NNNNNNNN/`, synchronise the parent, replace `LATEST`. A crash at any point
//! leaves the previous checkpoint in place. **Read** ([`load_latest`]): the checkpoint that `LATEST` names
//! if every hash is right, else the newest valid one, together with what was skipped and why. The hash in
//! `LATEST` makes a damaged pointer as noticeable as a damaged file.

mod read;
mod store;
mod sums;
mod tensors;

pub use read::{Loaded, Skipped, load_checkpoint, load_latest};
pub use store::CheckpointStore;
pub(crate) use sums::hexadecimal;
pub use sums::sha256;
pub(crate) use tensors::{decode, encode};

use crate::error::{Error, Result};
use crate::files;
use candle_core::Tensor;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

const MODEL: &str = "model.safetensors";
const OPTIMIZER: &str = "optimizer.safetensors";
const STATE: &str = "state.json";
const SUMS: &str = "SHA256SUMS";
const LATEST: &str = "LATEST";

/// The layout of checkpoints that this program writes and reads.
pub const SCHEMA_VERSION: u32 = 1;

/// The tensors of a task, by name; of any shape, on any device.
#[derive(Clone, Debug, Default)]
pub struct CheckpointData {
    /// Parameters and buffers.
    pub model: BTreeMap<String, Tensor>,
    /// The optimiser's state, for example one momentum per parameter.
    pub optimizer: BTreeMap<String, Tensor>,
}

/// What makes resuming exact besides the tensors. Learning rate and random generators are functions of
/// the step and the seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckpointState {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// The number of completed steps, which is the next step to run.
    pub step: usize,
    /// The run's root seed.
    pub seed: u64,
    /// The digest of the run's configuration.
    pub config_digest: String,
    /// The loss and scalars of the last step whose update was applied, where finite.
    pub metrics: BTreeMap<String, f64>,
    /// The length in bytes of the metrics log; what a crashed process logged beyond it is cut off.
    pub metrics_len: u64,
    /// The steps that the non-finite guard still remembers.
    pub guard_hits: Vec<usize>,
}

impl CheckpointState {
    /// Parses a state file, its schema version first.
    fn parse(bytes: &[u8], path: &Path) -> Result<Self> {
        #[derive(Deserialize)]
        struct Version {
            schema_version: u32,
        }
        let json = Error::json(path);
        let Version { schema_version: found } = serde_json::from_slice(bytes).map_err(&json)?;
        if found != SCHEMA_VERSION {
            return Err(Error::Schema { path: path.to_path_buf(), found });
        }
        serde_json::from_slice(bytes).map_err(&json)
    }
}

/// A checkpoint in memory.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// The task's tensors.
    pub data: CheckpointData,
    /// Everything else.
    pub state: CheckpointState,
}

/// `step-00000200` for 200 completed steps.
fn step_name(step: usize) -> String {
    format!("step-{step:08}")
}

/// The inverse of [`step_name`]; none for any other name.
fn parse_step(name: &str) -> Option<usize> {
    let step = name.strip_prefix("step-")?.parse().ok()?;
    (step_name(step) == name).then_some(step)
}

/// The completed steps of all checkpoints in `dir`, ascending; empty where there is no such directory.
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
