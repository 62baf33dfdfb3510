use std::fmt::Display;
use std::path::PathBuf;

use ebm_base::files::ErrorKind;

use crate::config::OutOfRange;

/// What can go wrong in an experiment, whatever its task.
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
    /// The network in training could not be judged.
    #[error("{0}")]
    Validation(#[source] ebm_train::BoxError),
    /// Settings that cannot be read or contradict themselves.
    #[error("configuration {name}: {reason}")]
    Config {
        /// The file, the embedded name, or the part that is set.
        name: String,
        /// What is wrong and what is expected.
        reason: String,
    },
    /// A setting out of its range.
    #[error(transparent)]
    OutOfRange(#[from] Box<OutOfRange>),
    /// Weights of another network, or a file that is not there.
    #[error("{}: {reason}", path.display())]
    Weights {
        /// The file.
        path: PathBuf,
        /// What differs and what to do.
        reason: String,
    },
    /// A training left the numbers; says which one, where, and what to do.
    #[error("{0}")]
    NonFinite(String),
    /// What was given, or what a network made of it, cannot be used.
    #[error("{place}: {reason}")]
    Input {
        /// The file and the place in it, or where it was noticed.
        place: String,
        /// What is wrong and what to do.
        reason: String,
    },
}

impl Error {
    /// Whose matter it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Nn(error) => error.kind(),
            Self::Data(error) => error.kind(),
            Self::Eval(error) => error.kind(),
            Self::Train(error) => error.kind(),
            Self::Config { .. } | Self::OutOfRange(_) | Self::Core(ebm_core::Error::Setting { .. }) => {
                ErrorKind::Usage
            }
            Self::Weights { .. } | Self::Input { .. } => ErrorKind::Data,
            Self::NonFinite(_) => ErrorKind::NonFinite,
            Self::Candle(_) | Self::Core(_) | Self::Validation(_) => ErrorKind::Failure,
        }
    }

    /// [`Error::Config`].
    pub fn config(name: impl Display, reason: impl Display) -> Self {
        Self::Config { name: name.to_string(), reason: reason.to_string() }
    }

    /// [`Error::Weights`].
    pub fn weights(path: impl Into<PathBuf>, reason: impl Display) -> Self {
        Self::Weights { path: path.into(), reason: reason.to_string() }
    }

    /// [`Error::Input`].
    pub fn input(place: impl Display, reason: impl Display) -> Self {
        Self::Input { place: place.to_string(), reason: reason.to_string() }
    }
}

/// A result of this crate or of a task.
pub type Result<T, E = Error> = std::result::Result<T, E>;
