//! Parts of images.

use crate::decode::DecodeLimits;
use crate::image::Image;
use crate::quarantine::{DefectCode, Finding};

/// The part `[x0, y0, x1, y1]` of an image, black beyond it, in `memory`; or why there is none.
pub(super) fn crop(
    image: &Image,
    [x0, y0, x1, y1]: [i64; 4],
    limits: &DecodeLimits,
    memory: Vec<u8>,
) -> Result<Image, Finding> {
    let say = |what: &str| format!("the region {:?} {what}", [x0, y0, x1, y1]);
    let side = |start: i64, end: i64| end.checked_sub(start).and_then(|side| usize::try_from(side).ok());
    let (Some(width @ 1..), Some(height @ 1..)) = (side(x0, x1), side(y0, y1)) else {
        return Err(Finding::new(DefectCode::BoxEmpty, say("is empty")));
    };
    // Columns and rows of the image that the region shows, and where the first of them lies in it.
    let overlap = |start: i64, end: i64, len: usize| {
        let inside = |place: i64| usize::try_from(place).unwrap_or_default().min(len);
        (inside(start)..inside(end), usize::try_from(start.saturating_neg()).unwrap_or_default())
    };
    let (columns, left) = overlap(x0, x1, image.width);
    let (rows, top) = overlap(y0, y1, image.height);
    if columns.is_empty() || rows.is_empty() {
        let size = format!("has no pixel of the image of {}x{}", image.width, image.height);
        return Err(Finding::new(DefectCode::BoxOutside, say(&size)));
    }
    let fits = width.checked_mul(height).is_some_and(|area| area <= limits.max_pixels);
    if width > limits.max_side || height > limits.max_side || !fits {
        let limits = format!("exceeds {} pixels per side or {} in all", limits.max_side, limits.max_pixels);
        return Err(Finding::new(DefectCode::UnreadableImage, say(&limits)));
    }
    let mut pixels = memory;
    pixels.clear();
    pixels.resize(3 * width * height, 0);
    let targets = pixels.chunks_exact_mut(3 * width).skip(top);
    let sources = image.pixels.chunks_exact(3 * image.width).skip(rows.start).take(rows.len());
    for (target, source) in targets.zip(sources) {
        target[3 * left..][..3 * columns.len()].copy_from_slice(&source[3 * columns.start..3 * columns.end]);
    }
    Ok(Image { width, height, pixels })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> Image {
        Image::new(3, 2, (1..=18).collect()).unwrap()
    }

    fn cropped(region: [i64; 4]) -> Result<Image, Finding> {
        crop(&image(), region, &DecodeLimits::default(), vec![7; 100])
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
    fn senseless_regions_are_named() {
        let code = |region| cropped(region).unwrap_err().code;
        for empty in [[1, 0, 1, 2], [2, 0, 1, 2], [0, 2, 3, 2], [i64::MAX, 0, i64::MIN, 2]] {
            assert_eq!(code(empty), DefectCode::BoxEmpty);
        }
        for outside in
            [[3, 0, 5, 2], [-4, 0, 0, 2], [0, 2, 3, 9], [0, -5, 3, 0], [i64::MAX - 1, 0, i64::MAX, 1]]
        {
            assert_eq!(code(outside), DefectCode::BoxOutside);
        }
        for large in [[0, 0, 16385, 1], [-1, -1, 16000, 16000], [-1, 0, i64::MAX - 1, 1]] {
            assert_eq!(code(large), DefectCode::UnreadableImage);
        }
    }
}
