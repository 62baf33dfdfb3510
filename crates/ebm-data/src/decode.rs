//! Strict decoding of JPEG, PNG, BMP and WebP files.
//!
//! A lenient JPEG decoder fills the missing part of a truncated file with grey and reports success. Training
//! would then use the grey pixels, and the file would never reach the quarantine. The size in a header is
//! compared with [`DecodeLimits`] before anything of that size is allocated.

mod jpeg;

use std::io::Cursor;
use std::path::Path;

use ::image::metadata::Orientation;
use ::image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, RgbImage};

use crate::error::{Error, Result};
use crate::files::read_limited;
use crate::image::Image;

/// Limits of the size of a file and of its image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Largest size of the file, in bytes.
    pub max_file_bytes: u64,
    /// Largest number of pixels per side, checked in the header before any pixel is allocated.
    pub max_side: usize,
    /// Largest number of pixels in all, checked in the header before any pixel is allocated.
    pub max_pixels: usize,
}

impl Default for DecodeLimits {
    /// 64 MiB of file, 16384 pixels per side, 2²⁶ pixels (192 MiB of RGB): far above every image of the datasets.
    fn default() -> Self {
        Self { max_file_bytes: 64 << 20, max_side: 16384, max_pixels: 1 << 26 }
    }
}

impl DecodeLimits {
    fn check(&self, path: &Path, width: usize, height: usize) -> Result<()> {
        let Self { max_side, max_pixels, .. } = *self;
        let fits = width.checked_mul(height).is_some_and(|area| area <= max_pixels);
        if width > max_side || height > max_side || !fits {
            let limit = format!("the limit of {max_side} per side and {max_pixels} in all");
            return Err(Error::TooLarge(path.to_owned(), format!("{width}x{height} pixels exceed {limit}")));
        }
        Ok(())
    }
}

/// Reads a JPEG, PNG, BMP or WebP file as RGB, with [`DecodeLimits::default`].
///
/// The format is recognised by the content, not by the name. Grey and CMYK JPEGs become RGB. In PNGs, 16-bit samples
/// are scaled to 8 bits, grey and palette become RGB, and alpha is dropped (as Pillow's `convert("RGB")` does).
/// Compressed BMPs and animated WebPs are refused. Orientation tags (EXIF) are ignored, as Pillow, torchvision and
/// pycocotools ignore them: the boxes of the datasets refer to the stored pixels. [`read_upright`] follows the tag.
///
/// # Errors
/// [`Error::Io`] if the file cannot be read, [`Error::TooLarge`] above the limits, [`Error::Data`] for any other
/// format and for an incomplete or damaged image, including a JPEG whose data end before its last block. Other damage
/// inside a JPEG's entropy-coded data often decodes to wrong pixels without an error; only a hash would detect it.
pub fn read_image(path: &Path) -> Result<Image> {
    let limits = DecodeLimits::default();
    decode_image(&read_limited(path, limits.max_file_bytes)?, path, &limits)
}

/// Reads an image like [`read_image`], and turns and mirrors it as its orientation tag (EXIF) says, like viewers
/// do. This is for pictures without annotations.
///
/// # Errors
/// The errors of [`read_image`].
pub fn read_upright(path: &Path) -> Result<Image> {
    let limits = DecodeLimits::default();
    decode_upright(&read_limited(path, limits.max_file_bytes)?, path, &limits)
}

/// Decodes an image in memory like [`read_upright`]; `path` is its name in errors.
///
/// # Errors
/// The errors of [`read_image`].
pub fn decode_upright(bytes: &[u8], path: &Path, limits: &DecodeLimits) -> Result<Image> {
    let Image { width, height, pixels } = decode_image(bytes, path, limits)?;
    let buffer = u32::try_from(width).ok().zip(u32::try_from(height).ok());
    let buffer = buffer.and_then(|(width, height)| RgbImage::from_raw(width, height, pixels));
    let mut image = DynamicImage::ImageRgb8(
        buffer.ok_or_else(|| Error::decode(path, "its size does not fit its pixels"))?,
    );
    image.apply_orientation(header(bytes, path)?.1);
    let (width, height) = (image.width() as usize, image.height() as usize);
    Image::new(width, height, image.into_rgb8().into_raw())
}

/// Decodes an image in memory like [`read_image`]; `path` is its name in errors.
///
/// # Errors
/// The errors of [`read_image`].
pub fn decode_image(bytes: &[u8], path: &Path, limits: &DecodeLimits) -> Result<Image> {
    let format = format(bytes, path)?;
    if format == ImageFormat::Jpeg {
        return jpeg::decode(bytes, path, limits);
    }
    if !is_whole(bytes, format) {
        return Err(Error::decode(path, "truncated: it does not end as its format wants"));
    }
    let decoder = decoder(bytes, format, path)?;
    let (width, height) = decoder.dimensions();
    let (width, height) = (width as usize, height as usize);
    limits.check(path, width, height)?;
    let rgb = DynamicImage::from_decoder(decoder).map_err(|error| Error::decode(path, error))?.into_rgb8();
    Image::new(width, height, rgb.into_raw()).map_err(|error| Error::decode(path, error))
}

/// Recognises the format by the first bytes.
fn format(bytes: &[u8], path: &Path) -> Result<ImageFormat> {
    use ImageFormat::{Bmp, Jpeg, Png, WebP};
    match ::image::guess_format(bytes) {
        _ if bytes.is_empty() => Err(Error::decode(path, "the file is empty")),
        Ok(format @ (Jpeg | Png | Bmp | WebP)) => Ok(format),
        Ok(other) => Err(Error::decode(path, format!("{other:?} is not read; convert it to PNG"))),
        Err(_) => Err(Error::decode(path, "neither JPEG, PNG, BMP nor WebP")),
    }
}

/// Returns whether a PNG or WebP file is complete. The decoders of the other formats check this themselves.
fn is_whole(bytes: &[u8], format: ImageFormat) -> bool {
    let length = || bytes.get(4..)?.first_chunk().map(|length| u64::from(u32::from_le_bytes(*length)));
    match format {
        ImageFormat::Png => bytes.ends_with(b"IEND\xae\x42\x60\x82"),
        ImageFormat::WebP => length().is_some_and(|length| length + 8 <= bytes.len() as u64),
        _ => true,
    }
}

/// Returns the decoder of a PNG, BMP or WebP file, which may use 512 MiB.
fn decoder<'a>(bytes: &'a [u8], format: ImageFormat, path: &Path) -> Result<impl ImageDecoder + 'a> {
    if let Some(palette) =
        palette_bytes(bytes).filter(|length| *length % 3 != 0 || !(3..=768).contains(length))
    {
        return Err(Error::decode(path, format!("its palette has {palette} bytes")));
    }
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let refused = match format {
        // The missing part of a compressed BMP would be decoded to black.
        ImageFormat::Bmp if byte(14) > 12 && [1, 2].contains(&byte(30)) => "a compressed BMP",
        ImageFormat::WebP if bytes.get(12..16) == Some(b"VP8X") && byte(20) & 2 > 0 => "an animated WebP",
        _ => "",
    };
    if !refused.is_empty() {
        return Err(Error::decode(path, format!("{refused} is not read; convert it to PNG")));
    }
    let reader = ImageReader::with_format(Cursor::new(bytes), format);
    reader.into_decoder().map_err(|error| Error::decode(path, error))
}

/// Returns the length of a PNG's palette in bytes. The decoder assumes whole colours, 256 at most, without a check.
fn palette_bytes(bytes: &[u8]) -> Option<usize> {
    let mut rest = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n")?;
    loop {
        let length = usize::try_from(u32::from_be_bytes(*rest.first_chunk()?)).ok()?;
        if rest.get(4..8)? == b"PLTE" {
            return Some(length);
        }
        rest = rest.get(length.checked_add(12)?..)?;
    }
}

/// Header of an image file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of columns of the stored pixels.
    pub width: usize,
    /// Number of rows of the stored pixels.
    pub height: usize,
    /// Whether an orientation tag (EXIF) asks viewers to turn or mirror the picture.
    pub is_turned: bool,
}

/// Reads the header of an image file without decoding a pixel.
///
/// # Errors
/// The errors of [`read_image`]; damage after the header is not detected.
pub fn read_header(path: &Path) -> Result<Header> {
    let limits = DecodeLimits::default();
    let ((width, height), orientation) = header(&read_limited(path, limits.max_file_bytes)?, path)?;
    limits.check(path, width, height)?;
    Ok(Header { width, height, is_turned: orientation != Orientation::NoTransforms })
}

/// Reads the number of columns and rows, and the orientation tag of a file.
fn header(bytes: &[u8], path: &Path) -> Result<((usize, usize), Orientation)> {
    let format = format(bytes, path)?;
    let (size, orientation) = if format == ImageFormat::Jpeg {
        let parts = jpeg::Parts::read(bytes);
        (parts.size, parts.orientation)
    } else {
        let mut decoder = decoder(bytes, format, path)?;
        let exif = decoder.exif_metadata().ok().flatten().unwrap_or_default();
        // Some writers of WebP begin the EXIF data as in a JPEG.
        let exif = exif.strip_prefix(b"Exif\0\0").unwrap_or(&exif);
        let (width, height) = decoder.dimensions();
        (Some((width as usize, height as usize)), Orientation::from_exif_chunk(exif))
    };
    let size = size.filter(|size| size.0 > 0 && size.1 > 0);
    let size = size.ok_or_else(|| Error::decode(path, "its header is damaged, or tells of no pixel"))?;
    Ok((size, orientation.unwrap_or(Orientation::NoTransforms)))
}
