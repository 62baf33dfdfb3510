//! What can go wrong when reading a dataset.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ebm_base::files::ErrorKind;

/// A result whose error is [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why a dataset, an image or a batch could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused to read or write a file.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// What was attempted: "read", "write", …
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// An argument is outside its domain.
    #[error("{name}: {detail}")]
    Argument {
        /// The argument or configuration key.
        name: &'static str,
        /// What is wrong and what would be right.
        detail: String,
    },
    /// A file or an image is larger than the limit set for its kind.
    #[error("{}: {}", .0.display(), .1)]
    TooLarge(PathBuf, String),
    /// A file, or what was fetched, is not what it is read as; and what would be right.
    #[error("{}: {}", .0.display(), .1)]
    Data(PathBuf, String),
    /// More samples are defective than the configuration tolerates.
    #[error(
        "{bad} of {total} samples are defective, more than max_bad_fraction = {max_bad_fraction}; first: {first}; {}",
        what_to_do(*bad, *total, report)
    )]
    TooManyDefects {
        /// Defective samples.
        bad: usize,
        /// Samples in all.
        total: usize,
        /// The tolerated fraction.
        max_bad_fraction: f64,
        /// The first few defects in words.
        first: String,
        /// Where all defects are listed, if a report was asked for.
        report: Option<PathBuf>,
    },
    /// There is no connection, it broke, or the server is busy; it may ask for a wait.
    #[error("{}: {}; run again to go on from there", .0.display(), .1)]
    Network(PathBuf, String, Option<Duration>),
    /// Something else keeps a thing from being made: another process, a server that does not give it, a thread that
    /// ended.
    #[error("{}: {}", .0.display(), .1)]
    Failure(PathBuf, String),
}

impl Error {
    /// Whose matter it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { source, .. } => ErrorKind::of_io(source),
            Self::Argument { .. } => ErrorKind::Usage,
            Self::TooLarge(..) | Self::Data(..) | Self::TooManyDefects { .. } => ErrorKind::Data,
            Self::Network(..) | Self::Failure(..) => ErrorKind::Failure,
        }
    }

    /// [`Error::Io`] of what was attempted on `path`: "read", "write", …
    pub fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }

    /// [`Error::Data`] of `path`, which is read as what is `expected`.
    pub fn format(path: impl Into<PathBuf>, expected: &'static str, detail: impl Display) -> Self {
        Self::Data(path.into(), format!("not {expected}: {detail}"))
    }

    pub(crate) fn decode(path: &Path, detail: impl Display) -> Self {
        Self::Data(path.to_owned(), format!("not a readable image: {detail}; fetch the file again"))
    }

    /// The categories of `path` are not those of the model.
    pub(crate) fn categories(path: PathBuf, detail: &str) -> Self {
        let advice = "give the annotations of the categories that it was trained on, or the configuration that \
                      belongs to these";
        Self::Data(path, format!("{detail}; {advice}"))
    }
}

/// Mend the samples or go without them; with the least fraction of few digits that allows this.
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
    format!(
        "{list}, or go on without them: max_bad_fraction = {fraction}, `ebm train … --max-bad-fraction {fraction}`"
    )
}
