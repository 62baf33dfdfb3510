//! The scans of a JPEG: whether they make a whole picture, and what they cost.

use super::frame::Frame;
use super::segments::{EOI, SOS, Segment, segments};
use crate::decode::Cost;

/// More scans than any encoder makes; libjpeg's progressive pictures have ten.
const MAX_SCANS: usize = 100;

/// A pass over the blocks of some components (ITU-T T.81, B.2.3).
#[derive(Clone, Debug)]
struct Scan {
    /// Their places in the frame.
    components: Vec<usize>,
    /// The first and the last coefficient of a block, in zigzag order.
    spectrum: (usize, usize),
    /// The bit up to which the coefficients are known then; 0 when they are complete.
    low_bit: u8,
    /// Bytes of its entropy-coded data.
    bytes: u64,
}

impl Scan {
    fn parse(frame: &Frame, payload: &[u8]) -> Option<Self> {
        let (&count, rest) = payload.split_first()?;
        let (chosen, rest) = rest.split_at_checked(2 * usize::from(count))?;
        let &[first, last, bits] = rest else { return None };
        let place = |pair: &[u8]| frame.components.iter().position(|c| Some(&c.id) == pair.first());
        let components: Vec<_> = chosen.chunks(2).map(place).collect::<Option<_>>()?;
        let (spectrum, low_bit) = match frame.is_progressive {
            true => ((usize::from(first), usize::from(last)), bits & 15),
            // Some encoders write something else there.
            false => ((0, 63), 0),
        };
        let sound = (1..=4).contains(&components.len()) && spectrum.0 <= spectrum.1 && spectrum.1 < 64;
        sound.then_some(Self { components, spectrum, low_bit, bytes: 0 })
    }

    /// What its data cannot go below: a code for the mean and one for the end of each block; in a progressive
    /// frame one bit for the mean, and none where blocks in long runs may be empty.
    fn least_bits(&self, frame: &Frame) -> u64 {
        let per_block = if frame.is_progressive { u64::from(self.spectrum.0 == 0) } else { 2 };
        per_block * frame.blocks(&self.components)
    }
}

/// A file that was taken apart.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) frame: Frame,
    scans: Vec<Scan>,
    /// The file up to the end of its image without ancillary segments, and with [`TAIL`] behind the last
    /// data.
    pub(super) stream: Vec<u8>,
    /// Where the last scan's data end in it.
    pub(super) data_end: usize,
}

/// 256 ones, as they stand in entropy-coded data. No code is all ones (T.81, C.2): a decoder that wants more
/// data than there are ends here with an error, where at a marker it goes on with zeros.
pub(super) const TAIL: [u8; 64] = {
    let mut tail = [0xff; 64];
    let mut at = 1;
    while at < tail.len() {
        tail[at] = 0;
        at += 2;
    }
    tail
};

impl Layout {
    /// Takes a file apart, or says what is wrong with it.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let stream = Vec::with_capacity(bytes.len() + TAIL.len());
        let mut layout = Self { frame: Frame::find(bytes)?, scans: Vec::new(), stream, data_end: 0 };
        // How far `bytes` are in the stream, and where the data begin that the next segment ends.
        let (mut copied, mut data) = (0, None);
        for segment in segments(bytes) {
            if let Some((from, scan)) = data.take().zip(layout.scans.last_mut()) {
                scan.bytes = (segment.start - from) as u64;
                layout.data_end = layout.stream.len() + segment.start - copied;
            }
            if segment.marker == SOS {
                layout.push_scan(&segment)?;
                data = Some(segment.end);
            }
            if segment.is_ancillary() || segment.marker == EOI {
                layout.stream.extend_from_slice(&bytes[copied..segment.start]);
                copied = segment.end;
            }
            if segment.marker == EOI {
                // What stands between the last data and the end is for no scan.
                layout.stream.truncate(layout.data_end);
                layout.stream.extend(TAIL);
                layout.stream.extend([0xff, EOI]);
                return Ok(layout);
            }
        }
        Err("truncated: the end-of-image marker is missing".to_owned())
    }

    fn push_scan(&mut self, segment: &Segment<'_>) -> Result<(), String> {
        if self.scans.len() == MAX_SCANS {
            return Err(format!("it has more scans than {MAX_SCANS}"));
        }
        let scan = Scan::parse(&self.frame, segment.payload).ok_or("the header of a scan is damaged")?;
        self.scans.push(scan);
        Ok(())
    }

    /// Whether the scans have room for all blocks, and leave no coefficient out.
    pub(super) fn check(&self) -> Result<(), String> {
        let Frame { width, height, .. } = self.frame;
        let short = |scan: &&Scan| scan.bytes.saturating_mul(8) < scan.least_bits(&self.frame);
        if let Some(scan) = self.scans.iter().find(short) {
            let bytes = scan.bytes;
            return Err(format!("truncated: {bytes} bytes of data cannot hold {width}x{height} pixels"));
        }
        let mut known = vec![[u8::MAX; 64]; self.frame.components.len()];
        for scan in &self.scans {
            for &component in &scan.components {
                known[component][scan.spectrum.0..=scan.spectrum.1].fill(scan.low_bit);
            }
        }
        match known.iter().position(|coefficients| coefficients.iter().any(|&bit| bit > 0)) {
            Some(at) => {
                Err(format!("truncated: scans of component {} are missing", self.frame.components[at].id))
            }
            None => Ok(()),
        }
    }

    /// What decoding takes.
    pub(super) fn cost(&self) -> Cost {
        let Frame { width, height, is_progressive, ref components, .. } = self.frame;
        let all: Vec<usize> = (0..components.len()).collect();
        let in_one_scan = self.scans.first().is_some_and(|scan| scan.components.len() == all.len());
        // Two bytes for each coefficient where the whole picture is collected before it is transformed.
        let kept = if in_one_scan && !is_progressive { 0 } else { 128 * self.frame.blocks(&all).max(1) };
        let bytes = (3 * width * height + self.stream.len()) as u64 + kept;
        Cost { bytes, blocks: self.scans.iter().map(|scan| self.frame.blocks(&scan.components)).sum() }
    }
}
