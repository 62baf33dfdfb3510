//! WebP in its lossy form, in which photographs are kept, at a cost that is known beforehand.
//!
//! Of a picture with transparency only the colours are decoded. The lossless form is named and not read: no
//! header bounds the tables that it may ask for. Nor are animations, which are no images.

use std::io::Cursor;
use std::path::Path;

use ::image::codecs::webp::WebPDecoder;
use ::image::metadata::Orientation;
use ::image::{DynamicImage, ImageError};

use super::{CONVERT, Cost, DecodeLimits};
use crate::error::{Error, Result};
use crate::image::Image;

/// Bytes that a pixel takes beside the file's: a byte and a half of brightness and colour differences, three of
/// colours, and half a byte of what is known of its block of 16×16.
const BYTES_PER_PIXEL: u64 = 5;

/// Whether these bytes begin as a WebP file does.
pub(super) fn is_one(bytes: &[u8]) -> bool {
    bytes.starts_with(b"RIFF") && bytes.get(8..).is_some_and(|rest| rest.starts_with(b"WEBP"))
}

/// Where the file ends, as its first header tells.
fn end(bytes: &[u8]) -> Option<usize> {
    let length = bytes.get(4..)?.first_chunk()?;
    usize::try_from(u32::from_le_bytes(*length)).ok()?.checked_add(8)
}

/// Whether all of the file is there.
pub(super) fn has_end(bytes: &[u8]) -> bool {
    end(bytes).is_some_and(|end| end <= bytes.len())
}

/// The chunks, of which each has a name of four letters, up to the first that is cut off.
fn chunks(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = bytes.get(12..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (kind, behind) = rest.split_at_checked(4)?;
        let (length, behind) = behind.split_first_chunk()?;
        let (content, behind) =
            behind.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
        // Each begins at an even place.
        rest = behind.get(content.len() % 2..).unwrap_or_default();
        Some((kind, content))
    })
}

/// What the tag (EXIF) says.
pub(super) fn orientation(bytes: &[u8]) -> Option<Orientation> {
    let (_, exif) = chunks(bytes).find(|(kind, _)| *kind == b"EXIF")?;
    Orientation::from_exif_chunk(exif.strip_prefix(b"Exif\0\0").unwrap_or(exif))
}

/// The one picture of a file.
pub(super) struct Picture<'a> {
    pub(super) width: usize,
    pub(super) height: usize,
    /// The chunk with its colours.
    colours: &'a [u8],
}

impl<'a> Picture<'a> {
    /// The lossy picture in a file.
    pub(super) fn find(bytes: &'a [u8], path: &Path) -> Result<Self> {
        let known = |names: &[&[u8]]| chunks(bytes).find(|(kind, _)| names.contains(kind));
        let other = |format| Err(Error::ImageFormat { path: path.to_owned(), format, remedy: CONVERT });
        if known(&[b"ANIM", b"ANMF"]).is_some() {
            return other("an animated WebP image");
        }
        if known(&[b"VP8L"]).is_some() {
            return other("a lossless WebP image");
        }
        let Some((_, colours)) = known(&[b"VP8 "]) else {
            return Err(Error::decode(path, "truncated: it has no whole picture"));
        };
        // Three bytes of flags, a mark, and both sides, of which two bits are for viewers alone.
        let &[flags, _, _, 0x9d, 0x01, 0x2a, w0, w1, h0, h1, ..] = colours else {
            return Err(Error::decode(path, "the picture's header is damaged"));
        };
        let side = |bytes| usize::from(u16::from_le_bytes(bytes) & 0x3fff);
        let (width, height) = (side([w0, w1]), side([h0, h1]));
        if flags & 1 == 1 || width == 0 || height == 0 {
            return Err(Error::decode(path, "the picture's header is damaged"));
        }
        Ok(Self { width, height, colours })
    }

    /// A file with nothing but these colours.
    fn alone(&self) -> Vec<u8> {
        let padding = self.colours.len() % 2;
        let length = |own: usize| u32::try_from(own).unwrap_or(u32::MAX).to_le_bytes();
        let whole = length(12 + self.colours.len() + padding);
        let own = length(self.colours.len());
        [b"RIFF", &whole[..], b"WEBPVP8 ", &own, self.colours, &[0][..padding]].concat()
    }
}

/// Decodes a file.
pub(super) fn decode(bytes: &[u8], path: &Path, limits: &DecodeLimits) -> Result<Image> {
    let fail = |error: ImageError| Error::decode(path, error);
    if !has_end(bytes) {
        return Err(Error::decode(path, "truncated: it ends before the end that its header tells"));
    }
    let picture = Picture::find(bytes, path)?;
    let Picture { width, height, colours } = picture;
    limits.check(path, width, height)?;
    // The file, its colours alone, and what the decoder holds of them.
    let read = bytes.len() as u64 + 2 * colours.len() as u64;
    let whole_blocks = width.next_multiple_of(16) as u64 * height.next_multiple_of(16) as u64;
    limits.afford(path, Cost { bytes: read + BYTES_PER_PIXEL * whole_blocks, blocks: 0 })?;
    let decoder = WebPDecoder::new(Cursor::new(picture.alone())).map_err(fail)?;
    let rgb = DynamicImage::from_decoder(decoder).map_err(fail)?.into_rgb8();
    Image::new(width, height, rgb.into_raw()).map_err(|error| Error::decode(path, error))
}
