use std::path::PathBuf;

use ebm_base::files::ErrorKind;

/// What can go wrong with operations, with networks of them and with their files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tensor operation failed.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
    /// An argument is outside what the operation is defined for.
    #[error("{op}: {reason}")]
    Argument {
        /// The operation that refused.
        op: &'static str,
        /// What was wrong and what is expected.
        reason: String,
    },
    /// A device cannot be had.
    #[error("{device}: {reason}")]
    Device {
        /// The device, as [`Choice`](crate::device::Choice) writes it.
        device: String,
        /// Why, and what to do.
        reason: String,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file holds something other than what was asked for.
    #[error("{}: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        reason: String,
    },
}

impl Error {
    /// Whose matter it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Format { .. } => ErrorKind::Data,
            Self::Io { source, .. } => ErrorKind::of_io(source),
            Self::Candle(_) | Self::Argument { .. } | Self::Device { .. } => ErrorKind::Failure,
        }
    }
}

/// The result of what may fail so.
pub type Result<T> = std::result::Result<T, Error>;
