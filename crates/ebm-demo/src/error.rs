//! What goes wrong, and what the page is told of it.

use ebm_server::{Refusal, StatusCode};

/// The result of whatever the page asks for.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the page does not get what it asks for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It asks for something impossible.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// An upload cannot be read.
    #[error(transparent)]
    Data(#[from] ebm_data::Error),
    /// The detector fails.
    #[error(transparent)]
    Detect(#[from] ebm_detect::Error),
    /// The estimator of ages fails.
    #[error(transparent)]
    Face(#[from] ebm_face::Error),
    /// The problem of Figure 2 fails.
    #[error(transparent)]
    Toy(#[from] ebm_toy::Error),
    /// A density fails.
    #[error(transparent)]
    Core(#[from] ebm_core::Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        use ebm_data::Error as E;
        let status = match &error {
            Error::Data(E::ImageTooLarge { .. } | E::FileTooLarge { .. }) => StatusCode::PAYLOAD_TOO_LARGE,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        match error {
            Error::Refused(refusal) => refusal,
            other => Self::new(status, other.to_string()),
        }
    }
}
