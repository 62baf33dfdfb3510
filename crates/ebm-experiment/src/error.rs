use crate::config::OutOfRange;

/// What can go wrong in an experiment, whatever its task.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A training failed, or was interrupted.
    #[error(transparent)]
    Train(Box<ebm_train::Error>),
    /// The network in training could not be judged.
    #[error(transparent)]
    Validation(ebm_train::BoxError),
    /// A density could not be computed.
    #[error(transparent)]
    Method(Box<ebm_core::Error>),
    /// A metric could not be computed.
    #[error(transparent)]
    Metric(Box<ebm_eval::Error>),
    /// Settings that cannot be read or contradict themselves.
    #[error("configuration {name}: {reason}")]
    Config {
        /// The file or the embedded name.
        name: String,
        /// What is wrong and what is expected.
        reason: String,
    },
    /// A setting out of its range.
    #[error(transparent)]
    OutOfRange(#[from] Box<OutOfRange>),
}

impl From<ebm_train::Error> for Error {
    fn from(error: ebm_train::Error) -> Self {
        Self::Train(Box::new(error))
    }
}

impl From<ebm_core::Error> for Error {
    fn from(error: ebm_core::Error) -> Self {
        Self::Method(Box::new(error))
    }
}

impl From<ebm_eval::Error> for Error {
    fn from(error: ebm_eval::Error) -> Self {
        Self::Metric(Box::new(error))
    }
}

/// This crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;
