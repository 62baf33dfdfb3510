//! What can go wrong.

/// What can go wrong when a page is made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A value has no form in JSON.
    #[error("data of the page cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
