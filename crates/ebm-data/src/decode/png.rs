//! PNG: only the chunks that make its colours, at a cost that is known beforehand.

use std::io::Cursor;
use std::path::Path;

use ::image::codecs::png::PngDecoder;
use ::image::metadata::Orientation;
use ::image::{ColorType, DynamicImage, ImageDecoder, ImageError, Limits};

use super::{Cost, DecodeLimits};
use crate::error::{Error, Result};
use crate::image::Image;

/// How PNG files begin, and their last chunk.
pub(super) const MAGIC: &[u8] = b"\x89PNG\r\n\x1a\n";
const END: &[u8] = b"IEND\xae\x42\x60\x82";

/// What deflate makes of a byte at most.
const MAX_INFLATION: u64 = 1032;

/// A chunk: four bytes of length, its kind, the content, four bytes of checksum.
#[derive(Clone, Copy)]
struct Chunk<'a> {
    kind: &'a [u8],
    content: &'a [u8],
    whole: &'a [u8],
}

impl Chunk<'_> {
    /// Whether the colours may depend on it: critical chunks, and the transparency, which tells the number of
    /// channels.
    fn is_needed(&self) -> bool {
        self.kind.first().is_some_and(u8::is_ascii_uppercase) || self.kind == b"tRNS"
    }
}

/// The chunks up to the first that is cut off.
fn chunks(bytes: &[u8]) -> impl Iterator<Item = Chunk<'_>> {
    let mut rest = bytes.get(MAGIC.len()..).unwrap_or_default();
    std::iter::from_fn(move || {
        let length = usize::try_from(u32::from_be_bytes(*rest.first_chunk()?)).ok()?;
        let (whole, behind) = rest.split_at_checked(length.checked_add(12)?)?;
        rest = behind;
        Some(Chunk { kind: whole.get(4..8)?, content: whole.get(8..8 + length)?, whole })
    })
}

/// Whether the file ends with its last chunk.
pub(super) fn has_end(bytes: &[u8]) -> bool {
    bytes.ends_with(END)
}

/// What the tag (EXIF) says.
pub(super) fn orientation(bytes: &[u8]) -> Option<Orientation> {
    Orientation::from_exif_chunk(chunks(bytes).find(|chunk| chunk.kind == b"eXIf")?.content)
}

/// What the first chunk tells.
pub(super) struct Header {
    pub(super) width: usize,
    pub(super) height: usize,
    /// Bits of a pixel in the file.
    bits: u64,
}

impl Header {
    /// `None` where the file does not begin with a header of at least one pixel.
    pub(super) fn find(bytes: &[u8]) -> Option<Self> {
        let header = chunks(bytes).next().filter(|chunk| chunk.kind == b"IHDR")?;
        let &[w3, w2, w1, w0, h3, h2, h1, h0, depth, colour, ..] = header.content else { return None };
        let side = |bytes| usize::try_from(u32::from_be_bytes(bytes)).ok().filter(|&side| side > 0);
        let channels = match colour {
            2 => 3,
            4 => 2,
            6 => 4,
            _ => 1,
        };
        let (width, height) = (side([w3, w2, w1, w0])?, side([h3, h2, h1, h0])?);
        Some(Self { width, height, bits: channels * u64::from(depth) })
    }
}

/// Decodes a file.
pub(super) fn decode(bytes: &[u8], path: &Path, limits: &DecodeLimits) -> Result<Image> {
    let fail = |error: ImageError| Error::decode(path, error);
    if !has_end(bytes) {
        return Err(Error::decode(path, "truncated: the file does not end with its IEND chunk"));
    }
    let Header { width, height, bits } =
        Header::find(bytes).ok_or_else(|| Error::decode(path, "it does not begin with its header"))?;
    limits.check(path, width, height)?;
    let pixels = width as u64 * height as u64;
    let data = chunks(bytes)
        .filter(|chunk| chunk.kind == b"IDAT")
        .map(|chunk| chunk.content.len() as u64)
        .sum::<u64>();
    if data * MAX_INFLATION < pixels * bits / 8 {
        let detail = format!("truncated: {data} bytes of data cannot hold {width}x{height} pixels");
        return Err(Error::decode(path, detail));
    }
    // The decoder takes colours of three bytes for granted, and no more than 256.
    let is_palette = |length: usize| length.is_multiple_of(3) && (3..=768).contains(&length);
    if let Some(palette) =
        chunks(bytes).find(|chunk| chunk.kind == b"PLTE" && !is_palette(chunk.content.len()))
    {
        return Err(Error::decode(path, format!("its palette has {} bytes", palette.content.len())));
    }
    let mut needed = MAGIC.to_vec();
    chunks(bytes).filter(Chunk::is_needed).for_each(|chunk| needed.extend_from_slice(chunk.whole));
    let kept = needed.len() as u64;
    let mut memory = Limits::default();
    memory.max_alloc = Some(limits.max_bytes);
    let decoder = PngDecoder::with_limits(Cursor::new(needed), memory).map_err(fail)?;
    // The pixels as they are in the file, and again where they are of another type.
    let converted = if decoder.color_type() == ColorType::Rgb8 { 0 } else { 3 * pixels };
    limits.afford(path, Cost { bytes: kept + decoder.total_bytes() + converted, blocks: 0 })?;
    let rgb = DynamicImage::from_decoder(decoder).map_err(fail)?.into_rgb8();
    Image::new(width, height, rgb.into_raw()).map_err(|error| Error::decode(path, error))
}
