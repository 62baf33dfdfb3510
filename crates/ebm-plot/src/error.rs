use plotters::drawing::DrawingAreaErrorKind;

/// An error of drawing a figure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The figure cannot show its data.
    #[error("{0}")]
    Data(String),
    /// The embedded font cannot be read.
    #[error("the embedded font: {0}")]
    Font(#[from] ab_glyph::InvalidFont),
    /// A shape could not be drawn.
    #[error("cannot draw the figure: {0}")]
    Drawing(String),
    /// An image or a file could not be created.
    #[error(transparent)]
    Image(#[from] ebm_data::Error),
}

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for Error {
    fn from(error: DrawingAreaErrorKind<E>) -> Self {
        Self::Drawing(error.to_string())
    }
}

/// The result of every fallible function of this crate.
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
