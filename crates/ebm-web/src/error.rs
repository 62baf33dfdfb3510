//! Errors of reports and of the server.

use std::io;
use std::path::PathBuf;

/// An error of a report or of a server. Problems within a run are notes of its report instead.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder does not exist.
    #[error("{}: there is no such folder; give the folder of a run, such as runs/toy-1", .0.display())]
    NoFolder(PathBuf),
    /// The folder has no files of a run.
    #[error(
        "{} is no run: it has none of config.toml, metrics.jsonl, validation.jsonl, results.json, report.md and \
         tables (.csv), nor has a folder in it; give the folder that a training or a reproduction named",
        .0.display()
    )]
    NoRun(PathBuf),
    /// An event file for TensorBoard cannot be written, or a training's log cannot be read.
    #[error("{}: {source}", path.display())]
    Events {
        /// Path of the file.
        path: PathBuf,
        /// Reason that the system gave.
        source: io::Error,
    },
    /// The port is taken or not permitted, or the system provides no threads or random numbers.
    #[error("cannot listen at 127.0.0.1:{port}; take another port, or 0 for any that is free")]
    Listen {
        /// Requested port.
        port: u16,
        /// Reason that the system gave.
        source: io::Error,
    },
}

/// The result of every fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
