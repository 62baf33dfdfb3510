//! Strict decoding of JPEG, PNG, BMP and WebP files.
//!
//! Strict, because a lenient JPEG decoder fills the missing part of a truncated file with grey and calls it a
//! success: the sample would train on a lie instead of reaching the quarantine. And at a bounded cost: what a
//! file would take is told from its headers, and compared with [`DecodeLimits`] before anything of that size
//! is allocated.

mod bmp;
mod jpeg;
mod png;
mod webp;

use std::io::Read;
use std::path::Path;

use ::image::metadata::Orientation;
use ::image::{DynamicImage, RgbImage};

use crate::error::{Error, Result};
use crate::files::read_limited;
use crate::image::Image;

pub(crate) use self::jpeg::Frame as JpegFrame;

/// How large a file and its image may be, and what decoding it may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Bytes of the file.
    pub max_file_bytes: u64,
    /// Pixels per side, checked in the header before any pixel is allocated.
    pub max_side: usize,
    /// Pixels in all, checked in the header before any pixel is allocated.
    pub max_pixels: usize,
    /// Bytes that decoding may take at once, those of the decoded pixels and of the file's copy included.
    pub max_bytes: u64,
    /// Blocks of 8x8 samples that all scans of a JPEG visit: a progressive picture visits each several times.
    pub max_blocks: u64,
}

impl Default for DecodeLimits {
    /// 64 MiB of file, 16384 pixels per side, 2²⁶ pixels (192 MiB of RGB), 512 MiB of memory, 2²⁴ visits of
    /// blocks (five progressive passes over 2²⁶ pixels in three colours): far above any image of the
    /// datasets.
    fn default() -> Self {
        Self {
            max_file_bytes: 64 << 20,
            max_side: 16384,
            max_pixels: 1 << 26,
            max_bytes: 512 << 20,
            max_blocks: 1 << 24,
        }
    }
}

/// What decoding a file takes, as its headers tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    bytes: u64,
    blocks: u64,
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

    fn afford(&self, path: &Path, cost: Cost) -> Result<()> {
        let over = |what, needed, limit| Error::DecodeCost { path: path.to_owned(), what, needed, limit };
        match cost {
            Cost { bytes, .. } if bytes > self.max_bytes => {
                Err(over("bytes of memory", bytes, self.max_bytes))
            }
            Cost { blocks, .. } if blocks > self.max_blocks => {
                Err(over("visits of blocks", blocks, self.max_blocks))
            }
            _ => Ok(()),
        }
    }
}

/// Reads a JPEG, PNG, BMP or WebP file as RGB, with [`DecodeLimits::default`].
///
/// The format is told from the content, not from the name. Grey and CMYK JPEGs become RGB; of PNGs 16-bit
/// samples are scaled to 8 bits, grey and palette become RGB and alpha is dropped (as Pillow's
/// `convert("RGB")` does). BMPs are read uncompressed, WebPs lossy and without animation. Orientation tags (EXIF) are ignored, as Pillow, torchvision and pycocotools ignore
/// them: the boxes of the datasets refer to the stored pixels. [`read_upright`] follows the tag.
///
/// # Errors
/// [`Error::Io`] if the file cannot be read, [`Error::FileTooLarge`] and [`Error::ImageTooLarge`] above the
/// limits, [`Error::DecodeCost`] where decoding would take more than they allow, [`Error::ImageFormat`] for a
/// known format that is not read, [`Error::Decode`] for anything else, or an incomplete or damaged image: also a JPEG whose data end before its last block, or go on behind it. Other damage inside a
/// JPEG's entropy-coded data often decodes to wrong pixels without a complaint; only a hash would find it.
pub fn read_image(path: &Path) -> Result<Image> {
    read_image_limited(path, &DecodeLimits::default())
}

/// As [`read_image`], turned and mirrored as the orientation tag (EXIF) says: the way viewers show the
/// picture, and for what has no annotations.
///
/// # Errors
/// Those of [`read_image`].
pub fn read_upright(path: &Path) -> Result<Image> {
    let limits = DecodeLimits::default();
    decode_upright(&read_limited(path, limits.max_file_bytes)?, path, &limits)
}

/// As [`read_upright`], of bytes in memory; `path` is the name for errors.
///
/// # Errors
/// Those of [`read_image`].
pub fn decode_upright(bytes: &[u8], path: &Path, limits: &DecodeLimits) -> Result<Image> {
    let Image { width, height, pixels } = decode_image(bytes, path, limits)?;
    let buffer = u32::try_from(width).ok().zip(u32::try_from(height).ok());
    let buffer = buffer.and_then(|(width, height)| RgbImage::from_raw(width, height, pixels));
    let mut image =
        DynamicImage::ImageRgb8(buffer.ok_or_else(|| Error::decode(path, "its size is no image's"))?);
    image.apply_orientation(orientation(bytes).unwrap_or(Orientation::NoTransforms));
    let (width, height) = (image.width() as usize, image.height() as usize);
    Image::new(width, height, image.into_rgb8().into_raw())
}

/// The orientation tag of a file.
fn orientation(bytes: &[u8]) -> Option<Orientation> {
    match Kind::of(bytes)? {
        Kind::Jpeg => jpeg::orientation(bytes),
        Kind::Png => png::orientation(bytes),
        Kind::WebP => webp::orientation(bytes),
        Kind::Bmp => None,
    }
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
    match Kind::of(bytes) {
        Some(Kind::Jpeg) => jpeg::decode(bytes, path, limits, memory),
        Some(Kind::Png) => png::decode(bytes, path, limits),
        Some(Kind::Bmp) => bmp::decode(bytes, path, limits),
        Some(Kind::WebP) => webp::decode(bytes, path, limits),
        None => Err(unknown(bytes, path)),
    }
}

/// The formats that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Jpeg,
    Png,
    Bmp,
    WebP,
}

impl Kind {
    /// As the first bytes tell.
    fn of(bytes: &[u8]) -> Option<Self> {
        let known = [
            (Self::Jpeg, bytes.starts_with(jpeg::MAGIC)),
            (Self::Png, bytes.starts_with(png::MAGIC)),
            (Self::Bmp, bmp::is_one(bytes)),
            (Self::WebP, webp::is_one(bytes)),
        ];
        known.into_iter().find_map(|(kind, found)| found.then_some(kind))
    }
}

/// The error for what is of none of these.
fn unknown(bytes: &[u8], path: &Path) -> Error {
    match other_format(bytes) {
        _ if bytes.is_empty() => Error::decode(path, "the file is empty"),
        Some((format, remedy)) => Error::ImageFormat { path: path.to_owned(), format, remedy },
        None => Error::decode(path, "neither JPEG, PNG, BMP nor WebP"),
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

/// Reads the header of an image file; no pixel is decoded.
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
    let damaged = || Error::decode(path, "the header is damaged");
    let (width, height) = match Kind::of(bytes) {
        Some(Kind::Jpeg) => {
            let frame = JpegFrame::find(bytes).map_err(|detail| Error::decode(path, detail))?;
            (frame.width, frame.height)
        }
        Some(Kind::Png) => {
            let header = png::Header::find(bytes).ok_or_else(damaged)?;
            (header.width, header.height)
        }
        Some(Kind::Bmp) => {
            let header = bmp::Header::find(bytes).ok_or_else(damaged)?;
            (header.width, header.height)
        }
        Some(Kind::WebP) => {
            let picture = webp::Picture::find(bytes, path)?;
            (picture.width, picture.height)
        }
        None => return Err(unknown(bytes, path)),
    };
    let is_turned = orientation(bytes).is_some_and(|turn| turn != Orientation::NoTransforms);
    Ok(Header { width, height, is_turned })
}

/// What to do about an image that is not read.
const CONVERT: &str = "convert it, for instance with `magick FILE FILE.png`";

/// What a file is that is not read, by its first bytes, and what to do about it.
fn other_format(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    let at = |place: usize, magic: &[u8]| bytes.get(place..).is_some_and(|rest| rest.starts_with(magic));
    let brand = |names: &[&[u8]]| at(4, b"ftyp") && names.iter().any(|name| at(8, name));
    let image = [
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
