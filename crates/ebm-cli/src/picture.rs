//! Boxes drawn into images.

use ebm_data::Image;

/// An outline colour, RGB.
pub type Colour = [u8; 3];

/// The annotated box.
pub const TRUTH: Colour = [255, 255, 255];
/// A detection before refinement.
pub const BEFORE: Colour = [235, 60, 50];
/// A detection after refinement.
pub const AFTER: Colour = [60, 230, 90];

/// `image` with every pixel repeated `factor` times in both directions, so that sub-pixel moves of a box show.
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

/// Draws the outline of `[x, y, width, height]`, in the image's pixels, `thickness` pixels wide; parts outside the
/// image are left out.
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
    fn enlarging_repeats_pixels() {
        let image = Image::new(2, 1, vec![1, 2, 3, 4, 5, 6]).unwrap();
        let large = enlarge(&image, 2);
        assert_eq!((large.width, large.height), (4, 2));
        assert_eq!(large.pixels[..12], [1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6]);
        assert_eq!(large.pixels[..12], large.pixels[12..]);
    }
}
