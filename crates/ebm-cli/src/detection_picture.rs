//! Draws the detections of `ebm predict detection`.

use anyhow::Result;
use ebm_core::Region;
use ebm_data::Image;
use ebm_detect::{BoxDensity, Corner, Detection, Error};

use crate::contact_sheet::{EM, Mark, with_marks};
use crate::picture::{AFTER, BEFORE, Canvas, REGION, TRUTH};

/// Side in pixels up to which small images are enlarged, so that moves of less than a pixel can be seen.
const ROOMY: usize = 640;
/// Length of an image's longer side, in pixels, at which lines and letters are drawn at their normal size. They grow in
/// proportion to it.
const UNIT: f64 = 1000.0;
/// Number of points along a side of a heat map.
const POINTS: usize = 128;
/// Margin of a panel around the box, as a fraction of the box's longer side.
const AROUND: f64 = 0.35;
/// Smallest longer side of a panel, in pixels.
const SIDE: usize = 320;

/// Detection with the intervals that hold its edges with probability 0.9.
pub struct DetectionWithEdges {
    pub detection: Detection,
    /// Intervals of left, top, right and bottom; `None` without a density or where its samples have no spread.
    pub edges: Option<[Region; 4]>,
}

impl DetectionWithEdges {
    pub fn new(detection: Detection) -> Result<Self> {
        let edges = match detection.density.as_ref().map(BoxDensity::edge_intervals) {
            None | Some(Err(Error::Core(ebm_core::Error::NoSpread { .. }))) => None,
            Some(edges) => Some(edges?),
        };
        Ok(Self { detection, edges })
    }

    /// Returns `true` if the detection has no density, or one with enough effective samples for its intervals to be
    /// reliable.
    pub fn is_reliable(&self) -> bool {
        self.detection.density.as_ref().is_none_or(BoxDensity::is_reliable)
    }
}

/// Draws the boxes into the image, each refined box with its class and score. Boxes with a reliable density get the bands
/// in which their edges lie. A line at the bottom names the boxes with an unreliable one. `truth` holds labels and boxes.
pub fn picture(image: &Image, truth: &[(usize, [f64; 4])], found: &[DetectionWithEdges]) -> Result<Image> {
    let longest = image.width.max(image.height);
    let size = (longest as f64 / UNIT).round().max(1.0);
    let mut canvas = Canvas::whole(image.clone()).enlarged((ROOMY / longest).max(1));
    for one in found {
        if let Some(edges) = one.edges.as_ref().filter(|_| one.is_reliable()) {
            canvas.bands(edges, one.detection.bbox, REGION);
        }
    }
    let mark = |bbox, colour, text| Mark { bbox, colour, thickness: 2 * size as usize, text };
    let truth = truth.iter().map(|&(_, bbox)| mark(bbox, TRUTH, String::new()));
    let boxes = found.iter().flat_map(|DetectionWithEdges { detection, .. }| {
        [mark(detection.before, BEFORE, String::new()), mark(detection.bbox, AFTER, caption(detection))]
    });
    let marks: Vec<Mark> = truth.chain(boxes).collect();
    with_marks(canvas, size * EM, &marks, &warning(found))
}

fn caption(found: &Detection) -> String {
    format!("{} {:.2}", found.name(), found.score)
}

/// Returns a warning that names the detections with unreliable densities, or an empty text if there are none.
fn warning(found: &[DetectionWithEdges]) -> String {
    let doubtful = found.iter().filter(|found| !found.is_reliable());
    let names: Vec<String> = doubtful.map(|found| caption(&found.detection)).collect();
    match names.as_slice() {
        [] => String::new(),
        names => format!("no bands, too few effective samples: {}", names.join(", ")),
    }
}

/// Draws the density of a detection's upper right corner together with its boxes. Returns `None` if no density was
/// computed or its samples have no spread.
pub fn panel(
    image: &Image,
    truth: &[(usize, [f64; 4])],
    found: &DetectionWithEdges,
) -> Result<Option<Image>> {
    let DetectionWithEdges { detection, edges: Some(_) } = found else { return Ok(None) };
    let Some(density) = &detection.density else { return Ok(None) };
    let [x, y, width, height] = detection.bbox;
    let around = AROUND * width.max(height);
    let limit = |value: f64, length: usize| value.clamp(0.0, length as f64) as usize;
    let (left, top) = (limit(x - around, image.width - 1), limit(y - around, image.height - 1));
    let right = limit((x + width + around).ceil(), image.width).max(left + 1);
    let bottom = limit((y + height + around).ceil(), image.height).max(top + 1);
    let (width, height) = (right - left, bottom - top);
    let canvas = Canvas::part(image, [left, top, width, height]);
    let mut canvas = canvas.enlarged(SIDE.div_ceil(width.max(height)).max(1));
    canvas.heat(&density.corner(Corner::TopRight, POINTS)?);
    let mark = |bbox, colour| Mark { bbox, colour, thickness: 2, text: String::new() };
    let same = truth.iter().filter(|(label, _)| *label == detection.label);
    let mut marks: Vec<Mark> = same.map(|&(_, bbox)| mark(bbox, TRUTH)).collect();
    marks.extend([mark(detection.before, BEFORE), mark(detection.bbox, AFTER)]);
    with_marks(canvas, EM, &marks, &warning(std::slice::from_ref(found))).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(bbox: [f64; 4], edges: Option<[f64; 4]>) -> DetectionWithEdges {
        let detection = Detection { label: 1, class: None, score: 0.5, before: bbox, bbox, density: None };
        let region =
            |edge: f64| Region { intervals: vec![[edge - 2.0, edge + 2.0]], log_level: 0.0, mass: 0.9 };
        DetectionWithEdges { detection, edges: edges.map(|edges| edges.map(region)) }
    }

    #[test]
    fn bands_lie_along_the_edges() {
        let image = Image::filled(640, 640, [40; 3]).unwrap();
        let bbox = [100.0, 200.0, 300.0, 240.0];
        let drawn = picture(&image, &[], &[found(bbox, Some([100.0, 200.0, 400.0, 440.0]))]).unwrap();
        let pixel =
            |x: usize, y: usize| <[u8; 3]>::try_from(&drawn.pixels[3 * (640 * y + x)..][..3]).unwrap();
        // Beside the lines, which are inside the box, and on them.
        let band = pixel(99, 300);
        assert!(band != [40; 3] && band != AFTER);
        assert_eq!([pixel(98, 300), pixel(401, 300), pixel(250, 198), pixel(250, 441)], [band; 4]);
        assert_eq!([pixel(100, 300), pixel(399, 300)], [AFTER; 2]);
        assert_eq!([pixel(97, 300), pixel(402, 300), pixel(250, 197), pixel(90, 190)], [[40; 3]; 4]);
    }

    #[test]
    fn lines_and_letters_grow_with_the_image() {
        let thick = |side: usize| {
            let image = Image::filled(side, 100, [40; 3]).unwrap();
            let drawn = picture(&image, &[], &[found([10.0, 10.0, 80.0, 80.0], None)]).unwrap();
            let row = &drawn.pixels[3 * drawn.width * (drawn.height / 2)..][..3 * drawn.width];
            row.chunks_exact(3)
                .skip_while(|pixel| *pixel != AFTER)
                .take_while(|pixel| *pixel == AFTER)
                .count()
        };
        assert_eq!([thick(100), thick(1000), thick(4000)], [2, 2, 8]);
    }
}
