//! p(y | x) of a box as a picture, after the paper's Figure 1.

use anyhow::Result;
use ebm_core::Region;
use ebm_data::Image;
use ebm_detect::{BoxDensity, Corner};

use crate::density_panel::LEVEL;
use crate::picture::{
    AFTER, BEFORE, Colour, Points, TRUTH, beside, contour, cut, enlarge, heat, outline, shade,
};

/// Points along a side of the heat map.
const POINTS: usize = 128;
/// What is shown around the box, in its larger side.
const AROUND: f64 = 0.35;
/// The least side of a panel, in pixels.
const SIDE: usize = 320;
/// What has the probability [`LEVEL`]: the bands and the contour.
pub const REGION: Colour = [255, 220, 40];
const BAND: f64 = 0.45;

/// Boxes `[x, y, width, height]` in pixels of the image.
pub struct Boxes {
    /// As the detector gave it.
    pub before: [f64; 4],
    /// Refined.
    pub after: [f64; 4],
    /// The annotated one, if it is known.
    pub truth: Option<[f64; 4]>,
}

/// Shades where the edges of the box `after`, in the picture's pixels, lie: left, top, right and bottom, each
/// along its whole side. `place` takes an edge along an axis to the picture.
pub fn shade_bands(
    picture: &mut Image,
    regions: &[Region; 4],
    after: [f64; 4],
    place: impl Fn(f64, usize) -> f64,
    colour: Colour,
) {
    for (edge, region) in regions.iter().enumerate() {
        for &[from, to] in &region.intervals {
            let [x0, y0, x1, y1] = match edge % 2 {
                0 => [place(from, 0), after[1], place(to, 0), after[1] + after[3]],
                _ => [after[0], place(from, 1), after[0] + after[2], place(to, 1)],
            };
            // A pixel at least.
            shade(picture, [x0, y0, x1.max(x0 + 1.0), y1.max(y0 + 1.0)], colour, BAND);
        }
    }
}

/// Three views of the same part of the image: the boxes; the bands in which the edges lie with probability
/// [`LEVEL`], each by itself; the density of a corner, with the smallest set of that probability.
///
/// # Errors
/// Where the density can not be drawn, because its samples have no spread.
pub fn box_panel(
    image: &Image,
    boxes: &Boxes,
    density: &BoxDensity,
    regions: &[Region; 4],
    corner: Corner,
) -> Result<Image> {
    let map = density.corner(corner, POINTS)?;
    let [x, y, width, height] = boxes.after;
    let around = AROUND * width.max(height);
    let limit = |value: f64, length: usize| value.clamp(0.0, length as f64) as usize;
    let (left, top) = (limit(x - around, image.width - 1), limit(y - around, image.height - 1));
    let right = limit((x + width + around).ceil(), image.width).max(left + 1);
    let bottom = limit((y + height + around).ceil(), image.height).max(top + 1);
    let part = cut(image, left, top, right - left, bottom - top);
    let factor = SIDE.div_ceil(part.width.max(part.height)).max(1);
    let plain = enlarge(&part, factor);

    let factor = factor as f64;
    let origin = [left as f64, top as f64];
    let place = |value: f64, axis: usize| (value - origin[axis]) * factor;
    let scaled = |[x, y, w, h]: [f64; 4]| [place(x, 0), place(y, 1), w * factor, h * factor];
    let after = scaled(boxes.after);

    let mut compared = plain.clone();
    if let Some(truth) = boxes.truth {
        outline(&mut compared, scaled(truth), TRUTH, 2);
    }
    outline(&mut compared, scaled(boxes.before), BEFORE, 2);
    outline(&mut compared, after, AFTER, 2);

    let mut bands = plain.clone();
    shade_bands(&mut bands, regions, after, place, REGION);
    outline(&mut bands, after, AFTER, 2);

    let mut heated = plain;
    let first = [0, 1].map(|axis| place(map.first[axis], axis));
    let points = Points { first, step: map.step.map(|step| step * factor), size: map.size };
    heat(&mut heated, points, &map.p);
    contour(&mut heated, points, &map.p, map.level(LEVEL), REGION);
    outline(&mut heated, after, AFTER, 2);
    Ok(beside(&compared, &[bands, heated])?)
}
