//! Cropping of image regions.

use crate::Error;
use crate::decode::DecodeLimits;
use crate::image::Image;
use crate::quarantine::{DefectCode, Finding};

/// Returns the region `[x0, y0, x1, y1]` of an image, black beyond the image; or the defect of the region.
pub(super) fn crop(image: &Image, [x0, y0, x1, y1]: [i64; 4]) -> Result<Image, Finding> {
    let say = |what: &str| format!("the region {:?} {what}", [x0, y0, x1, y1]);
    let side = |start: i64, end: i64| end.checked_sub(start).and_then(|side| usize::try_from(side).ok());
    let (Some(width @ 1..), Some(height @ 1..)) = (side(x0, x1), side(y0, y1)) else {
        return Err(Finding::new(DefectCode::BadBox, say("is empty")));
    };
    // Columns or rows of the image that the region shows, and their offset in the region.
    let overlap = |start: i64, end: i64, len: usize| {
        let inside = |place: i64| usize::try_from(place).unwrap_or_default().min(len);
        (inside(start)..inside(end), usize::try_from(start.saturating_neg()).unwrap_or_default())
    };
    let (columns, left) = overlap(x0, x1, image.width);
    let (rows, top) = overlap(y0, y1, image.height);
    if columns.is_empty() || rows.is_empty() {
        let size = format!("has no pixel of the image of {}x{}", image.width, image.height);
        return Err(Finding::new(DefectCode::BadBox, say(&size)));
    }
    let limits = DecodeLimits::default();
    let fits = width.checked_mul(height).is_some_and(|area| area <= limits.max_pixels);
    if width > limits.max_side || height > limits.max_side || !fits {
        let limits = format!("exceeds {} pixels per side or {} in all", limits.max_side, limits.max_pixels);
        return Err(Finding::new(DefectCode::UnreadableImage, say(&limits)));
    }
    let mut pixels = vec![0; 3 * width * height];
    let targets = pixels.chunks_exact_mut(3 * width).skip(top);
    let sources = image.pixels.chunks_exact(3 * image.width).skip(rows.start).take(rows.len());
    for (target, source) in targets.zip(sources) {
        target[3 * left..][..3 * columns.len()].copy_from_slice(&source[3 * columns.start..3 * columns.end]);
    }
    Ok(Image { width, height, pixels })
}

/// Returns the square `[x0, y0, x1, y1]` about the centre of a face's box, half-open, in pixels. Its side is
/// `scale` times the longer side of the box, which is given by its centre, its width and its height.
pub(super) fn square_about([x, y, width, height]: [f64; 4], scale: f64) -> [i64; 4] {
    let side = (scale * width.max(height)).round().max(1.);
    let [x0, y0] = [x, y].map(|centre| (centre - side / 2.).round());
    [x0, y0, x0 + side, y0 + side].map(|corner| corner as i64)
}

/// Crops a face with the box `[x, y, width, height]` from `image`, as the datasets here are cropped. The crop is
/// a square about the box's centre, `scale` times as long as its longer side, black beyond the image.
///
/// # Errors
/// [`Error::Argument`] for a box that has no area, is not finite or lies outside the image, and for a scale that
/// is not positive.
pub fn crop_face(image: &Image, bbox: [f64; 4], scale: f64) -> crate::Result<Image> {
    let [x, y, width, height] = bbox;
    let say = |detail: String| Error::Argument { name: "box", detail };
    if !(bbox.iter().all(|number| number.abs() < 1e9)
        && width > 0.
        && height > 0.
        && scale > 0.
        && scale < 1e3)
    {
        return Err(say(format!("{x},{y},{width},{height} at {scale} times its size has no area")));
    }
    let [columns, rows] = [image.width, image.height].map(|side| side as f64);
    if x + width <= 0. || y + height <= 0. || x >= columns || y >= rows {
        let size = format!("{} wide and {} high", image.width, image.height);
        return Err(say(format!("{x},{y},{width},{height} has no pixel of the image, which is {size}")));
    }
    let region = square_about([x + width / 2., y + height / 2., width, height], scale);
    crop(image, region).map_err(|finding| say(finding.detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> Image {
        Image::new(3, 2, (1..=18).collect()).unwrap()
    }

    fn cropped(region: [i64; 4]) -> Result<Image, Finding> {
        crop(&image(), region)
    }

    #[test]
    fn parts_keep_their_pixels_and_the_rest_is_black() {
        assert_eq!(cropped([0, 0, 3, 2]).unwrap(), image());
        assert_eq!(cropped([1, 1, 2, 2]).unwrap(), Image::new(1, 1, vec![13, 14, 15]).unwrap());
        for (x0, y0, x1, y1) in [(-2, -1, 5, 4), (1, -3, 9, 1), (-4, 1, 2, 2), (2, 0, 3, 2)] {
            let part = cropped([x0, y0, x1, y1]).unwrap();
            assert_eq!((part.width as i64, part.height as i64), (x1 - x0, y1 - y0));
            for (place, pixel) in (0..).zip(part.pixels.chunks_exact(3)) {
                let (x, y) = (x0 + place % (x1 - x0), y0 + place / (x1 - x0));
                let inside = (0..3).contains(&x) && (0..2).contains(&y);
                let expected = if inside { [0, 1, 2].map(|c| (9 * y + 3 * x + c + 1) as u8) } else { [0; 3] };
                assert_eq!(pixel, expected, "{x} {y}");
            }
        }
    }

    #[test]
    fn a_face_is_a_square_about_its_box() {
        let image = Image::new(4, 4, (0..48).collect()).unwrap();
        assert_eq!(crop_face(&image, [0.0, 0.0, 4.0, 2.0], 1.0).unwrap(), crop_region(&image, [0, -1, 4, 3]));
        assert_eq!(crop_face(&image, [1.0, 1.0, 2.0, 2.0], 2.0).unwrap(), image);
        for bad in
            [[0.0, 0.0, 0.0, 2.0], [f64::NAN, 0.0, 1.0, 1.0], [4.0, 0.0, 1.0, 1.0], [-3.0, 0.0, 3.0, 1.0]]
        {
            let error = crop_face(&image, bad, 1.0).unwrap_err().to_string();
            assert!(error.contains("no area") || error.contains("no pixel"), "{error}");
        }
        assert!(crop_face(&image, [1.0, 1.0, 2.0, 2.0], 0.0).is_err());
    }

    fn crop_region(image: &Image, region: [i64; 4]) -> Image {
        crop(image, region).unwrap()
    }

    #[test]
    fn senseless_regions_are_named() {
        let code = |region| cropped(region).unwrap_err().code;
        for empty in [[1, 0, 1, 2], [2, 0, 1, 2], [0, 2, 3, 2], [i64::MAX, 0, i64::MIN, 2]] {
            assert_eq!(code(empty), DefectCode::BadBox);
        }
        for outside in
            [[3, 0, 5, 2], [-4, 0, 0, 2], [0, 2, 3, 9], [0, -5, 3, 0], [i64::MAX - 1, 0, i64::MAX, 1]]
        {
            assert_eq!(code(outside), DefectCode::BadBox);
        }
        for large in [[0, 0, 16385, 1], [-1, -1, 16000, 16000], [-1, 0, i64::MAX - 1, 1]] {
            assert_eq!(code(large), DefectCode::UnreadableImage);
        }
    }
}
