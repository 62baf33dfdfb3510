//! Decoding of complete JPEG files, by a decoder in strict mode.

use std::path::Path;

use ::image::metadata::Orientation;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::DecodeLimits;
use crate::error::{Error, Result};
use crate::image::Image;

const SOS: u8 = 0xda;
const EOI: u8 = 0xd9;
const APP1: u8 = 0xe1;

/// 256 one bits, as they appear in entropy-coded data. No code consists of ones alone (ITU-T T.81, C.2), so a
/// decoder that wants more data than there are fails here. At a marker it would continue with zeros.
const TAIL: [u8; 64] = {
    let mut tail = [0xff; 64];
    let mut at = 1;
    while at < tail.len() {
        tail[at] = 0;
        at += 2;
    }
    tail
};

/// Segments of a JPEG file.
#[derive(Default)]
pub(super) struct Parts {
    /// Columns and rows, as the frame header says.
    pub(super) size: Option<(usize, usize)>,
    pub(super) orientation: Option<Orientation>,
    /// Whether the markers lead to the end of the image. A progressive file that was cut between two scans
    /// decodes without an error; only its missing end shows the cut.
    pub(super) is_whole: bool,
    /// The file up to the end of its image without ancillary segments, with [`TAIL`] after the data.
    stream: Vec<u8>,
}

impl Parts {
    pub(super) fn read(bytes: &[u8]) -> Self {
        let mut parts = Self { stream: Vec::with_capacity(bytes.len() + TAIL.len()), ..Self::default() };
        let (mut at, mut copied, mut in_header) = (2, 0, true);
        while let Some((marker, start, end)) = next_segment(bytes, at) {
            let payload = bytes.get(start + 4..end).unwrap_or_default();
            match marker {
                SOS => in_header = false,
                // A frame header: SOF0 to SOF15 without the tables that share their range.
                0xc0..=0xcf if in_header && ![0xc4, 0xc8, 0xcc].contains(&marker) => {
                    if let &[_, high, low, right, left, ..] = payload {
                        let side = |bytes| usize::from(u16::from_be_bytes(bytes));
                        let (width, height) = (side([right, left]), side([high, low]));
                        parts.size = Some((width, height)).filter(|_| width > 0 && height > 0);
                    }
                }
                // Exif, XMP, colour profiles, thumbnails, comments, and the end.
                APP1..=0xed | 0xef | 0xfe | EOI => {
                    parts.stream.extend_from_slice(&bytes[copied..start]);
                    copied = end;
                    if let Some(exif) = payload.strip_prefix(b"Exif\0\0").filter(|_| in_header) {
                        parts.orientation = Orientation::from_exif_chunk(exif);
                    }
                }
                _ => {}
            }
            if marker == EOI {
                parts.stream.extend(TAIL);
                parts.stream.extend([0xff, EOI]);
                parts.is_whole = true;
                break;
            }
            at = end;
        }
        parts
    }
}

/// Returns the next marker, its position, and the end of its segment. Entropy-coded data are skipped.
fn next_segment(bytes: &[u8], mut at: usize) -> Option<(u8, usize, usize)> {
    loop {
        at += bytes.get(at..)?.iter().position(|&byte| byte == 0xff)?;
        // Fill bytes may precede a marker.
        at += bytes.get(at..)?.iter().position(|&byte| byte != 0xff)? - 1;
        match *bytes.get(at + 1)? {
            // Stuffed zeros, restart markers and TEM have no segment.
            0x00 | 0x01 | 0xd0..=0xd7 => at += 2,
            EOI => return Some((EOI, at, at + 2)),
            marker => {
                let &[high, low] = bytes.get(at + 2..at + 4)? else { return None };
                let end = at + 2 + usize::from(u16::from_be_bytes([high, low]));
                return (end <= bytes.len()).then_some((marker, at, end));
            }
        }
    }
}

/// Decodes a JPEG file.
pub(super) fn decode(bytes: &[u8], path: &Path, limits: &DecodeLimits) -> Result<Image> {
    let parts = Parts::read(bytes);
    if !parts.is_whole {
        return Err(Error::decode(path, "truncated: the end-of-image marker is missing"));
    }
    let (width, height) =
        parts.size.ok_or_else(|| Error::decode(path, "it has no frame header with a size"))?;
    limits.check(path, width, height)?;
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(limits.max_side)
        .set_max_height(limits.max_side)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(&parts.stream[..]), options);
    let fail = |error| Error::decode(path, format!("{error:?}"));
    decoder.decode_headers().map_err(fail)?;
    let mut pixels = vec![0; decoder.output_buffer_size().unwrap_or(0)];
    decoder.decode_into(&mut pixels).map_err(fail)?;
    Image::new(width, height, pixels).map_err(|error| Error::decode(path, error))
}
