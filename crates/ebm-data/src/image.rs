//! RGB images in memory.

use crate::error::{Error, Result};

/// 8-bit RGB image, with rows from top to bottom and no padding between rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Number of columns.
    pub width: usize,
    /// Number of rows.
    pub height: usize,
    /// Samples `(height, width, 3)`, red first.
    pub pixels: Vec<u8>,
}

impl Image {
    /// Makes an image from samples `(height, width, 3)`.
    ///
    /// # Errors
    /// [`Error::Failure`] unless both sides are positive and `pixels` holds `3 · width · height` bytes.
    pub fn new(width: usize, height: usize, pixels: Vec<u8>) -> Result<Self> {
        let image = Self { width, height, pixels };
        image.check().map(|()| image)
    }

    /// Checks the condition of [`Image::new`].
    pub(crate) fn check(&self) -> Result<()> {
        let Self { width, height, pixels } = self;
        let expected = width.checked_mul(*height).and_then(|area| area.checked_mul(3));
        if pixels.is_empty() || expected != Some(pixels.len()) {
            let detail = format!("{} bytes are not an RGB image of {width}x{height} pixels", pixels.len());
            return Err(Error::Failure("pixels".into(), detail));
        }
        Ok(())
    }

    /// Makes an image of one colour.
    ///
    /// # Errors
    /// [`Error::Failure`] if a side is 0.
    pub fn filled(width: usize, height: usize, rgb: [u8; 3]) -> Result<Self> {
        Self::new(width, height, rgb.repeat(width.saturating_mul(height)))
    }
}
