//! What can go wrong when reading a dataset.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ebm_files::ErrorKind;

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
    /// Another process fills the same folder, or fetches the same file.
    #[error("{}: process {holder} is writing here; wait until it has ended and run again", path.display())]
    Locked {
        /// The folder or file.
        path: PathBuf,
        /// The other process' number where it runs, which may be another container, or "unknown".
        holder: String,
    },
    /// A file is larger than the limit set for its kind.
    #[error("{}: {size} bytes exceed the limit of {limit}; raise the limit if the file is trusted", path.display())]
    FileTooLarge {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A file is not an image that can be decoded.
    #[error("{}: not a readable image: {}; fetch the file again", .0.display(), .1)]
    Decode(PathBuf, String),
    /// An image's header promises more pixels than the limit.
    #[error("{}: {width}x{height} pixels exceed the limit of {max_side} per side and {max_pixels} in all", path.display())]
    ImageTooLarge {
        /// The file.
        path: PathBuf,
        /// Columns.
        width: usize,
        /// Rows.
        height: usize,
        /// The limit on each side.
        max_side: usize,
        /// The limit on the product.
        max_pixels: usize,
    },
    /// Sides and number of bytes of an image disagree.
    #[error("{len} bytes are not an RGB image of {width}x{height} pixels")]
    ImageShape {
        /// Columns.
        width: usize,
        /// Rows.
        height: usize,
        /// Bytes given.
        len: usize,
    },
    /// An image could not be encoded.
    #[error("{}: cannot encode the image: {}", .0.display(), .1)]
    Encode(PathBuf, String),
    /// The categories are not those of the model.
    #[error(
        "{}: {}; give the annotations of the categories that it was trained on, or the configuration that belongs \
         to these",
        .0.display(),
        .1
    )]
    Categories(PathBuf, String),
    /// A file is not what it is read as.
    #[error("{}: not {expected}: {detail}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What it is read as.
        expected: &'static str,
        /// Where, what is wrong, and what would be right.
        detail: String,
    },
    /// An archive is hostile or damaged; nothing of it was kept.
    #[error("{}: {}; fetch the archive again, or from another place", .0.display(), .1)]
    Archive(PathBuf, String),
    /// A split cannot be drawn, or does not fit the faces.
    #[error("split: {0}; draw it again, or use the faces that it was drawn from")]
    Split(String),
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
    /// A check has found defects.
    #[error("{}: {defects} defects in {samples} samples; each is listed above", path.display())]
    Defective {
        /// What was checked.
        path: PathBuf,
        /// How many defects there are.
        defects: usize,
        /// Samples that were looked at.
        samples: usize,
    },
    /// More images of an annotation file are not where they were looked for than the configuration tolerates.
    #[error(
        "{}: {missing} of its {total} images are not in {}; first: {first}; give the folder that holds this split's \
         images, or fetch the missing ones",
        annotations.display(),
        folder.display()
    )]
    MissingImages {
        /// The annotation file.
        annotations: PathBuf,
        /// Where its images were looked for.
        folder: PathBuf,
        /// Images that are not there.
        missing: usize,
        /// Images in all.
        total: usize,
        /// The paths of the first few.
        first: String,
    },
    /// An argument is outside its domain.
    #[error("{name}: {detail}")]
    Argument {
        /// The argument or configuration key.
        name: &'static str,
        /// What is wrong and what would be right.
        detail: String,
    },
    /// A loader's worker thread ended without delivering its batch.
    #[error("a loader thread ended without delivering batch {step}: {detail}")]
    Worker {
        /// The batch's step since the start of training.
        step: u64,
        /// What is known of the cause.
        detail: String,
    },
    /// A manifest, a file that was fetched, or an answer is not what it should be.
    #[error("{}: {}", .0.display(), .1)]
    Fetched(PathBuf, String),
    /// The server, the Hub, or the cache when nobody is asked, has no such file or does not give it.
    #[error("{}: {}", .0.display(), .1)]
    NotThere(PathBuf, String),
    /// There is no connection, it broke, or the server is busy; it may ask for a wait.
    #[error("{}: {}; run again to go on from there", .0.display(), .1)]
    Network(PathBuf, String, Option<Duration>),
}

impl Error {
    /// Whose matter it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { source, .. } => ErrorKind::of_io(source),
            Self::Argument { .. } => ErrorKind::Usage,
            Self::FileTooLarge { .. }
            | Self::Decode(..)
            | Self::ImageTooLarge { .. }
            | Self::Categories(..)
            | Self::Format { .. }
            | Self::Archive(..)
            | Self::Split(_)
            | Self::Fetched(..)
            | Self::TooManyDefects { .. }
            | Self::Defective { .. }
            | Self::MissingImages { .. } => ErrorKind::Data,
            Self::Locked { .. }
            | Self::ImageShape { .. }
            | Self::Encode(..)
            | Self::NotThere(..)
            | Self::Network(..)
            | Self::Worker { .. } => ErrorKind::Failure,
        }
    }

    /// [`Error::Io`] of what was attempted on `path`: "read", "write", …
    pub fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }

    /// [`Error::Format`] of `path`, which is read as what is `expected`.
    pub fn format(path: impl Into<PathBuf>, expected: &'static str, detail: impl Display) -> Self {
        Self::Format { path: path.into(), expected, detail: detail.to_string() }
    }

    pub(crate) fn decode(path: &Path, detail: impl Display) -> Self {
        Self::Decode(path.to_owned(), detail.to_string())
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
