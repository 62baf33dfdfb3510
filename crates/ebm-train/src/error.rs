//! What can go wrong in a run; every message names the place and the remedy.

use crate::checkpoint::Skipped;
use std::path::PathBuf;

/// The result of every fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The error of a task, of whatever type it has.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation on a file or directory failed for a reason that has no variant of its own.
    #[error("cannot {action} {}: {source}; check that the path exists and is on a working disk", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The verb: "write", "create", "read", …
        action: &'static str,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// The file system is full, the quota is used up, or the file is larger than allowed.
    #[error(
        "no space for {} ({needed} bytes): {source}; free some or choose a run directory on another disk; \
         earlier checkpoints are intact",
        path.display()
    )]
    DiskFull {
        /// The file that did not fit.
        path: PathBuf,
        /// Its size in bytes.
        needed: u64,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// The file or directory may not be written.
    #[error("{} is not writable: {source}; change its permissions or choose another run directory", path.display())]
    NotWritable {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// A JSON file of a run is malformed.
    #[error("{}: {source}; restore the file or delete it", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The parser's reason.
        source: serde_json::Error,
    },
    /// A line of a metrics log is malformed (a torn last line is not an error).
    #[error("{}, line {line}: {source}; delete the line", path.display())]
    MetricsLine {
        /// The log.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The parser's reason.
        source: serde_json::Error,
    },
    /// A run's name that is no plain directory name.
    #[error("{name:?} is no run name; use letters, digits, '-', '_' and '.', not beginning with '.'")]
    RunName {
        /// The name.
        name: String,
    },
    /// A new run where there is one already.
    #[error("{} already holds a run; resume it or choose another name", path.display())]
    RunExists {
        /// The run's directory.
        path: PathBuf,
    },
    /// Another process holds the run.
    #[error("{} is in use by process {holder}; wait for it or choose another name", path.display())]
    RunLocked {
        /// The run's directory.
        path: PathBuf,
        /// The holder's process id as its lock file gives it, or "unknown".
        holder: String,
    },
    /// Starting afresh over existing checkpoints.
    #[error("{} already holds checkpoints; resume the run or choose another name", path.display())]
    HasCheckpoints {
        /// The directory of checkpoints.
        path: PathBuf,
    },
    /// There is no checkpoint.
    #[error("no checkpoint in {}; train first or give another run", path.display())]
    NoCheckpoint {
        /// The directory of checkpoints.
        path: PathBuf,
    },
    /// There are checkpoints, and none of them is valid.
    #[error("no valid checkpoint in {}: {}; restore one from a copy or start a new run", path.display(), list(skipped))]
    NoValidCheckpoint {
        /// The directory of checkpoints.
        path: PathBuf,
        /// What was tried, with the reason of each refusal.
        skipped: Vec<Skipped>,
    },
    /// A file of a checkpoint is missing or not what was written.
    #[error("{}: {problem}; use an earlier checkpoint or restore the file from a copy", path.display())]
    CorruptCheckpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong; for a wrong hash the expected and the actual one.
        problem: String,
    },
    /// A checkpoint written by another version of this crate.
    #[error(
        "{}: schema version {found}, this program reads {supported}; use the program that wrote it",
        path.display()
    )]
    Schema {
        /// The state file.
        path: PathBuf,
        /// The version found.
        found: u32,
        /// The version supported.
        supported: u32,
    },
    /// A checkpoint that belongs to another configuration or seed than the run that would resume it.
    #[error(
        "{} was written with {what} {found}, the run has {expected}; restore the run's configuration or start \
         a new run",
        path.display()
    )]
    OtherRun {
        /// The checkpoint.
        path: PathBuf,
        /// "configuration digest" or "seed".
        what: &'static str,
        /// The checkpoint's.
        found: String,
        /// The run's.
        expected: String,
    },
    /// A run that was made with other settings than the one that would go on with it.
    #[error("{} was made with {differences}; restore the run's configuration or start a new run", path.display())]
    OtherSettings {
        /// The run's directory.
        path: PathBuf,
        /// What differs, with both values.
        differences: String,
    },
    /// A checkpoint outside the steps to train.
    #[error(
        "{} has {step} completed steps, outside {start} to {end}; train more steps or start a new run",
        path.display()
    )]
    OutsideSteps {
        /// The checkpoint.
        path: PathBuf,
        /// Its completed steps.
        step: usize,
        /// First step of the range.
        start: usize,
        /// End of the range, exclusive.
        end: usize,
    },
    /// A parameter or optimiser state is NaN or infinite; such a checkpoint is never written.
    #[error(
        "step {step}: {name} has a NaN or infinite value; resume the last checkpoint with a smaller learning rate"
    )]
    NonFiniteTensor {
        /// The completed steps.
        step: usize,
        /// The tensor's name.
        name: String,
    },
    /// A tensor of a type that checkpoints do not hold.
    #[error("{name} has type {dtype}; checkpoints hold f16, bf16, f32, f64, u8, u32 and i64")]
    TensorType {
        /// The tensor's name.
        name: String,
        /// Its type.
        dtype: &'static str,
    },
    /// The loss or gradient norm was not finite too often.
    #[error(
        "step {step}: loss {loss}, gradient norm {grad_norm}: not finite at steps {hits:?}; lower the learning \
         rate, clip gradients or look at these batches"
    )]
    NonFinite {
        /// The step that gave up.
        step: usize,
        /// Its loss.
        loss: f64,
        /// Its gradient norm.
        grad_norm: f64,
        /// The steps of the window at which an update was skipped, the last one included.
        hits: Vec<usize>,
    },
    /// The run was asked to stop and did, with a checkpoint.
    #[error("{}: interrupted after step {step}, which is saved; go on with --resume", path.display())]
    Interrupted {
        /// The run's directory.
        path: PathBuf,
        /// The completed steps.
        step: usize,
    },
    /// A file of weights that cannot be used here, by what it says of itself.
    #[error("{}: {reason}", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        reason: String,
    },
    /// The task failed.
    #[error("step {step}: {source}")]
    Task {
        /// The step, or the number of completed steps when saving or restoring.
        step: usize,
        /// The task's error.
        source: BoxError,
    },
    /// A process that was started with other arguments than rank 0.
    #[error("its {what} is {mine}, rank 0's is {theirs}; start all processes with the same arguments")]
    OtherArguments {
        /// "seed", "number of steps" or "configuration digest".
        what: &'static str,
        /// Rank 0's.
        theirs: String,
        /// This process's.
        mine: String,
    },
    /// A process whose parameters are not those of rank 0, although both were given the same updates.
    #[error(
        "after step {step} its parameters are not rank 0's: the processes compute differently; start all of them with \
         the same program on machines of one kind"
    )]
    Drift {
        /// The completed steps.
        step: usize,
    },
    /// The processes that train together lost each other, or another of them failed.
    #[error(transparent)]
    Together(#[from] ebm_distributed::Error),
    /// A gradient or a parameter is not what the optimiser takes.
    #[error(transparent)]
    Nn(#[from] ebm_nn::Error),
    /// A tensor operation failed.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
    /// A tensor could not be copied to the host.
    #[error("tensor {name}: {source}")]
    Tensor {
        /// The tensor's name.
        name: String,
        /// Candle's reason.
        source: candle_core::Error,
    },
}

fn list(skipped: &[Skipped]) -> String {
    skipped.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
