use plotters::drawing::DrawingAreaErrorKind;

/// Why a figure was not drawn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Data that a figure cannot show.
    #[error("{0}")]
    Data(String),
    /// The embedded font cannot be read.
    #[error("the embedded font: {0}")]
    Font(#[from] ab_glyph::InvalidFont),
    /// A shape could not be drawn.
    #[error("cannot draw the figure: {0}")]
    Drawing(String),
    /// An image or a file could not be made.
    #[error(transparent)]
    Image(#[from] ebm_data::Error),
}

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for Error {
    fn from(error: DrawingAreaErrorKind<E>) -> Self {
        Self::Drawing(error.to_string())
    }
}

/// This crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Returns [`Error::Data`] with a formatted message unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)*) => {
        let holds: bool = $condition;
        if !holds {
            return Err($crate::Error::Data(format!($($message)*)));
        }
    };
}
