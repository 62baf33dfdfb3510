//! Writing images.

use std::fmt::Display;
use std::path::Path;

use ::image::{ExtendedColorType, ImageEncoder};

use crate::error::{Error, Result};
use crate::files::write_atomic;
use crate::image::Image;

/// Writes `image` as a baseline JPEG of `quality` 1 to 100, under its final name only when complete.
///
/// # Errors
/// [`Error::Failure`] for a quality outside 1..=100 or a side above 65535, [`Error::Io`] if the file cannot be written.
pub fn write_jpeg(path: &Path, image: &Image, quality: u8) -> Result<()> {
    if !(1..=100).contains(&quality) {
        return Err(failure(path, format!("JPEG quality {quality} is outside 1 to 100")));
    }
    let (Ok(width), Ok(height)) = (u16::try_from(image.width), u16::try_from(image.height)) else {
        let detail = format!("{}x{} exceeds JPEG's 65535 per side", image.width, image.height);
        return Err(failure(path, detail));
    };
    let mut bytes = Vec::new();
    jpeg_encoder::Encoder::new(&mut bytes, quality)
        .encode(&image.pixels, width, height, jpeg_encoder::ColorType::Rgb)
        .map_err(|error| failure(path, error))?;
    write_atomic(path, &bytes)
}

/// Writes `image` as an 8-bit RGB PNG, under its final name only when complete.
///
/// # Errors
/// [`Error::Failure`] if the pixels cannot be encoded, [`Error::Io`] if the file cannot be written.
pub fn write_png(path: &Path, image: &Image) -> Result<()> {
    image.check()?;
    let (Ok(width), Ok(height)) = (u32::try_from(image.width), u32::try_from(image.height)) else {
        return Err(failure(path, format!("{}x{} exceeds PNG's range", image.width, image.height)));
    };
    let mut bytes = Vec::new();
    ::image::codecs::png::PngEncoder::new(&mut bytes)
        .write_image(&image.pixels, width, height, ExtendedColorType::Rgb8)
        .map_err(|error| failure(path, error))?;
    write_atomic(path, &bytes)
}

fn failure(path: &Path, detail: impl Display) -> Error {
    Error::Failure(path.to_owned(), format!("cannot encode the image: {detail}"))
}
