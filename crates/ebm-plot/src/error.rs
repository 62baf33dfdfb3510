use std::path::PathBuf;

/// Why a figure was not drawn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Data that a figure cannot show.
    #[error("{0}")]
    Data(String),
    /// The same, where the figure has a file.
    #[error("the figure {}: {source}", path.display())]
    Figure {
        /// The file without its extension.
        path: PathBuf,
        /// What is wrong with the data.
        source: Box<Error>,
    },
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

/// This crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Returns [`Error::Data`] with a formatted message.
macro_rules! bail {
    ($($message:tt)*) => { return Err($crate::Error::Data(format!($($message)*))) };
}

/// Returns [`Error::Data`] unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)*) => {
        let holds: bool = $condition;
        if !holds {
            bail!($($message)*)
        }
    };
}
