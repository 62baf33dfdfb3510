//! Writing images.

use std::path::Path;

use ::image::{ExtendedColorType, ImageEncoder};

use crate::error::{Error, Result};
use crate::files::write_atomic;
use crate::image::Image;

/// `image` as a baseline JPEG of `quality` 1 to 100; `path` is the name for errors.
///
/// # Errors
/// [`Error::Failure`] for a quality outside 1..=100 or a side above 65535.
pub fn encode_jpeg(image: &Image, quality: u8, path: &Path) -> Result<Vec<u8>> {
    let fail = |detail: String| Error::Failure(path.to_owned(), format!("cannot encode the image: {detail}"));
    if !(1..=100).contains(&quality) {
        return Err(fail(format!("JPEG quality {quality} is outside 1 to 100")));
    }
    let (Ok(width), Ok(height)) = (u16::try_from(image.width), u16::try_from(image.height)) else {
        return Err(fail(format!("{}x{} exceeds JPEG's 65535 per side", image.width, image.height)));
    };
    let mut bytes = Vec::new();
    jpeg_encoder::Encoder::new(&mut bytes, quality)
        .encode(&image.pixels, width, height, jpeg_encoder::ColorType::Rgb)
        .map_err(|error| fail(error.to_string()))?;
    Ok(bytes)
}

/// Writes what [`encode_jpeg`] makes of `image`, under its final name only when complete.
///
/// # Errors
/// Those of [`encode_jpeg`], [`Error::Io`] if the file cannot be written.
pub fn write_jpeg(path: &Path, image: &Image, quality: u8) -> Result<()> {
    write_atomic(path, &encode_jpeg(image, quality, path)?)
}

/// Writes `image` as an 8-bit RGB PNG, under its final name only when complete.
///
/// # Errors
/// [`Error::Failure`] if the pixels cannot be encoded, [`Error::Io`] if the file cannot be written.
pub fn write_png(path: &Path, image: &Image) -> Result<()> {
    let fail = |detail: String| Error::Failure(path.to_owned(), format!("cannot encode the image: {detail}"));
    let (Ok(width), Ok(height)) = (u32::try_from(image.width), u32::try_from(image.height)) else {
        return Err(fail(format!("{}x{} exceeds PNG's range", image.width, image.height)));
    };
    image.check()?;
    let mut bytes = Vec::new();
    ::image::codecs::png::PngEncoder::new(&mut bytes)
        .write_image(&image.pixels, width, height, ExtendedColorType::Rgb8)
        .map_err(|error| fail(error.to_string()))?;
    write_atomic(path, &bytes)
}
