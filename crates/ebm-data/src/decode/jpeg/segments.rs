//! The segments of a JPEG file (ITU-T T.81, annex B).

pub(super) const SOS: u8 = 0xda;
pub(super) const EOI: u8 = 0xd9;
/// Exif and XMP.
pub(super) const APP1: u8 = 0xe1;

/// A marker and what belongs to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment<'a> {
    /// The marker's second byte.
    pub(super) marker: u8,
    /// Where the marker begins, the bytes that fill up to it included.
    pub(super) start: usize,
    /// What follows the length; entropy-coded data behind a scan's header are not in it.
    pub(super) payload: &'a [u8],
    /// Behind the payload.
    pub(super) end: usize,
}

impl Segment<'_> {
    /// Whether the colours cannot depend on it: Exif, XMP, colour profiles, thumbnails, comments.
    pub(super) fn is_ancillary(&self) -> bool {
        matches!(self.marker, APP1..=0xed | 0xef | 0xfe)
    }

    /// Whether it is a frame header: SOF0 to SOF15 without the tables that share their range.
    pub(super) fn is_frame(&self) -> bool {
        matches!(self.marker, 0xc0..=0xcf) && ![0xc4, 0xc8, 0xcc].contains(&self.marker)
    }
}

/// The segments behind the start of `bytes`, up to the end of the image or the first that is cut off.
pub(super) fn segments(bytes: &[u8]) -> impl Iterator<Item = Segment<'_>> {
    let mut at = 2;
    std::iter::from_fn(move || {
        let segment = next(bytes, at)?;
        at = if segment.marker == EOI { bytes.len() } else { segment.end };
        Some(segment)
    })
}

fn next(bytes: &[u8], mut at: usize) -> Option<Segment<'_>> {
    loop {
        // Entropy-coded data: on to the next possible marker.
        let start = at + bytes.get(at..)?.iter().position(|&byte| byte == 0xff)?;
        let code = start + bytes.get(start..)?.iter().position(|&byte| byte != 0xff)?;
        match *bytes.get(code)? {
            // Stuffed zeros, restart markers and TEM stand alone.
            0x00 | 0x01 | 0xd0..=0xd7 => at = code + 1,
            EOI => return Some(Segment { marker: EOI, start, payload: &[], end: code + 1 }),
            marker => {
                let &[high, low] = bytes.get(code + 1..code + 3)? else { return None };
                let end = code + 1 + usize::from(u16::from_be_bytes([high, low]));
                return Some(Segment { marker, start, payload: bytes.get(code + 3..end)?, end });
            }
        }
    }
}
