/// What can go wrong in an experiment, whatever its task.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Settings that cannot be read or contradict themselves.
    #[error("configuration {name}: {reason}")]
    Config {
        /// The file or the embedded name.
        name: String,
        /// What is wrong and what is expected.
        reason: String,
    },
}

/// This crate's result.
pub type Result<T> = std::result::Result<T, Error>;
