//! The picture that a JPEG's frame header announces, and what its blocks take.

use super::segments::{SOS, Segment, segments};

/// What a frame header tells (ITU-T T.81, B.2.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Bits of a sample.
    pub(crate) precision: u8,
    pub(crate) width: usize,
    pub(crate) height: usize,
    /// Whether each coefficient may come in several scans.
    pub(super) is_progressive: bool,
    /// In the order of the header: 1 for grey, 3 for colours, 4 for CMYK.
    pub(crate) components: Vec<Component>,
}

/// One of the planes that make the colours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Component {
    pub(super) id: u8,
    /// Samples across and down, relative to the other components.
    sampling: (usize, usize),
}

impl Frame {
    /// The frame header in front of the first scan of a file, or why there is none that is read.
    pub(crate) fn find(bytes: &[u8]) -> Result<Self, String> {
        let mut header = segments(bytes).take_while(|segment| segment.marker != SOS);
        Self::parse(&header.find(Segment::is_frame).ok_or("truncated: it has no frame header")?)
    }

    fn parse(segment: &Segment<'_>) -> Result<Self, String> {
        let &[precision, high, low, right, left, count, ref components @ ..] = segment.payload else {
            return Err("its frame header is cut off".to_owned());
        };
        let side = |bytes| usize::from(u16::from_be_bytes(bytes));
        let (width, height) = (side([right, left]), side([high, low]));
        let component = |c: &[u8]| match *c {
            [id, sampling, _] => {
                let (across, down) = (usize::from(sampling >> 4), usize::from(sampling & 15));
                ((1..=4).contains(&across) && (1..=4).contains(&down))
                    .then_some(Component { id, sampling: (across, down) })
            }
            _ => None,
        };
        let components: Option<Vec<_>> = components.chunks(3).map(component).collect();
        let sound = |found: &Vec<_>| found.len() == usize::from(count) && (1..=4).contains(&count);
        let Some(components) = components.filter(sound) else {
            return Err(format!("its frame header does not describe {count} components"));
        };
        if width == 0 || height == 0 {
            return Err(format!("its frame header tells {width}x{height} pixels"));
        }
        match segment.marker {
            0xc0..=0xc2 => {
                Ok(Self { precision, width, height, is_progressive: segment.marker == 0xc2, components })
            }
            marker => Err(format!("frames of the kind SOF{} are not read", marker - 0xc0)),
        }
    }

    /// The blocks of 8x8 samples of these components: of a single one, as of a scan, those that reach into
    /// the picture, of several all of the units that they share (A.2).
    pub(super) fn blocks(&self, places: &[usize]) -> u64 {
        let largest = |side: fn(&Component) -> usize| self.components.iter().map(side).max().unwrap_or(1);
        let (across, down) = (largest(|c| c.sampling.0), largest(|c| c.sampling.1));
        let samplings = places.iter().filter_map(|&place| self.components.get(place)).map(|c| c.sampling);
        let blocks = match places {
            [_] => samplings
                .map(|(h, v)| (self.width * h).div_ceil(8 * across) * (self.height * v).div_ceil(8 * down))
                .sum::<usize>(),
            _ => {
                let units = self.width.div_ceil(8 * across) * self.height.div_ceil(8 * down);
                units * samplings.map(|(h, v)| h * v).sum::<usize>()
            }
        };
        blocks as u64
    }
}
