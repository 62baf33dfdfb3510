//! JPEG: whole pictures only, at a cost that is known beforehand.

mod frame;
mod layout;
mod reader;
mod segments;

use std::cell::Cell;

use ::image::metadata::Orientation;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use self::layout::Layout;
use self::reader::Watched;
use self::segments::{APP1, SOS, segments};
use super::DecodeLimits;
use crate::error::{Error, Result};
use crate::image::Image;
use std::path::Path;

pub(crate) use self::frame::Frame;

/// How JPEG files begin.
pub(super) const MAGIC: &[u8] = &[0xff, 0xd8, 0xff];

/// How far from the end of the data a decoder's last request for bits may be: it holds up to eight bytes that
/// it has not used, each may be stuffed, and encoders pad.
const SLACK: u64 = 16;

/// Whether the chain of segments reaches the end of the image.
///
/// What the tag (EXIF) in front of the first scan says.
pub(super) fn orientation(bytes: &[u8]) -> Option<Orientation> {
    let header = segments(bytes).take_while(|segment| segment.marker != SOS);
    let tags = header.filter(|segment| segment.marker == APP1);
    let exif = tags.filter_map(|segment| segment.payload.strip_prefix(b"Exif\0\0")).last()?;
    Orientation::from_exif_chunk(exif)
}

/// Decodes a file into `memory`.
pub(super) fn decode(bytes: &[u8], path: &Path, limits: &DecodeLimits, memory: Vec<u8>) -> Result<Image> {
    let damaged = |detail: String| Error::decode(path, detail);
    let layout = Layout::read(bytes).map_err(damaged)?;
    let Frame { width, height, .. } = layout.frame;
    limits.check(path, width, height)?;
    layout.check().map_err(damaged)?;
    limits.afford(path, layout.cost())?;

    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(limits.max_side)
        .set_max_height(limits.max_side)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let asked = Cell::new(0);
    let mut decoder = JpegDecoder::new_with_options(Watched::new(&layout.stream, &asked), options);
    let fail = |error| Error::decode(path, format!("{error:?}"));
    decoder.decode_headers().map_err(fail)?;
    let mut pixels = memory;
    // Zeros everywhere: what the decoder leaves out of a damaged file must not show an earlier image.
    pixels.clear();
    pixels.resize(decoder.output_buffer_size().unwrap_or(0), 0);
    decoder.decode_into(&mut pixels).map_err(fail)?;
    let (asked, end) = (asked.get(), layout.data_end as u64);
    if asked > end + SLACK {
        return Err(Error::decode(path, "truncated: its data end before its last block"));
    }
    if asked + SLACK < end {
        let rest = end - asked;
        return Err(Error::decode(
            path,
            format!("about {rest} bytes of data are left behind its last block"),
        ));
    }
    Image::new(width, height, pixels).map_err(|error| Error::decode(path, error))
}
