//! Boxes drawn into images, and images side by side.

use ebm_data::{Image, resize::resize_pillow};

/// An outline colour, RGB.
pub type Colour = [u8; 3];

/// The annotated box.
pub const TRUTH: Colour = [255, 255, 255];
/// A detection before refinement.
pub const BEFORE: Colour = [235, 60, 50];
/// A detection after refinement.
pub const AFTER: Colour = [60, 230, 90];

/// `image` with every pixel repeated `factor` times in both directions, so that sub-pixel moves of a box
/// show.
pub fn enlarge(image: &Image, factor: usize) -> Image {
    let mut pixels = Vec::with_capacity(image.pixels.len() * factor * factor);
    for row in image.pixels.chunks_exact(3 * image.width) {
        let wide: Vec<u8> = row.chunks_exact(3).flat_map(|pixel| pixel.repeat(factor)).collect();
        for _ in 0..factor {
            pixels.extend_from_slice(&wide);
        }
    }
    Image { width: image.width * factor, height: image.height * factor, pixels }
}

/// Draws the outline of `[x, y, width, height]`, in the image's pixels, `thickness` pixels wide; parts
/// outside the image are left out.
pub fn outline(image: &mut Image, [x, y, width, height]: [f64; 4], colour: Colour, thickness: usize) {
    let (x0, y0) = (x.round() as i64, y.round() as i64);
    let (x1, y1) = ((x + width).round() as i64 - 1, (y + height).round() as i64 - 1);
    for inset in 0..thickness as i64 {
        let (left, right, top, bottom) = (x0 + inset, x1 - inset, y0 + inset, y1 - inset);
        if left > right || top > bottom {
            return;
        }
        // Clamped one pixel beyond the image: a box of any size costs no more than the image's sides.
        let columns = left.max(0)..=right.min(image.width as i64 - 1);
        let rows = top.max(0)..=bottom.min(image.height as i64 - 1);
        for column in columns {
            put(image, column, top, colour);
            put(image, column, bottom, colour);
        }
        for row in rows {
            put(image, left, row, colour);
            put(image, right, row, colour);
        }
    }
}

fn put(image: &mut Image, x: i64, y: i64, colour: Colour) {
    if (0..image.width as i64).contains(&x) && (0..image.height as i64).contains(&y) {
        let at = 3 * (y as usize * image.width + x as usize);
        image.pixels[at..at + 3].copy_from_slice(&colour);
    }
}

/// Draws the axes of a head with this yaw, pitch and roll in degrees from the middle of the image: its
/// left-to-right axis in red, the one towards the chin in green, and in blue where the face looks. As in
/// BIWI, a positive yaw looks to the left of the image, a positive pitch upwards, and a positive roll turns
/// the head clockwise.
pub fn axes(image: &mut Image, pose: [f64; 3]) {
    let middle = [image.width as f64 / 2.0, image.height as f64 / 2.0];
    let length = 0.4 * middle[0].min(middle[1]) * 2.0;
    let thickness = (image.height / 100).max(1) as i64;
    for (direction, colour) in projected_axes(pose).into_iter().zip([BEFORE, AFTER, [70, 110, 255]]) {
        let steps = (2.0 * length).ceil() as i64;
        for step in 0..=steps {
            let [x, y] = [0, 1].map(|k| middle[k] + direction[k] * length * step as f64 / steps as f64);
            for (dx, dy) in (0..thickness).flat_map(|dx| (0..thickness).map(move |dy| (dx, dy))) {
                put(
                    image,
                    x.round() as i64 + dx - thickness / 2,
                    y.round() as i64 + dy - thickness / 2,
                    colour,
                );
            }
        }
    }
}

/// The axes of [`axes`] as seen from the front, in units of their length, x to the right and y down: the
/// first two columns of the transposed rotation that BIWI's angles are defined by.
fn projected_axes(pose: [f64; 3]) -> [[f64; 2]; 3] {
    let [(sy, cy), (sp, cp), (sr, cr)] = pose.map(|angle| angle.to_radians().sin_cos());
    [[cr * cy, sr * cp - cr * sy * sp], [-sr * cy, cr * cp + sr * sy * sp], [-sy, -cy * sp]]
}

/// `size × size` points, the first of them at `first` and the others `step` apart (x, y).
#[derive(Clone, Copy)]
pub struct Points {
    pub first: [f64; 2],
    pub step: [f64; 2],
    pub size: usize,
}

/// Paints a density over points over the image: the more likely, the more of the colour.
pub fn heat(image: &mut Image, Points { first, step, size }: Points, p: &[f64]) {
    let highest = p.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let nearest = |position: usize, axis: usize| {
        let place = ((position as f64 - first[axis]) / step[axis]).round();
        (place >= 0.0 && place < size as f64).then_some(place as usize)
    };
    for y in 0..image.height {
        let Some(row) = nearest(y, 1) else { continue };
        for x in 0..image.width {
            let Some(column) = nearest(x, 0) else { continue };
            // The square root, so that what is a hundred times less likely is still seen.
            let strength = (p[row * size + column] / highest).sqrt().min(0.9);
            mix(image, x, y, BEFORE, strength);
        }
    }
}

/// Draws where a density as in [`heat`] crosses `level`, linear between its points.
pub fn contour(image: &mut Image, points: Points, p: &[f64], level: f64, colour: Colour) {
    let Points { first, step, size } = points;
    let at = |x: usize, y: usize| -> f64 {
        let place = [x, y].map(|v| v as f64 + 0.5);
        let [column, row] = [0, 1].map(|axis| (place[axis] - first[axis]) / step[axis]);
        let last = (size - 1) as f64;
        if !((0.0..=last).contains(&column) && (0.0..=last).contains(&row)) {
            return 0.0;
        }
        let (i, j) = (column.floor().min(last - 1.0) as usize, row.floor().min(last - 1.0) as usize);
        let (u, v) = (column - i as f64, row - j as f64);
        let of = |i: usize, j: usize| p[j * size + i];
        (1.0 - v) * ((1.0 - u) * of(i, j) + u * of(i + 1, j))
            + v * ((1.0 - u) * of(i, j + 1) + u * of(i + 1, j + 1))
    };
    let inside: Vec<bool> =
        (0..image.width * image.height).map(|i| at(i % image.width, i / image.width) >= level).collect();
    for y in 0..image.height {
        for x in 0..image.width {
            let here = inside[y * image.width + x];
            let right = x + 1 < image.width && inside[y * image.width + x + 1] != here;
            let below = y + 1 < image.height && inside[(y + 1) * image.width + x] != here;
            if right || below {
                put(image, x as i64, y as i64, colour);
            }
        }
    }
}

/// Mixes `colour` into the rectangle between two corners, in the image's pixels; parts outside it are left
/// out.
pub fn shade(image: &mut Image, [x0, y0, x1, y1]: [f64; 4], colour: Colour, strength: f64) {
    let range = |from: f64, to: f64, length: usize| {
        let clamp = |value: f64| value.round().clamp(0.0, length as f64) as usize;
        clamp(from)..clamp(to)
    };
    for y in range(y0, y1, image.height) {
        for x in range(x0, x1, image.width) {
            mix(image, x, y, colour, strength);
        }
    }
}

fn mix(image: &mut Image, x: usize, y: usize, colour: Colour, strength: f64) {
    let at = 3 * (y * image.width + x);
    for (value, colour) in image.pixels[at..at + 3].iter_mut().zip(colour) {
        *value = (f64::from(*value) * (1.0 - strength) + f64::from(colour) * strength).round() as u8;
    }
}

/// The part of `image` from `(left, top)` on, of this width and height, which must lie inside.
pub fn cut(image: &Image, left: usize, top: usize, width: usize, height: usize) -> Image {
    let row = |y: usize| {
        let at = 3 * ((top + y) * image.width + left);
        &image.pixels[at..at + 3 * width]
    };
    Image { width, height, pixels: (0..height).flat_map(|y| row(y).iter().copied()).collect() }
}

/// The height of a row of panels.
const ROW: usize = 240;
/// White space between panels.
const GAP: usize = 8;

/// An image and panels in one row, all scaled to the same height.
pub fn beside(image: &Image, panels: &[Image]) -> ebm_data::Result<Image> {
    let scaled: Vec<Image> = std::iter::once(image)
        .chain(panels)
        .map(|image| resize_pillow(image, (image.width * ROW).div_ceil(image.height), ROW))
        .collect();
    in_row(&scaled, GAP)
}

/// Images side by side as they are, on white.
pub fn row(images: &[Image]) -> ebm_data::Result<Image> {
    in_row(images, 0)
}

/// Images in one row, with this much white on the right and below.
fn in_row(images: &[Image], margin: usize) -> ebm_data::Result<Image> {
    let height = images.iter().map(|image| image.height).max().unwrap_or(0);
    let width = images.iter().map(|image| image.width + GAP).sum::<usize>().saturating_sub(GAP);
    let mut row = Image::filled(width + margin, height + margin, [255; 3])?;
    let mut left = 0;
    for image in images {
        paste(&mut row, image, left, 0);
        left += image.width + GAP;
    }
    Ok(row)
}

/// Images below one another, on white.
pub fn stack(images: &[Image]) -> ebm_data::Result<Image> {
    let width = images.iter().map(|image| image.width).max().unwrap_or(0);
    let mut sheet = Image::filled(width, images.iter().map(|image| image.height).sum(), [255; 3])?;
    let mut top = 0;
    for image in images {
        paste(&mut sheet, image, 0, top);
        top += image.height;
    }
    Ok(sheet)
}

/// Copies `image` with its corner at `(left, top)`, where all of it must lie inside `target`.
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
        let mut image = Image::filled(6, 5, [0; 3]).unwrap();
        outline(&mut image, [1.0, 1.0, 3.0, 3.0], TRUTH, 1);
        assert_eq!(painted(&image), [(1, 1), (2, 1), (3, 1), (1, 2), (3, 2), (1, 3), (2, 3), (3, 3)]);
        let mut image = Image::filled(6, 5, [0; 3]).unwrap();
        outline(&mut image, [-1e12, -3.0, 1e12 + 2.0, 5.0], TRUTH, 1);
        assert_eq!(painted(&image), [(1, 0), (0, 1), (1, 1)]);
    }

    #[test]
    fn a_contour_goes_round_what_exceeds_the_level() {
        // A cone about the middle of 41 × 41 points, one for each pixel's centre: the level 10 is a circle of
        // radius 10.
        let p: Vec<f64> =
            (0..41 * 41).map(|i| 20.0 - f64::from(i % 41 - 20).hypot(f64::from(i / 41 - 20))).collect();
        let mut image = Image::filled(41, 41, [0; 3]).unwrap();
        contour(&mut image, Points { first: [0.5; 2], step: [1.0; 2], size: 41 }, &p, 10.0, TRUTH);
        let ring = painted(&image);
        assert!(ring.len() > 50);
        for (x, y) in ring {
            let radius = (x as f64 - 20.0).hypot(y as f64 - 20.0);
            assert!((8.5..11.5).contains(&radius), "({x}, {y})");
        }
    }

    #[test]
    fn a_shade_is_cut_at_the_border_and_a_cut_is_a_part() {
        let mut image = Image::filled(4, 3, [0; 3]).unwrap();
        shade(&mut image, [2.0, -5.0, 99.0, 1.2], [200, 100, 0], 0.5);
        assert_eq!(painted(&image), [(2, 0), (3, 0)]);
        let part = cut(&image, 1, 0, 2, 2);
        assert_eq!((part.width, part.height), (2, 2));
        assert_eq!(part.pixels[..6], [0, 0, 0, 100, 50, 0]);
    }

    #[test]
    fn enlarging_repeats_pixels() {
        let image = Image::new(2, 1, vec![1, 2, 3, 4, 5, 6]).unwrap();
        let large = enlarge(&image, 2);
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
    fn panels_stand_in_rows_and_rows_below_one_another() {
        let image = Image::filled(120, 60, [9; 3]).unwrap();
        let row = beside(&image, &[Image::filled(30, 60, [200; 3]).unwrap()]).unwrap();
        assert_eq!((row.width, row.height), (480 + 8 + 120 + 8, 248));
        let pixel = |image: &Image, x: usize, y: usize| image.pixels[3 * (y * image.width + x)];
        assert_eq!([pixel(&row, 5, 239), pixel(&row, 484, 3), pixel(&row, 490, 3)], [9, 255, 200]);
        let sheet = stack(&[row.clone(), image]).unwrap();
        assert_eq!((sheet.width, sheet.height), (616, 308));
        assert_eq!([pixel(&sheet, 119, 300), pixel(&sheet, 120, 300)], [9, 255]);
    }
}
