/// What can go wrong between processes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tensor operation failed.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
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

pub(crate) fn refuse<T>(reason: impl Into<String>) -> Result<T> {
    Err(Error::Distributed { reason: reason.into() })
}
