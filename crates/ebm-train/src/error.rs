//! What can go wrong in a run; every message names the place and the remedy.

use crate::checkpoint::{SCHEMA_VERSION, Skipped};
use ebm_files::ErrorKind;
use std::fmt::Display;
use std::path::{Path, PathBuf};

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
    /// A file that is damaged, or is not what it is taken for, by what it says of itself.
    #[error("{}: {}", .0.display(), .1)]
    File(PathBuf, String),
    /// A run's name that is no plain directory name.
    #[error("{0:?} is no run name; use letters, digits, '-', '_' and '.', not beginning with '.'")]
    RunName(String),
    /// A new run where there is one already.
    #[error("{} already holds a run; resume it or choose another name", .0.display())]
    RunExists(PathBuf),
    /// Another process holds the run.
    #[error("{} is in use by process {holder}; wait for it or choose another name", path.display())]
    RunLocked {
        /// The run's directory.
        path: PathBuf,
        /// The holder's process id as its lock file gives it, or "unknown".
        holder: String,
    },
    /// Starting afresh over the checkpoints in this directory.
    #[error("{} already holds checkpoints; resume the run or choose another name", .0.display())]
    HasCheckpoints(PathBuf),
    /// There is no checkpoint in this directory.
    #[error("no checkpoint in {}; train first or give another run", .0.display())]
    NoCheckpoint(PathBuf),
    /// There are checkpoints, and none of them is valid.
    #[error("no valid checkpoint in {}: {}; restore one from a copy or start a new run", path.display(), list(skipped))]
    NoValidCheckpoint {
        /// The directory of checkpoints.
        path: PathBuf,
        /// What was tried, with the reason of each refusal.
        skipped: Vec<Skipped>,
    },
    /// A checkpoint written by another version of this crate.
    #[error(
        "{}: schema version {found}, this program reads {SCHEMA_VERSION}; use the program that wrote it",
        path.display()
    )]
    Schema {
        /// The state file.
        path: PathBuf,
        /// The version found.
        found: u32,
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
    /// A run that was made with other settings than the one that would go on with it; what differs, with both values.
    #[error("{} was made with {}; restore the run's configuration or start a new run", .0.display(), .1)]
    OtherSettings(PathBuf, String),
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
    /// A process whose parameters are not those of rank 0 after so many steps, although both were given the same
    /// updates.
    #[error(
        "after step {0} its parameters are not rank 0's: the processes compute differently; start all of them with \
         the same program on machines of one kind"
    )]
    Drift(usize),
    /// The processes that train together lost each other, or another of them failed.
    #[error(transparent)]
    Together(#[from] ebm_distributed::Error),
    /// A gradient or a parameter is not what the optimiser takes.
    #[error(transparent)]
    Nn(#[from] ebm_nn::Error),
    /// A tensor operation failed.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}

impl Error {
    /// Whose matter it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { source, .. } | Self::DiskFull { source, .. } | Self::NotWritable { source, .. } => {
                ErrorKind::of_io(source)
            }
            Self::Nn(error) => error.kind(),
            Self::RunName(_) => ErrorKind::Usage,
            Self::File(..) | Self::NoValidCheckpoint { .. } | Self::Schema { .. } => ErrorKind::Data,
            Self::NonFinite { .. } | Self::NonFiniteTensor { .. } => ErrorKind::NonFinite,
            Self::Interrupted { .. } => ErrorKind::Interrupted,
            Self::RunExists(_)
            | Self::RunLocked { .. }
            | Self::HasCheckpoints(_)
            | Self::NoCheckpoint(_)
            | Self::OtherRun { .. }
            | Self::OtherSettings(..)
            | Self::OutsideSteps { .. }
            | Self::Task { .. }
            | Self::OtherArguments { .. }
            | Self::Drift(_)
            | Self::Together(_)
            | Self::Candle(_) => ErrorKind::Failure,
        }
    }

    pub(crate) fn json(path: &Path) -> impl Fn(serde_json::Error) -> Self {
        move |error| Self::File(path.to_owned(), format!("{error}; restore the file or delete it"))
    }

    pub(crate) fn corrupt(path: PathBuf, problem: impl Display) -> Self {
        Self::File(path, format!("{problem}; use an earlier checkpoint or restore the file from a copy"))
    }

    pub(crate) fn tensor(name: &str, source: impl Display) -> Self {
        Self::Candle(candle_core::Error::Msg(format!("tensor {name}: {source}")))
    }
}

fn list(skipped: &[Skipped]) -> String {
    skipped.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
