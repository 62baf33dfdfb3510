//! What can go wrong.

use std::path::PathBuf;

/// What can go wrong when a report is made. What is wrong within a run is a note of the report instead.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such folder.
    #[error("{}: there is no such folder; give the folder of a run, such as runs/toy-1", path.display())]
    NoFolder {
        /// What was asked for.
        path: PathBuf,
    },
    /// The folder holds nothing that a run leaves.
    #[error(
        "{} is no run: it has none of config.toml, metrics.jsonl, validation.jsonl, results.json, report.md and \
         tables (.csv), nor has a folder in it; give the folder that a training or a reproduction named",
        path.display()
    )]
    NoRun {
        /// What was asked for.
        path: PathBuf,
    },
    /// However little is shown, the page is too large.
    #[error("the page would have {bytes} bytes, and {limit} are the most: report fewer runs at a time")]
    TooLarge {
        /// Of the smallest page.
        bytes: usize,
        /// The most.
        limit: usize,
    },
    /// A file of TensorBoard's events cannot be written, or the log of the training not be read.
    #[error("{}: {source}", path.display())]
    Events {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The page cannot be put together.
    #[error(transparent)]
    Page(#[from] ebm_page::Error),
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
