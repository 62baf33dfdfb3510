use std::fmt::Display;
use std::path::PathBuf;

use ebm_base::files::ErrorKind;

use crate::config::OutOfRange;

/// Error of an experiment, for any task.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tensor operation failed.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
    /// An operation, layer or weight file of `ebm-nn` refused.
    #[error(transparent)]
    Nn(#[from] ebm_nn::Error),
    /// An objective, density, proposal or refinement of `ebm-core` refused.
    #[error(transparent)]
    Core(#[from] ebm_core::Error),
    /// A file, an image or annotations could not be used.
    #[error(transparent)]
    Data(#[from] ebm_data::Error),
    /// A metric could not be computed.
    #[error(transparent)]
    Eval(#[from] ebm_eval::Error),
    /// A training failed, or was interrupted.
    #[error(transparent)]
    Train(#[from] ebm_train::Error),
    /// The score of the network in training could not be computed.
    #[error("{0}")]
    Validation(#[source] ebm_train::BoxError),
    /// Settings cannot be read or contradict each other.
    #[error("configuration {name}: {reason}")]
    Config {
        /// File, embedded name, or part of the settings.
        name: String,
        /// Description of the error and of the expected value.
        reason: String,
    },
    /// A setting is out of its range.
    #[error(transparent)]
    OutOfRange(#[from] Box<OutOfRange>),
    /// Weights belong to another network, or their file is missing.
    #[error("{}: {reason}", path.display())]
    Weights {
        /// Path of the weights file.
        path: PathBuf,
        /// Difference, and what to do.
        reason: String,
    },
    /// A training produced a number that is not finite; the text says which one, where, and what to do.
    #[error("{0}")]
    NonFinite(String),
    /// An input, or a network's output for it, cannot be used.
    #[error("{place}: {reason}")]
    Input {
        /// File and place in it, or the operation that failed.
        place: String,
        /// Description of the error, and what to do.
        reason: String,
    },
}

impl Error {
    /// Returns the kind of the error, which says who can correct it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Nn(error) => error.kind(),
            Self::Data(error) => error.kind(),
            Self::Eval(error) => error.kind(),
            Self::Train(error) => error.kind(),
            Self::Config { .. } | Self::OutOfRange(_) | Self::Core(ebm_core::Error::Setting { .. }) => {
                ErrorKind::Usage
            }
            // Numbers of a network that are finite and much too large.
            Self::Core(ebm_core::Error::NonFiniteScore { .. }) => ErrorKind::Data,
            Self::Weights { .. } | Self::Input { .. } => ErrorKind::Data,
            Self::NonFinite(_) => ErrorKind::NonFinite,
            Self::Candle(_) | Self::Core(_) | Self::Validation(_) => ErrorKind::Failure,
        }
    }

    /// Returns [`Error::Config`].
    pub fn config(name: impl Display, reason: impl Display) -> Self {
        Self::Config { name: name.to_string(), reason: reason.to_string() }
    }

    /// Returns [`Error::Weights`].
    pub fn weights(path: impl Into<PathBuf>, reason: impl Display) -> Self {
        Self::Weights { path: path.into(), reason: reason.to_string() }
    }

    /// Returns [`Error::Input`].
    pub fn input(place: impl Display, reason: impl Display) -> Self {
        Self::Input { place: place.to_string(), reason: reason.to_string() }
    }
}

/// Result of this crate or of a task.
pub type Result<T, E = Error> = std::result::Result<T, E>;
