//! Crops: torch's and OpenCV's numbers, and that the box lies where the target is.

use ebm_data::Image;
use ebm_data::sequences::Rect;
use ebm_data::sequences::crop::{SearchArea, Window};
use proptest::prelude::*;
use serde::Deserialize;

use crate::common::{golden, picture};

#[derive(Deserialize)]
struct Golden {
    image: (usize, usize),
    around: Rect,
    factor: f64,
    size: usize,
    window: (i64, i64, usize),
    torch: Vec<f32>,
    opencv: Vec<i32>,
}

#[test]
fn crops_agree_with_torch_and_opencv() {
    let cases: Vec<Golden> = serde_json::from_slice(&std::fs::read(golden("crop.json")).unwrap()).unwrap();
    assert_eq!(cases.len(), 6);
    for Golden { image, around, factor, size, window: (left, top, side), torch, opencv } in cases {
        let area = SearchArea { factor, size };
        let window = area.window(around).unwrap();
        assert_eq!(window, Window { left, top, side }, "{around:?}");
        let crop = area.crop(&picture(image.0, image.1), around).unwrap();
        assert_eq!((crop.width, crop.height, torch.len()), (size, size, crop.pixels.len()));
        for (place, ((&found, torch), opencv)) in crop.pixels.iter().zip(torch).zip(opencv).enumerate() {
            // Half a level of rounding, and the precision of f32.
            assert!((f32::from(found) - torch).abs() < 0.502, "{around:?} {place}: {found} {torch}");
            assert!((i32::from(found) - opencv).abs() <= 1, "{around:?} {place}: {found} {opencv}");
        }
    }
}

#[test]
fn the_target_itself_lies_in_the_middle() {
    let area = SearchArea::ATOM;
    // Side 5 √(16 · 9) = 60, 288/60 = 4.8.
    let found = area.box_in_crop([10., 20., 16., 9.], [10., 20., 16., 9.]).unwrap();
    let (width, height) = (16. * 4.8, 9. * 4.8);
    let expected = [143.5 - width / 2., 143.5 - height / 2., width, height];
    assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-4), "{found:?}");
    // Moved by 3 to the left of the crop's own box, by 2 below it.
    let moved = area.box_in_crop([7., 22., 16., 9.], [10., 20., 16., 9.]).unwrap();
    assert!((found[0] - moved[0] - 14.4).abs() < 1e-4 && (moved[1] - found[1] - 9.6).abs() < 1e-4);
}

#[test]
fn what_is_no_target_is_refused() {
    let area = SearchArea::ATOM;
    for around in [
        [0., 0., 0., 5.],
        [0., 0., -2., -5.],
        [f64::NAN, 0., 2., 5.],
        [0., 0., f64::NAN, 5.],
        [1e300, 0., 2., 5.],
        [0., 0., 1e200, 1e200],
        [0., 0., 1e6, 1e6],
        [0., 0., f64::INFINITY, 1.],
    ] {
        assert!(
            area.window(around).is_err() && area.box_in_crop([0., 0., 1., 1.], around).is_err(),
            "{around:?}"
        );
    }
    let image = Image::filled(4, 3, [9; 3]).unwrap();
    let refused = |area: SearchArea, image: &Image| area.crop(image, [-1000., 0., 1., 1.]).is_err();
    assert!(!refused(area, &image));
    assert!(refused(area, &Image { width: 0, height: 3, pixels: Vec::new() }));
    assert!(refused(SearchArea { factor: 5., size: 0 }, &image));
    assert!(SearchArea { factor: 0., size: 3 }.check().is_err());
    assert!(SearchArea { factor: 5., size: 0 }.check().is_err());
}

/// The sub-pixel extent of the bright part along a line of samples: where it crosses half of the brightness.
fn extent(samples: &[f64]) -> (f64, f64) {
    let crossing = |i: usize| i as f64 + 0.5 + (127.5 - samples[i]) / (samples[i + 1] - samples[i]);
    let first = (0..samples.len() - 1).find(|&i| samples[i] < 127.5 && samples[i + 1] >= 127.5).unwrap();
    let last = (0..samples.len() - 1).rfind(|&i| samples[i] >= 127.5 && samples[i + 1] < 127.5).unwrap();
    (crossing(first), crossing(last))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// A bright rectangle is painted, cropped around a box nearby, and found again.
    #[test]
    fn the_box_lies_where_the_target_is(
        (x, y, width, height) in (15usize..60, 15usize..60, 5usize..25, 5usize..25),
        (dx, dy, grow) in (-0.5..0.5f64, -0.5..0.5f64, 0.8..1.6f64),
    ) {
        let (columns, rows) = (100, 90);
        let mut image = Image::filled(columns, rows, [0; 3]).unwrap();
        for (row, column) in (y..y + height).flat_map(|row| (x..x + width).map(move |column| (row, column))) {
            image.pixels[3 * (row * columns + column)..][..3].fill(255);
        }
        let target = [x as f64, y as f64, width as f64, height as f64];
        let (w, h) = (target[2] * grow, target[3] * grow);
        let around = [target[0] + dx * w, target[1] + dy * h, w, h];
        let area = SearchArea { factor: 5., size: 144 };
        let window = area.window(around).unwrap();
        // A narrow box beside a long target leaves its ends out.
        prop_assume!([window.left, window.top].iter().enumerate().all(|(axis, &corner)| {
            let (start, end) = (target[axis] - corner as f64, target[axis] + target[axis + 2] - corner as f64);
            start >= 1. && end <= window.side as f64 - 1.
        }));
        let scale = area.size as f64 / window.side as f64;
        let crop = area.crop(&image, around).unwrap();
        let found = area.box_in_crop(target, around).unwrap().map(f64::from);
        let middle = |axis: usize| (found[axis] + found[axis + 2] / 2. + 0.5) as usize;
        let at = |row: usize, column: usize| f64::from(crop.pixels[3 * (row * area.size + column)]);
        let across: Vec<f64> = (0..area.size).map(|column| at(middle(1), column)).collect();
        let down: Vec<f64> = (0..area.size).map(|row| at(row, middle(0))).collect();
        for (axis, samples, corner) in [(0, across, window.left), (1, down, window.top)] {
            let (start, end) = extent(&samples);
            // Exactly: pixel k of the crop covers k to k + 1, and the window is made of whole pixels.
            let exact = |place: f64| (place - corner as f64) * scale;
            prop_assert!((start - exact(target[axis])).abs() < 0.5, "{start} {}", exact(target[axis]));
            prop_assert!((end - exact(target[axis] + target[axis + 2])).abs() < 0.5);
            // By ATOM's rule: half a pixel less, and what the rounding of the corner makes.
            let rounding = 0.5 * scale;
            prop_assert!((start - 0.5 - found[axis]).abs() < rounding + 0.5, "{start} {found:?}");
            prop_assert!((end - 0.5 - found[axis] - found[axis + 2]).abs() < rounding + 0.5);
        }
    }
}
