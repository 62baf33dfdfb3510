/// What can go wrong in an experiment, whatever its task.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A training failed, or was interrupted.
    #[error("the training ended")]
    Train(#[source] Box<ebm_train::Error>),
    /// A density could not be computed.
    #[error(transparent)]
    Method(#[from] ebm_core::Error),
    /// A metric could not be computed.
    #[error(transparent)]
    Metric(#[from] ebm_eval::Error),
    /// Settings that cannot be read or contradict themselves.
    #[error("configuration {name}: {reason}")]
    Config {
        /// The file or the embedded name.
        name: String,
        /// What is wrong and what is expected.
        reason: String,
    },
}

impl From<ebm_train::Error> for Error {
    fn from(error: ebm_train::Error) -> Self {
        Self::Train(Box::new(error))
    }
}

/// This crate's result.
pub type Result<T> = std::result::Result<T, Error>;
