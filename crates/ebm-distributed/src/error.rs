/// What can go wrong between processes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tensor operation failed.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
    /// A batch that the processes cannot share equally.
    #[error("batch size: {reason}")]
    Batch {
        /// Why, and what to do.
        reason: String,
    },
    /// A launcher's variable that says nothing usable of this process's place among the others.
    #[error("{variable}: {reason}")]
    Launcher {
        /// The variable.
        variable: String,
        /// What is wrong with it and what to do.
        reason: String,
    },
    /// Several processes cannot work together.
    #[error("training in several processes: {reason}")]
    Distributed {
        /// Why, and what to do.
        reason: String,
    },
    /// Another of the processes that train together failed.
    #[error("rank {rank} failed: {message}")]
    Rank {
        /// Its number.
        rank: usize,
        /// Its own reason.
        message: String,
    },
}

/// This crate's result.
pub type Result<T> = std::result::Result<T, Error>;
