use std::path::PathBuf;

use ebm_base::files::ErrorKind;

/// Error of an operation, of a network of operations or of their files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tensor operation failed.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
    /// An argument is outside what the operation is defined for.
    #[error("{op}: {reason}")]
    Argument {
        /// Name of the operation that refused.
        op: &'static str,
        /// The fault and the value that is expected.
        reason: String,
    },
    /// A device is not available.
    #[error("{device}: {reason}")]
    Device {
        /// The device, as [`Choice`](crate::device::Choice) writes it.
        device: String,
        /// The reason and the remedy.
        reason: String,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Reason that the system gives.
        source: std::io::Error,
    },
    /// A file holds something other than what was expected.
    #[error("{}: {reason}", path.display())]
    Format {
        /// Path of the file.
        path: PathBuf,
        /// The fault and the remedy.
        reason: String,
    },
}

impl Error {
    /// Returns the kind of this error, which decides the exit code.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Format { .. } => ErrorKind::Data,
            Self::Io { source, .. } => ErrorKind::of_io(source),
            Self::Candle(_) | Self::Argument { .. } | Self::Device { .. } => ErrorKind::Failure,
        }
    }
}

/// Result with the [`Error`] of this crate.
pub type Result<T> = std::result::Result<T, Error>;
