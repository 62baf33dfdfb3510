//! Errors of reading a dataset.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ebm_base::files::ErrorKind;

/// A result whose error is [`enum@Error`], if no other is named.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Reason why a dataset, an image or a batch could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused to read or write a file.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// Attempted action: "read", "write", …
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// An argument is outside its domain.
    #[error("{name}: {detail}")]
    Argument {
        /// Name of the argument or configuration key.
        name: &'static str,
        /// Description of the error and of a correct value.
        detail: String,
    },
    /// A file or an image is larger than the limit set for its kind.
    #[error("{}: {}", .0.display(), .1)]
    TooLarge(PathBuf, String),
    /// A file, or a download, does not have the expected format. The text says what would be right.
    #[error("{}: {}", .0.display(), .1)]
    Data(PathBuf, String),
    /// More samples are defective than the configuration tolerates.
    #[error(
        "{bad} of {total} samples are defective, more than max_bad_fraction = {max_bad_fraction}; first: {first}; {}",
        what_to_do(*bad, *total, report)
    )]
    TooManyDefects {
        /// Number of defective samples.
        bad: usize,
        /// Number of all samples.
        total: usize,
        /// Tolerated fraction of defective samples.
        max_bad_fraction: f64,
        /// Descriptions of the first defects.
        first: String,
        /// File that lists all defects, if a report was requested.
        report: Option<PathBuf>,
    },
    /// There is no connection, it broke, or the server is busy. The server may ask for a wait.
    #[error("{}: {}; run again to go on from there", .0.display(), .1)]
    Network(PathBuf, String, Option<Duration>),
    /// An outside cause prevents the result: another process, a server that refuses a file, a thread that ended.
    #[error("{}: {}", .0.display(), .1)]
    Failure(PathBuf, String),
}

impl Error {
    /// Returns the kind of the error, which says who can correct it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { source, .. } => ErrorKind::of_io(source),
            Self::Argument { .. } => ErrorKind::Usage,
            Self::TooLarge(..) | Self::Data(..) | Self::TooManyDefects { .. } => ErrorKind::Data,
            Self::Network(..) | Self::Failure(..) => ErrorKind::Failure,
        }
    }

    /// Returns [`Error::Io`] for the `action` ("read", "write", …) on `path`.
    pub fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }

    /// Returns [`Error::Data`] for a `path` that does not have the `expected` format.
    pub fn format(path: impl Into<PathBuf>, expected: &'static str, detail: impl Display) -> Self {
        Self::Data(path.into(), format!("not {expected}: {detail}"))
    }

    pub(crate) fn decode(path: &Path, detail: impl Display) -> Self {
        Self::Data(path.to_owned(), format!("not a readable image: {detail}; fetch the file again"))
    }

    /// Returns [`Error::Data`] for categories of `path` that differ from the categories of the model.
    pub(crate) fn categories(path: PathBuf, detail: &str) -> Self {
        let advice = "give the annotations of the categories that it was trained on, or the configuration that \
                      belongs to these";
        Self::Data(path, format!("{detail}; {advice}"))
    }
}

/// Returns the advice: mend the samples, or tolerate them with the smallest fraction of one digit that allows it.
fn what_to_do(bad: usize, total: usize, report: &Option<PathBuf>) -> String {
    let list = match report {
        Some(path) => format!("all are listed in {}; mend them", path.display()),
        None => "mend them (`report`, or --defects, names a file that lists them all)".to_owned(),
    };
    if bad >= total {
        return format!("{list}, since none is left");
    }
    let fraction = bad as f64 / total as f64;
    let scale = (1..).map(|digits| 10f64.powi(digits)).find(|scale| fraction * scale >= 1.).unwrap_or(1.);
    let fraction = (fraction * scale).ceil() / scale;
    format!("{list}, or go on without them: max_bad_fraction = {fraction}, `--max-bad-fraction {fraction}`")
}
