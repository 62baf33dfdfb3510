//! Strict decoding of JPEG and PNG files.
//!
//! Strict, because a lenient JPEG decoder fills the missing part of a truncated file with grey and calls
//! it a success: the sample would train on a lie instead of reaching the quarantine.

use std::io::{Cursor, Read};
use std::path::Path;

use ::image::codecs::png::PngDecoder;
use ::image::metadata::Orientation;
use ::image::{DynamicImage, ImageDecoder, Limits, RgbImage};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use crate::error::{Error, Result};
use crate::files::read_limited;
use crate::image::Image;

/// How JPEG and PNG files begin.
const JPEG: &[u8] = &[0xff, 0xd8, 0xff];
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
/// The last chunk of a PNG.
const PNG_END: &[u8] = b"IEND\xae\x42\x60\x82";

/// How large a file and its image may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Bytes of the file.
    pub max_file_bytes: u64,
    /// Pixels per side, checked in the header before any pixel is allocated.
    pub max_side: usize,
    /// Pixels in all, checked in the header before any pixel is allocated.
    pub max_pixels: usize,
}

impl Default for DecodeLimits {
    /// 64 MiB of file, 16384 pixels per side, 2²⁶ pixels (192 MiB of RGB): far above any image of the datasets.
    fn default() -> Self {
        Self { max_file_bytes: 64 << 20, max_side: 16384, max_pixels: 1 << 26 }
    }
}

impl DecodeLimits {
    fn check(&self, path: &Path, width: usize, height: usize) -> Result<()> {
        let Self { max_side, max_pixels, .. } = *self;
        let fits = width.checked_mul(height).is_some_and(|area| area <= max_pixels);
        if width > max_side || height > max_side || !fits {
            return Err(Error::ImageTooLarge { path: path.to_owned(), width, height, max_side, max_pixels });
        }
        Ok(())
    }
}

/// Reads a JPEG or PNG file as RGB, with [`DecodeLimits::default`].
///
/// The format is told from the content, not from the name. Grey and CMYK JPEGs become RGB; of PNGs 16-bit
/// samples are scaled to 8 bits, grey and palette become RGB and alpha is dropped (as Pillow's
/// `convert("RGB")` does). Orientation tags (EXIF) are ignored, as Pillow, torchvision and pycocotools ignore them: the boxes of
/// the datasets refer to the stored pixels. [`read_upright`] follows the tag.
///
/// # Errors
/// [`Error::Io`] if the file cannot be read, [`Error::FileTooLarge`] and [`Error::ImageTooLarge`] above the
/// limits, [`Error::ImageFormat`] for a known format that is neither JPEG nor PNG, [`Error::Decode`] for anything else, or an
/// incomplete or damaged image. Damage inside a
/// JPEG's entropy-coded data often decodes to wrong pixels without a complaint; only a hash would find it.
pub fn read_image(path: &Path) -> Result<Image> {
    read_image_limited(path, &DecodeLimits::default())
}

/// As [`read_image`], turned and mirrored as the orientation tag (EXIF) says: the way viewers show the picture, and for what
/// has no annotations.
///
/// # Errors
/// Those of [`read_image`].
pub fn read_upright(path: &Path) -> Result<Image> {
    let limits = DecodeLimits::default();
    let bytes = read_limited(path, limits.max_file_bytes)?;
    let Image { width, height, pixels } = decode_image(&bytes, path, &limits)?;
    let buffer = u32::try_from(width).ok().zip(u32::try_from(height).ok());
    let buffer = buffer.and_then(|(width, height)| RgbImage::from_raw(width, height, pixels));
    let mut image =
        DynamicImage::ImageRgb8(buffer.ok_or_else(|| Error::decode(path, "its size is no image's"))?);
    image.apply_orientation(orientation(&bytes).unwrap_or(Orientation::NoTransforms));
    let (width, height) = (image.width() as usize, image.height() as usize);
    Image::new(width, height, image.into_rgb8().into_raw())
}

/// The orientation tag of a file that was decoded.
fn orientation(bytes: &[u8]) -> Option<Orientation> {
    if bytes.starts_with(PNG) {
        return PngDecoder::new(Cursor::new(bytes)).ok()?.orientation().ok();
    }
    let mut decoder = JpegDecoder::new(ZCursor::new(bytes));
    decoder.decode_headers().ok()?;
    Orientation::from_exif_chunk(decoder.exif()?)
}

/// As [`read_image`], with other limits.
///
/// # Errors
/// Those of [`read_image`].
pub fn read_image_limited(path: &Path, limits: &DecodeLimits) -> Result<Image> {
    read_image_into(path, limits, Vec::new())
}

/// As [`read_image_limited`], with memory for the pixels.
pub(crate) fn read_image_into(path: &Path, limits: &DecodeLimits, memory: Vec<u8>) -> Result<Image> {
    decode_into(&read_limited(path, limits.max_file_bytes)?, path, limits, memory)
}

/// As [`read_image`], of bytes in memory; `path` is the name for errors.
///
/// # Errors
/// Those of [`read_image`].
pub fn decode_image(bytes: &[u8], path: &Path, limits: &DecodeLimits) -> Result<Image> {
    decode_into(bytes, path, limits, Vec::new())
}

fn decode_into(bytes: &[u8], path: &Path, limits: &DecodeLimits, memory: Vec<u8>) -> Result<Image> {
    if bytes.starts_with(JPEG) {
        decode_jpeg(bytes, path, limits, memory)
    } else if bytes.starts_with(PNG) {
        decode_png(bytes, path, limits)
    } else {
        Err(neither(bytes, path))
    }
}

/// The error for what is neither JPEG nor PNG.
fn neither(bytes: &[u8], path: &Path) -> Error {
    match other_format(bytes) {
        _ if bytes.is_empty() => Error::decode(path, "the file is empty"),
        Some((format, remedy)) => Error::ImageFormat { path: path.to_owned(), format, remedy },
        None => Error::decode(path, "neither JPEG nor PNG"),
    }
}

/// What the header of an image file tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Columns of the stored pixels.
    pub width: usize,
    /// Rows of the stored pixels.
    pub height: usize,
    /// Whether an orientation tag (EXIF) asks viewers to turn or mirror the picture.
    pub is_turned: bool,
}

/// Reads the header of a JPEG or PNG file; no pixel is decoded.
///
/// # Errors
/// Those of [`read_image`], but that damage behind the header is not seen.
pub fn read_header(path: &Path) -> Result<Header> {
    const USUAL_BYTES: u64 = 1 << 17;
    let limits = DecodeLimits::default();
    let fail = |source| Error::io("read", path, source);
    let mut start = Vec::new();
    ebm_files::open_input(path)
        .and_then(|file| file.take(USUAL_BYTES).read_to_end(&mut start))
        .map_err(fail)?;
    let found = match header(&start, path) {
        // A colour profile or a thumbnail may come first.
        Err(_) if start.len() as u64 == USUAL_BYTES => {
            header(&read_limited(path, limits.max_file_bytes)?, path)
        }
        found => found,
    }?;
    limits.check(path, found.width, found.height)?;
    Ok(found)
}

fn header(bytes: &[u8], path: &Path) -> Result<Header> {
    let (width, height) = if bytes.starts_with(JPEG) {
        let mut decoder = JpegDecoder::new(ZCursor::new(bytes));
        decoder.decode_headers().map_err(|error| Error::decode(path, format!("{error:?}")))?;
        decoder.dimensions().ok_or_else(|| Error::decode(path, "the header tells no dimensions"))?
    } else if bytes.starts_with(PNG) {
        let decoder = PngDecoder::new(Cursor::new(bytes)).map_err(|error| Error::decode(path, error))?;
        let (width, height) = decoder.dimensions();
        (width as usize, height as usize)
    } else {
        return Err(neither(bytes, path));
    };
    let is_turned = orientation(bytes).is_some_and(|turn| turn != Orientation::NoTransforms);
    Ok(Header { width, height, is_turned })
}

/// What a file is that is neither JPEG nor PNG, by its first bytes, and what to do about it.
fn other_format(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    const CONVERT: &str = "convert it, for instance with `magick FILE FILE.png`";
    let at = |place: usize, magic: &[u8]| bytes.get(place..).is_some_and(|rest| rest.starts_with(magic));
    let brand = |names: &[&[u8]]| at(4, b"ftyp") && names.iter().any(|name| at(8, name));
    let image = [
        ("a WebP image", at(0, b"RIFF") && at(8, b"WEBP")),
        ("a BMP image", at(0, b"BM") && at(6, &[0; 4])),
        ("a GIF image", at(0, b"GIF87a") || at(0, b"GIF89a")),
        ("a TIFF image", at(0, b"II*\0") || at(0, b"MM\0*")),
        ("an AVIF image", brand(&[b"avif", b"avis"])),
        ("a HEIC image", brand(&[b"heic", b"heix", b"mif1", b"msf1"])),
        ("a JPEG XL image", at(0, b"\xff\x0a") || at(0, b"\0\0\0\x0cJXL ")),
        ("a PDF document", at(0, b"%PDF")),
    ];
    if let Some((name, _)) = image.into_iter().find(|(_, found)| *found) {
        return Some((name, CONVERT));
    }
    let text = std::str::from_utf8(bytes).ok()?;
    let is_text = !text.chars().any(|c| c.is_control() && !c.is_whitespace());
    is_text.then_some(match text.trim_start().starts_with('<') {
        true => ("a web page", "fetch the image itself, not the page about it"),
        false => ("text", "give the image's file"),
    })
}

fn decode_jpeg(bytes: &[u8], path: &Path, limits: &DecodeLimits, memory: Vec<u8>) -> Result<Image> {
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(limits.max_side)
        .set_max_height(limits.max_side)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let fail = |error| match error {
        zune_jpeg::errors::DecodeErrors::LargeDimensions(side) => {
            Error::decode(path, format!("a side of {side} pixels exceeds the limit of {}", limits.max_side))
        }
        other => Error::decode(path, format!("{other:?}")),
    };
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(fail)?;
    let (width, height) =
        decoder.dimensions().ok_or_else(|| Error::decode(path, "the header tells no dimensions"))?;
    limits.check(path, width, height)?;
    if !has_end_of_image(bytes) {
        return Err(Error::decode(path, "truncated: the end-of-image marker is missing"));
    }
    let mut pixels = memory;
    // Zeros everywhere: what the decoder leaves out of a damaged file must not show an earlier image.
    pixels.clear();
    pixels.resize(decoder.output_buffer_size().unwrap_or(0), 0);
    decoder.decode_into(&mut pixels).map_err(fail)?;
    Image::new(width, height, pixels).map_err(|error| Error::decode(path, error))
}

/// Whether the marker chain of a JPEG reaches EOI (ITU-T T.81, annex B).
///
/// A progressive file cut between two scans decodes without complaint; its missing end gives it away.
fn has_end_of_image(bytes: &[u8]) -> bool {
    let mut rest = bytes.get(2..).unwrap_or_default();
    loop {
        match *rest {
            // Fill bytes, stuffed zeros, restart markers and TEM stand alone.
            [0xff, 0xff, ..] => rest = &rest[1..],
            [0xff, 0x00 | 0x01 | 0xd0..=0xd7, ..] => rest = &rest[2..],
            [0xff, 0xd9, ..] => return true,
            [0xff, _, high, low, ..] => {
                let len = usize::from(u16::from_be_bytes([high, low]));
                rest = rest.get(2 + len..).unwrap_or_default();
            }
            [0xff, ..] => return false,
            [_, ..] => {
                // Entropy-coded data: on to the next possible marker.
                let next = rest.iter().position(|&byte| byte == 0xff).unwrap_or(rest.len());
                rest = &rest[next..];
            }
            [] => return false,
        }
    }
}

/// Whether these bytes begin as a JPEG or PNG does and do not end as one.
pub(crate) fn is_truncated(bytes: &[u8]) -> bool {
    if bytes.starts_with(PNG) {
        return !bytes.ends_with(PNG_END);
    }
    bytes.starts_with(JPEG) && !has_end_of_image(bytes)
}

fn decode_png(bytes: &[u8], path: &Path, limits: &DecodeLimits) -> Result<Image> {
    let fail = |error: ::image::ImageError| Error::decode(path, error);
    if !bytes.ends_with(PNG_END) {
        return Err(Error::decode(path, "truncated: the file does not end with its IEND chunk"));
    }
    let mut decode_limits = Limits::default();
    // 16-bit RGBA takes 8 bytes per pixel, twice while it is converted.
    decode_limits.max_alloc = Some(limits.max_pixels as u64 * 16);
    let decoder = PngDecoder::with_limits(Cursor::new(bytes), decode_limits).map_err(fail)?;
    let (width, height) = decoder.dimensions();
    let (width, height) = (width as usize, height as usize);
    limits.check(path, width, height)?;
    let rgb = DynamicImage::from_decoder(decoder).map_err(fail)?.into_rgb8();
    Image::new(width, height, rgb.into_raw()).map_err(|error| Error::decode(path, error))
}
