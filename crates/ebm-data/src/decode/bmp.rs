//! BMP: uncompressed pictures, whose headers tell how long they are.

use std::io::Cursor;
use std::path::Path;

use ::image::codecs::bmp::BmpDecoder;
use ::image::{DynamicImage, ImageDecoder, ImageError};

use super::{CONVERT, Cost, DecodeLimits};
use crate::error::{Error, Result};
use crate::image::Image;

/// The sizes that the second header has, by which its version is known.
const VERSIONS: [u32; 6] = [12, 40, 52, 56, 108, 124];

/// The bytes from `at` on as a little-endian number.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<i64> {
    let own: &[u8; N] = bytes.get(at..)?.first_chunk()?;
    Some(own.iter().rev().fold(0, |value, &byte| value << 8 | i64::from(byte)))
}

/// Whether these bytes begin as a BMP file does.
pub(super) fn is_one(bytes: &[u8]) -> bool {
    let version = number::<4>(bytes, 14).and_then(|size| u32::try_from(size).ok());
    bytes.starts_with(b"BM") && version.is_some_and(|size| VERSIONS.contains(&size))
}

/// What the headers tell.
pub(super) struct Header {
    pub(super) width: usize,
    pub(super) height: usize,
    /// Where the last row ends; none where the rows are compressed.
    end: Option<u64>,
}

impl Header {
    /// `None` where the headers are cut off, or tell of no pixel.
    pub(super) fn find(bytes: &[u8]) -> Option<Self> {
        const UNCOMPRESSED: [i64; 2] = [0, 3];
        let (width, height, bits, compression) = match number::<4>(bytes, 14)? {
            12 => (number::<2>(bytes, 18)?, number::<2>(bytes, 20)?, number::<2>(bytes, 24)?, 0),
            _ => {
                // A negative height says that the first row is the upper one.
                let height = number::<4>(bytes, 22)? as i32;
                (
                    number::<4>(bytes, 18)?,
                    height.unsigned_abs().into(),
                    number::<2>(bytes, 28)?,
                    number::<4>(bytes, 30)?,
                )
            }
        };
        let side = |length: i64| usize::try_from(length).ok().filter(|&side| side > 0);
        let end = || {
            let row = u64::try_from(width).ok()?.checked_mul(u64::try_from(bits).ok()?)?.div_ceil(32) * 4;
            u64::try_from(number::<4>(bytes, 10)?)
                .ok()?
                .checked_add(row.checked_mul(u64::try_from(height).ok()?)?)
        };
        let end = if UNCOMPRESSED.contains(&compression) { Some(end()?) } else { None };
        Some(Self { width: side(width)?, height: side(height)?, end })
    }
}

/// Decodes a file.
pub(super) fn decode(bytes: &[u8], path: &Path, limits: &DecodeLimits) -> Result<Image> {
    let fail = |error: ImageError| Error::decode(path, error);
    let header = Header::find(bytes).ok_or_else(|| Error::decode(path, "the header is damaged"))?;
    let Header { width, height, end } = header;
    limits.check(path, width, height)?;
    let Some(end) = end else {
        let format = "a compressed BMP image";
        return Err(Error::ImageFormat { path: path.to_owned(), format, remedy: CONVERT });
    };
    if end > bytes.len() as u64 {
        return Err(Error::decode(path, format!("truncated: {width}x{height} pixels end at byte {end}")));
    }
    let decoder = BmpDecoder::new(Cursor::new(bytes)).map_err(fail)?;
    // The pixels as they are in the file, and again in three colours.
    let memory = bytes.len() as u64 + decoder.total_bytes() + 3 * width as u64 * height as u64;
    limits.afford(path, Cost { bytes: memory, blocks: 0 })?;
    let rgb = DynamicImage::from_decoder(decoder).map_err(fail)?.into_rgb8();
    Image::new(width, height, rgb.into_raw()).map_err(|error| Error::decode(path, error))
}
