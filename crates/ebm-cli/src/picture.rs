//! Draws boxes and densities into images, and puts images side by side.

use anyhow::Result;
use ebm_core::{DensityMap, GridDensity, Region};
use ebm_data::{Image, resize::resize_pillow};
use ebm_plot::DensityCurves;

/// RGB colour.
pub type Colour = [u8; 3];

/// Colour of annotated boxes.
pub const TRUTH: Colour = [255, 255, 255];
/// Colour of boxes before refinement.
pub const BEFORE: Colour = [235, 60, 50];
/// Colour of boxes after refinement.
pub const AFTER: Colour = [60, 230, 90];
/// Colour of the bands that hold an edge with probability 0.9.
pub const REGION: Colour = [255, 220, 40];
const BAND: f64 = 0.45;

/// Enlarged part of an image. Drawing takes coordinates in pixels of the whole image.
pub struct Canvas {
    pub image: Image,
    /// `[x, y]` of the upper left corner in the whole image.
    pub origin: [f64; 2],
    /// Factor by which the part is enlarged.
    pub scale: f64,
}

impl Canvas {
    /// Returns a canvas of the whole image.
    pub fn whole(image: Image) -> Self {
        Self { image, origin: [0.0; 2], scale: 1.0 }
    }

    /// Returns a canvas of the part of `image` with this `[left, top, width, height]`, which must lie inside.
    pub fn part(image: &Image, [left, top, width, height]: [usize; 4]) -> Self {
        let row = |y: usize| {
            let at = 3 * ((top + y) * image.width + left);
            &image.pixels[at..at + 3 * width]
        };
        let pixels = (0..height).flat_map(|y| row(y).iter().copied()).collect();
        let image = Image { width, height, pixels };
        Self { image, origin: [left as f64, top as f64], scale: 1.0 }
    }

    /// Repeats every pixel `factor` times in both directions, so that moves of less than a pixel can be seen.
    pub fn enlarged(self, factor: usize) -> Self {
        let Image { width, height, pixels } = &self.image;
        let mut large = Vec::with_capacity(pixels.len() * factor * factor);
        for row in pixels.chunks_exact(3 * width) {
            let wide: Vec<u8> = row.chunks_exact(3).flat_map(|pixel| pixel.repeat(factor)).collect();
            for _ in 0..factor {
                large.extend_from_slice(&wide);
            }
        }
        let image = Image { width: width * factor, height: height * factor, pixels: large };
        Self { image, scale: self.scale * factor as f64, ..self }
    }

    /// Converts an x (axis 0) or y (axis 1) to the canvas.
    fn along(&self, axis: usize, value: f64) -> f64 {
        (value - self.origin[axis]) * self.scale
    }

    /// Converts a box `[x, y, width, height]` to the canvas.
    pub fn place(&self, [x, y, width, height]: [f64; 4]) -> [f64; 4] {
        [self.along(0, x), self.along(1, y), width * self.scale, height * self.scale]
    }

    /// Draws the outline of a box `[x, y, width, height]`, `thickness` pixels of the canvas wide. Parts outside the
    /// canvas are left out, and so is a box that is not finite.
    pub fn outline(&mut self, bbox: [f64; 4], colour: Colour, thickness: usize) {
        if bbox.iter().any(|number| !number.is_finite()) {
            return;
        }
        let [x, y, width, height] = self.place(bbox);
        let [x0, y0, x1, y1] = [x, y, x + width, y + height].map(f64::round);
        let wide = thickness as f64;
        for line in [
            [x0, y0, x1, (y0 + wide).min(y1)],
            [x0, (y1 - wide).max(y0), x1, y1],
            [x0, y0, (x0 + wide).min(x1), y1],
            [(x1 - wide).max(x0), y0, x1, y1],
        ] {
            shade(&mut self.image, line, colour, 1.0);
        }
    }

    /// Paints a density as a heat map, stronger where the density is higher.
    pub fn heat(&mut self, DensityMap { first, step, size, p }: &DensityMap) {
        let highest = p.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        for (i, p) in p.iter().enumerate() {
            let at = |axis: usize, place: usize, half: f64| {
                self.along(axis, first[axis] + (place as f64 + half) * step[axis])
            };
            let [[left, top], [right, bottom]] =
                [-0.5, 0.5].map(|half| [at(0, i % size, half), at(1, i / size, half)]);
            // The square root keeps places visible that are a hundred times less likely.
            shade(&mut self.image, [left, top, right, bottom], BEFORE, (p / highest).sqrt().min(0.9));
        }
    }

    /// Shades the regions of a box's left, top, right and bottom edge, each along the whole side.
    pub fn bands(&mut self, regions: &[Region; 4], [x, y, width, height]: [f64; 4], colour: Colour) {
        for (edge, region) in regions.iter().enumerate() {
            for &[from, to] in &region.intervals {
                let upright = edge % 2 == 0;
                let band = if upright { [from, y, to, y + height] } else { [x, from, x + width, to] };
                let [x0, y0, x1, y1] = [0, 1, 2, 3].map(|edge| self.along(edge % 2, band[edge]));
                // The band is at least a pixel wide.
                shade(&mut self.image, [x0, y0, x1.max(x0 + 1.0), y1.max(y0 + 1.0)], colour, BAND);
            }
        }
    }
}

/// Draws the axes of a head with this yaw, pitch and roll in degrees from the middle of the image: left to right in
/// red, towards the chin in green, and the direction of the face in blue. As in BIWI, a positive yaw looks to the left
/// of the image, a positive pitch upwards, and a positive roll turns the head clockwise.
pub fn axes(image: &mut Image, pose: [f64; 3]) {
    let middle = [image.width as f64 / 2.0, image.height as f64 / 2.0];
    let length = 0.8 * middle[0].min(middle[1]);
    let thickness = (image.height / 100).max(1);
    let steps = (2.0 * length).ceil() as usize;
    for (direction, colour) in projected_axes(pose).into_iter().zip([BEFORE, AFTER, [70, 110, 255]]) {
        for step in 0..=steps {
            let reached = length * step as f64 / steps as f64;
            let [x, y] =
                [0, 1].map(|k| (middle[k] + direction[k] * reached).round() - (thickness / 2) as f64);
            shade(image, [x, y, x + thickness as f64, y + thickness as f64], colour, 1.0);
        }
    }
}

/// Returns the axes of [`axes`] projected to the image, in units of their length, x to the right and y down. They are
/// the first two columns of the transposed rotation that defines BIWI's angles.
fn projected_axes(pose: [f64; 3]) -> [[f64; 2]; 3] {
    let [(sy, cy), (sp, cp), (sr, cr)] = pose.map(|angle| angle.to_radians().sin_cos());
    [[cr * cy, sr * cp - cr * sy * sp], [-sr * cy, cr * cp + sr * sy * sp], [-sy, -cy * sp]]
}

/// Mixes `colour` into the rectangle between two corners, in the image's pixels. Parts outside the image are left out.
fn shade(image: &mut Image, [x0, y0, x1, y1]: [f64; 4], colour: Colour, strength: f64) {
    let range = |from: f64, to: f64, length: usize| {
        let clamp = |value: f64| value.round().clamp(0.0, length as f64) as usize;
        clamp(from)..clamp(to)
    };
    for y in range(y0, y1, image.height) {
        for x in range(x0, x1, image.width) {
            let at = 3 * (y * image.width + x);
            for (value, colour) in image.pixels[at..at + 3].iter_mut().zip(colour) {
                let mixed = f64::from(*value) * (1.0 - strength) + f64::from(colour) * strength;
                *value = mixed.round() as u8;
            }
        }
    }
}

/// Mass of the shaded highest-density region.
pub const LEVEL: f64 = 0.9;

/// Draws the density with its region of mass [`LEVEL`]. `marks` outside its grid are left out.
pub fn density_panel(
    title: &str,
    y_label: &str,
    density: &GridDensity,
    marks: &[(f64, &str)],
) -> Result<Image> {
    let [low, high] = density.range();
    let inside = marks.iter().filter(|(y, _)| (low..=high).contains(y));
    Ok(ebm_plot::render(&DensityCurves {
        title,
        y_label,
        grid: density.points(),
        curves: &[("p(y|x)".to_owned(), density.log_prob_values().iter().map(|log_p| log_p.exp()).collect())],
        regions: &density.highest_density_region(LEVEL)?.intervals,
        marks: &inside.map(|(y, name)| (*y, (*name).to_owned())).collect::<Vec<_>>(),
    })?)
}

/// Height to which [`level`] scales images, in pixels.
const ROW: usize = 240;
/// Space around images, in pixels.
const GAP: usize = 8;

/// Scales images to one height.
pub fn level(images: &[Image]) -> Vec<Image> {
    let scaled = |image: &Image| resize_pillow(image, (image.width * ROW).div_ceil(image.height), ROW);
    images.iter().map(scaled).collect()
}

/// Arranges rows of images below one another on a background of colour `ground`.
pub fn grid(rows: &[Vec<Image>], ground: Colour) -> ebm_data::Result<Image> {
    let width = |row: &Vec<Image>| row.iter().map(|image| image.width + GAP).sum::<usize>();
    let height = |row: &Vec<Image>| row.iter().map(|image| image.height).max().unwrap_or(0) + GAP;
    let widest = rows.iter().map(width).max().unwrap_or(0);
    let mut sheet = Image::filled(GAP + widest, GAP + rows.iter().map(height).sum::<usize>(), ground)?;
    let mut top = GAP;
    for row in rows {
        let mut left = GAP;
        for image in row {
            paste(&mut sheet, image, left, top);
            left += image.width + GAP;
        }
        top += height(row);
    }
    Ok(sheet)
}

/// Copies `image` into `target` with its corner at `(left, top)`. All of it must lie inside `target`.
pub fn paste(target: &mut Image, image: &Image, left: usize, top: usize) {
    for (y, row) in image.pixels.chunks_exact(3 * image.width).enumerate() {
        let at = 3 * ((top + y) * target.width + left);
        target.pixels[at..at + row.len()].copy_from_slice(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn painted(image: &Image) -> Vec<(usize, usize)> {
        let at = |i: usize| (i % image.width, i / image.width);
        let pixels = image.pixels.chunks_exact(3).enumerate();
        pixels.filter(|(_, pixel)| *pixel != [0; 3]).map(|(i, _)| at(i)).collect()
    }

    #[test]
    fn an_outline_is_hollow_and_stays_inside() {
        let mut canvas = Canvas::whole(Image::filled(6, 5, [0; 3]).unwrap());
        canvas.outline([1.0, 1.0, 3.0, 3.0], TRUTH, 1);
        canvas.outline([1.0, f64::NAN, 9.0, 9.0], TRUTH, 1);
        assert_eq!(painted(&canvas.image), [(1, 1), (2, 1), (3, 1), (1, 2), (3, 2), (1, 3), (2, 3), (3, 3)]);
        let mut canvas = Canvas::whole(Image::filled(6, 5, [0; 3]).unwrap());
        canvas.outline([-1e12, -3.0, 1e12 + 2.0, 5.0], TRUTH, 1);
        assert_eq!(painted(&canvas.image), [(1, 0), (0, 1), (1, 1)]);
    }

    #[test]
    fn a_density_is_strongest_at_its_peak() {
        let mut canvas = Canvas::whole(Image::filled(6, 4, [0; 3]).unwrap());
        let p = vec![0.0, 1.0, 0.25, 0.0];
        canvas.heat(&DensityMap { first: [1.0, 1.0], step: [2.0, 2.0], size: 2, p });
        let image = canvas.image;
        assert_eq!(painted(&image), [(2, 0), (3, 0), (2, 1), (3, 1), (0, 2), (1, 2), (0, 3), (1, 3)]);
        let red = |x: usize, y: usize| f64::from(image.pixels[3 * (6 * y + x)]) / f64::from(BEFORE[0]);
        assert!((red(2, 0) - 0.9).abs() < 0.01 && (red(0, 2) - 0.5).abs() < 0.01);
    }

    #[test]
    fn a_shade_is_cut_at_the_border_and_a_cut_is_a_part() {
        let mut image = Image::filled(4, 3, [0; 3]).unwrap();
        shade(&mut image, [2.0, -5.0, 99.0, 1.2], [200, 100, 0], 0.5);
        assert_eq!(painted(&image), [(2, 0), (3, 0)]);
        let part = Canvas::part(&image, [1, 0, 2, 2]).image;
        assert_eq!((part.width, part.height), (2, 2));
        assert_eq!(part.pixels[..6], [0, 0, 0, 100, 50, 0]);
    }

    #[test]
    fn enlarging_repeats_pixels() {
        let image = Image::new(2, 1, vec![1, 2, 3, 4, 5, 6]).unwrap();
        let large = Canvas::whole(image).enlarged(2).image;
        assert_eq!((large.width, large.height), (4, 2));
        assert_eq!(large.pixels[..12], [1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6]);
        assert_eq!(large.pixels[..12], large.pixels[12..]);
    }

    #[test]
    fn axes_point_where_the_head_does() {
        let close = |found: [[f64; 2]; 3], expected: [[f64; 2]; 3]| {
            found.as_flattened().iter().zip(expected.as_flattened()).all(|(a, b)| (a - b).abs() < 1e-12)
        };
        assert!(close(projected_axes([0.0; 3]), [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]));
        assert!(close(projected_axes([90.0, 0.0, 0.0]), [[0.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]));
        assert!(close(projected_axes([0.0, 90.0, 0.0]), [[1.0, 0.0], [0.0, 0.0], [0.0, -1.0]]));
        assert!(close(projected_axes([0.0, 0.0, 90.0]), [[0.0, 1.0], [-1.0, 0.0], [0.0, 0.0]]));
        // A mirror image turns yaw and roll round, and the axes with them.
        let [left, right] = [[30.0, 10.0, 20.0], [-30.0, 10.0, -20.0]].map(projected_axes);
        for (a, b) in left.into_iter().zip(right).skip(1) {
            assert!((a[0] + b[0]).abs() < 1e-12 && (a[1] - b[1]).abs() < 1e-12);
        }
        let mut image = Image::filled(100, 100, [0; 3]).unwrap();
        axes(&mut image, [0.0; 3]);
        let pixel =
            |x: usize, y: usize| <[u8; 3]>::try_from(&image.pixels[3 * (100 * y + x)..][..3]).unwrap();
        assert_eq!([pixel(80, 50), pixel(50, 80), pixel(20, 50)], [BEFORE, AFTER, [0; 3]]);
    }

    #[test]
    fn images_stand_in_rows_and_rows_below_one_another() {
        let images = [Image::filled(120, 60, [9; 3]).unwrap(), Image::filled(30, 60, [200; 3]).unwrap()];
        let row = level(&images);
        let sheet = grid(&[row, images[..1].to_vec()], [255; 3]).unwrap();
        assert_eq!((sheet.width, sheet.height), (8 + 480 + 8 + 120 + 8, 8 + 240 + 8 + 60 + 8));
        let pixel = |x: usize, y: usize| sheet.pixels[3 * (y * sheet.width + x)];
        assert_eq!([pixel(12, 247), pixel(490, 9), pixel(500, 9)], [9, 255, 200]);
        assert_eq!([pixel(7, 9), pixel(127, 300), pixel(128, 300)], [255, 9, 255]);
    }
}
