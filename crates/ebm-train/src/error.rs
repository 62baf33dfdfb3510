//! Errors of a run. Every message names the place and the remedy.

use crate::checkpoint::SCHEMA_VERSION;
use ebm_base::files::ErrorKind;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

/// Result of every fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Error of a task, of any type.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation on a file or directory failed for another reason than a full disk.
    #[error("cannot {action} {}: {source}; {}", path.display(), remedy(action, source))]
    Io {
        /// Path of the file or directory.
        path: PathBuf,
        /// Verb of the operation: "write", "create", "read", …
        action: &'static str,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file system is full, the quota is used up, or the file is larger than allowed.
    #[error(
        "no space for {} ({needed} bytes): {source}; free some or choose a run directory on another disk; \
         earlier checkpoints are intact",
        path.display()
    )]
    DiskFull {
        /// Path of the file that did not fit.
        path: PathBuf,
        /// Size of the file in bytes.
        needed: u64,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file is damaged or has another content than expected.
    #[error("{}: {}", .0.display(), .1)]
    File(PathBuf, String),
    /// The name of a run is no plain directory name.
    #[error("{0:?} is no run name; use letters, digits, '-', '_' and '.', not beginning with '.'")]
    RunName(String),
    /// A run, a checkpoint or a process does not fit the request; the text says what to do.
    #[error("{0}")]
    Refused(String),
    /// There is no checkpoint in this directory.
    #[error("no checkpoint in {}; train first or give another run", .0.display())]
    NoCheckpoint(PathBuf),
    /// All checkpoints in this directory are invalid; the list has the reason for each.
    #[error("no valid checkpoint in {}: {}; restore one from a copy or start a new run", .0.display(), .1.join("; "))]
    NoValidCheckpoint(PathBuf, Vec<String>),
    /// The state file of a checkpoint is from another version of this crate.
    #[error("{}: schema version {}, this program reads {SCHEMA_VERSION}; use the program that wrote it", .0.display(), .1)]
    Schema(PathBuf, u32),
    /// The loss or a gradient was too often not finite, or a parameter or optimiser state is not finite. No
    /// checkpoint with such a value is written.
    #[error("step {0}: {1}")]
    NonFinite(usize, String),
    /// The run was asked to stop and has stopped, with a checkpoint.
    #[error("{}: interrupted after step {step}, which is saved; go on with --resume", path.display())]
    Interrupted {
        /// Directory of the run.
        path: PathBuf,
        /// Number of completed steps.
        step: usize,
    },
    /// The task failed.
    #[error("step {step}: {source}")]
    Task {
        /// The step, or the number of completed steps when saving or restoring.
        step: usize,
        /// Error of the task.
        source: BoxError,
    },
    /// Several processes cannot work together; the text says why, and what to do.
    #[error("training in several processes: {0}")]
    Distributed(String),
    /// Another process of the training, with this number, failed for its own reason.
    #[error("rank {0} failed: {1}")]
    Rank(usize, String),
    /// A gradient or a parameter does not fit the optimiser.
    #[error(transparent)]
    Nn(#[from] ebm_nn::Error),
    /// A tensor operation failed.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}

impl Error {
    /// Returns the kind of the error, which says who can correct it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { source, .. } | Self::DiskFull { source, .. } => ErrorKind::of_io(source),
            Self::Nn(error) => error.kind(),
            Self::RunName(_) => ErrorKind::Usage,
            Self::File(..) | Self::NoValidCheckpoint(..) | Self::Schema(..) => ErrorKind::Data,
            Self::NonFinite(..) => ErrorKind::NonFinite,
            Self::Interrupted { .. } => ErrorKind::Interrupted,
            Self::Refused(_)
            | Self::NoCheckpoint(_)
            | Self::Task { .. }
            | Self::Distributed(_)
            | Self::Rank(..)
            | Self::Candle(_) => ErrorKind::Failure,
        }
    }

    /// Returns [`Error::Refused`] for a run in the place of a new run.
    pub(crate) fn run_exists(path: &Path) -> Self {
        Self::Refused(format!("{} already holds a run; resume it or choose another name", path.display()))
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

fn remedy(action: &str, source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem if action != "read" => {
            "change its permissions or choose another run directory"
        }
        _ => "check that the path exists and is on a working disk",
    }
}
