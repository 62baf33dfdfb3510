//! The resize rule, the filters, mirroring, normalisation and padding.

use crate::common::{golden, picture};
use ebm_data::Image;
use ebm_data::resize::{resize_pillow, resize_pillow_box};
use ebm_data::transform::{
    ChannelOrder, Normalise, Resample, ResizeRule, Transform, flip_boxes, padded_size, resize_boxes,
};
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    pillow: Vec<Pillow>,
    r#box: Vec<Pillow>,
    torch: Vec<Torch>,
    /// width, height, short side, long side, rows and columns by maskrcnn-benchmark, by torchvision.
    sizes: Vec<[usize; 8]>,
}

#[derive(Deserialize)]
struct Pillow {
    from: (usize, usize),
    to: (usize, usize),
    pixels: Vec<u8>,
}

#[derive(Deserialize)]
struct Torch {
    from: (usize, usize),
    rule: (usize, usize),
    size: (usize, usize),
    padded: (usize, usize),
    data: Vec<f32>,
    boxes: [f32; 4],
}

fn load() -> Golden {
    serde_json::from_slice(&std::fs::read(golden("resize.json")).unwrap()).unwrap()
}

const PAPER: ResizeRule = ResizeRule { short_side: 800, max_side: 1333 };

#[test]
fn the_rule_gives_the_published_sizes() {
    let size = |width, height| PAPER.output_size(height, width, Resample::Pillow);
    assert_eq!(size(640, 480), (800, 1066));
    assert_eq!(size(500, 375), (800, 1066));
    assert_eq!(size(640, 360), (750, 1333));
    assert_eq!(size(1000, 300), (400, 1333));
    assert_eq!(size(480, 640), (1066, 800));
}

#[test]
fn the_rules_agree_with_both_libraries() {
    let sizes = load().sizes;
    assert_eq!(sizes.len(), 416);
    for [w, h, short_side, max_side, pillow_h, pillow_w, torch_h, torch_w] in sizes {
        let rule = ResizeRule { short_side, max_side };
        assert_eq!(rule.output_size(h, w, Resample::Pillow), (pillow_h, pillow_w), "{w}x{h}");
        assert_eq!(rule.output_size(h, w, Resample::TorchBilinear), (torch_h, torch_w), "{w}x{h}");
    }
}

#[test]
fn pillow_filters_are_exact() {
    let golden = load();
    for (cases, resize) in [
        (golden.pillow, resize_pillow as fn(&Image, usize, usize) -> Image),
        (golden.r#box, resize_pillow_box),
    ] {
        assert!(cases.len() >= 9);
        for Pillow { from, to, pixels } in cases {
            let resized = resize(&picture(from.0, from.1), to.0, to.1);
            assert_eq!((resized.width, resized.height), to);
            assert_eq!(resized.pixels, pixels, "{from:?} to {to:?}");
        }
    }
}

#[test]
fn torchvision_transform_is_matched() {
    for case in load().torch {
        let resize = ResizeRule { short_side: case.rule.0, max_side: case.rule.1 };
        let transform = Transform { resize, ..Transform::TORCHVISION };
        let (data, size) = transform.apply(&picture(case.from.0, case.from.1));
        assert_eq!(size, case.size);
        assert_eq!(padded_size([size]), case.padded);
        for (index, &expected) in case.data.iter().enumerate() {
            let (rest, x) = (index / case.padded.1, index % case.padded.1);
            let (c, y) = (rest / case.padded.0, rest % case.padded.0);
            let inside = y < size.0 && x < size.1;
            let found = if inside { data[(c * size.0 + y) * size.1 + x] } else { 0. };
            assert!((found - expected).abs() < 4e-6, "{:?} {c} {y} {x}: {found} {expected}", case.from);
        }
        let boxes = resize_boxes(&[[1., 2., 7.5, 8.25]], (case.from.1, case.from.0), size);
        assert!(boxes[0].iter().zip(case.boxes).all(|(a, b)| (a - b).abs() < 1e-5));
    }
}

#[test]
fn channels_are_ordered_and_normalised() {
    let image = Image::new(2, 1, vec![10, 20, 30, 40, 50, 60]).unwrap();
    let mut normalise =
        Normalise { order: ChannelOrder::Bgr, scale: 2., mean: [1., 2., 3.], std: [1., 2., 4.] };
    assert_eq!(normalise.to_chw(&image), [59., 119., 19., 49., 4.25, 19.25]);
    normalise.order = ChannelOrder::Rgb;
    assert_eq!(normalise.to_chw(&image), [19., 79., 19., 49., 14.25, 29.25]);
}

/// torchvision's filter without normalisation.
fn unfiltered(short_side: usize, max_side: usize) -> Transform {
    let normalise = Normalise { order: ChannelOrder::Rgb, scale: 1., mean: [0.; 3], std: [1.; 3] };
    Transform { resize: ResizeRule { short_side, max_side }, resample: Resample::TorchBilinear, normalise }
}

#[test]
fn a_linear_ramp_stays_linear() {
    // Interpolation reproduces a linear function away from the borders: f(x) = x at pixel centres x + 1/2.
    let ramp: Vec<u8> = (0..10u8).flat_map(|x| [x, 2 * x, 255 - x]).collect();
    let (data, size) = unfiltered(3, 25).apply(&Image::new(10, 1, ramp).unwrap());
    assert_eq!(size, (2, 25));
    for row in 0..2 {
        for x in 2..23 {
            let expected = (x as f32 + 0.5) / 2.5 - 0.5;
            for (plane, expected) in [expected, 2. * expected, 255. - expected].into_iter().enumerate() {
                assert!((data[(2 * plane + row) * 25 + x] - expected).abs() < 5e-5);
            }
        }
    }
}

#[test]
fn batches_are_padded_to_32() {
    assert_eq!(padded_size([(750, 1333), (800, 1066)]), (800, 1344));
    assert_eq!(padded_size([(32, 33)]), (32, 64));
}

#[test]
fn settings_are_checked() {
    assert!(Transform::MASKRCNN_BENCHMARK.check().is_ok());
    let mut transform = Transform::TORCHVISION;
    transform.resize.short_side = 0;
    assert!(transform.check().unwrap_err().to_string().contains("short_side 0"));
    let mut transform = Transform::TORCHVISION;
    transform.normalise.std[1] = 0.;
    assert!(transform.check().is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_rule_keeps_its_promises(h in 1usize..5000, w in 1usize..5000, short in 16usize..1000, extra in 0usize..800) {
        let rule = ResizeRule { short_side: short, max_side: short + extra };
        let (low, high) = (h.min(w) as f64, h.max(w) as f64);
        for resample in [Resample::Pillow, Resample::TorchBilinear] {
            let (new_h, new_w) = rule.output_size(h, w, resample);
            let (new_low, new_high) = (new_h.min(new_w), new_h.max(new_w));
            // Orientation is kept and turning the image turns the size.
            let kept = if h <= w { new_h <= new_w } else { new_w <= new_h };
            prop_assert!(kept);
            prop_assert_eq!(rule.output_size(w, h, resample), (new_w, new_h));
            prop_assert!(new_low >= 1 && new_low <= short);
            match resample {
                Resample::TorchBilinear => prop_assert!(new_high <= rule.max_side),
                Resample::Pillow => prop_assert!(new_high as f64 <= rule.max_side as f64 + 0.5 * high / low),
            }
            // Where the limit does not bind, the short side is met (torchvision may lose 1 to rounding).
            if high / low * short as f64 <= rule.max_side as f64 {
                prop_assert!(new_low == short || resample == Resample::TorchBilinear && new_low + 1 == short);
            }
        }
    }

    #[test]
    fn mirroring_twice_is_the_identity(w in 1usize..40, h in 1usize..20, x in 0u16..1000, y in 0u16..1000) {
        let image = picture(w, h);
        let flipped = crate::common::mirrored(&image);
        prop_assert_eq!(&flipped.pixels[..3], &image.pixels[3 * (w - 1)..3 * w]);
        prop_assert_eq!(crate::common::mirrored(&flipped), image);
        // Sixteenths are exact in f32, so that the boxes return exactly.
        let bbox = [f32::from(x) / 16., f32::from(y) / 16., f32::from(x) / 16. + 3.5, f32::from(y) / 16. + 1.];
        let once = flip_boxes(&[bbox], w);
        prop_assert_eq!(once[0][2] - once[0][0], 3.5);
        prop_assert_eq!(flip_boxes(&once, w), vec![bbox]);
    }

    #[test]
    fn flat_images_stay_flat(w in 1usize..30, h in 1usize..30, new_w in 1usize..60, new_h in 1usize..60, v in 0u8..) {
        let flat = Image::filled(w, h, [v, 255 - v, 7]).unwrap();
        let resized = resize_pillow(&flat, new_w, new_h);
        prop_assert_eq!(resized, Image::filled(new_w, new_h, [v, 255 - v, 7]).unwrap());
        let (data, size) = unfiltered(new_w, new_w + new_h).apply(&flat);
        for (plane, value) in data.chunks_exact(size.0 * size.1).zip([v, 255 - v, 7]) {
            prop_assert!(plane.iter().all(|&p| (p - f32::from(value)).abs() < 1e-4));
        }
    }

    #[test]
    fn the_fast_ways_equal_the_plain_ones(w in 1usize..70, h in 1usize..70, new_w in 1usize..90, new_h in 1usize..90) {
        let image = picture(w, h);
        prop_assert_eq!(resize_pillow(&image, new_w, new_h), crate::plain::pillow(&image, new_w, new_h));
        for resample in [Resample::Pillow, Resample::TorchBilinear] {
            for normalise in [Normalise::CAFFE2, Normalise::IMAGENET] {
                let resize = ResizeRule { short_side: new_w, max_side: new_w.max(new_h) };
                let transform = Transform { resize, resample, normalise };
                let (data, size) = transform.apply(&image);
                let expected = crate::plain::apply(&transform, &image, size);
                prop_assert!(data.len() == expected.len());
                // Equal bits.
                prop_assert!(data.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()), "{transform:?}");
            }
        }
    }
}
