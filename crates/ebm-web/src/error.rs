//! What can go wrong.

use std::io;
use std::path::PathBuf;

/// Failures of a report or of a server. What is wrong within a run is a note of its report instead.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such folder.
    #[error("{}: there is no such folder; give the folder of a run, such as runs/toy-1", .0.display())]
    NoFolder(PathBuf),
    /// The folder holds nothing that a run leaves.
    #[error(
        "{} is no run: it has none of config.toml, metrics.jsonl, validation.jsonl, results.json, report.md and \
         tables (.csv), nor has a folder in it; give the folder that a training or a reproduction named",
        .0.display()
    )]
    NoRun(PathBuf),
    /// A file of TensorBoard's events cannot be written, or a training's log not be read.
    #[error("{}: {source}", path.display())]
    Events {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The port is taken, may not be listened at, or the system gives no threads or random numbers.
    #[error("cannot listen at 127.0.0.1:{port}; take another port, or 0 for any that is free")]
    Listen {
        /// The port that was asked for.
        port: u16,
        /// The system's answer.
        source: io::Error,
    },
}

/// A result of a report or of a server.
pub type Result<T, E = Error> = std::result::Result<T, E>;
