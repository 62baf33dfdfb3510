//! What becomes of a face's pixels: closed forms, torch's numbers, and what the random draws cover.

use std::collections::BTreeMap;

use crate::common::{golden, picture};
use ebm_base::Key;
use ebm_data::Image;
use ebm_data::faces::loader::{Augmentation, FaceTransform, Placement};
use ebm_data::resize::resize_pillow;
use ebm_data::transform::{Normalise, Resample, ResizeRule, Transform};
use proptest::prelude::*;
use serde::Deserialize;

fn transform(size: usize) -> FaceTransform {
    FaceTransform { size, normalise: Normalise::IMAGENET, augmentation: None }
}

fn placement(flipped: bool, side: usize, row: usize, column: usize) -> Placement {
    Placement { flipped, side, offset: (row, column) }
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

/// What a sample becomes in a channel.
fn normalised(sample: u8, channel: usize) -> f32 {
    let Normalise { scale, mean, std, .. } = Normalise::IMAGENET;
    (f32::from(sample) * scale - mean[channel]) / std[channel]
}

#[derive(Deserialize)]
struct Golden {
    from: (usize, usize),
    placement: Option<(bool, usize, usize, usize)>,
    data: Vec<f32>,
}

#[test]
fn given_placements_agree_with_torch() {
    let cases: Vec<Golden> =
        serde_json::from_slice(&std::fs::read(golden("face_augment.json")).unwrap()).unwrap();
    assert_eq!(cases.len(), 8);
    for Golden { from, placement: given, data } in cases {
        let place = given.map(|(flipped, side, row, column)| placement(flipped, side, row, column));
        let found = transform(10).apply(&picture(from.0, from.1), place);
        assert_eq!(found.len(), data.len());
        for (index, (found, expected)) in found.iter().zip(data).enumerate() {
            assert!((found - expected).abs() < 4e-6, "{from:?} {given:?} {index}: {found} {expected}");
        }
    }
}

#[test]
fn an_image_of_the_right_size_is_only_normalised() {
    let image = picture(40, 40);
    let expected: Vec<f32> = (0..3)
        .flat_map(|channel| {
            image.pixels.iter().skip(channel).step_by(3).map(move |&s| normalised(s, channel))
        })
        .collect();
    assert_eq!(bits(&transform(40).apply(&image, None)), bits(&expected));
    // A scale of 1, unmirrored, is the identity too.
    assert_eq!(bits(&transform(40).apply(&image, Some(placement(false, 40, 0, 0)))), bits(&expected));
}

#[test]
fn another_size_is_resized_with_antialiasing() {
    for (width, height) in [(90, 31), (12, 50), (40, 41)] {
        let image = picture(width, height);
        let expected = Normalise::IMAGENET.to_chw(&resize_pillow(&image, 40, 40));
        assert_eq!(bits(&transform(40).apply(&image, None)), bits(&expected));
    }
}

#[test]
fn mirroring_a_mirror_image_is_the_identity() {
    for side in [19usize, 24, 31] {
        let (image, offset) = (picture(24, 24), side.saturating_sub(24) / 2);
        let there = transform(24).apply(&image, Some(placement(false, side, offset, offset)));
        let back = transform(24)
            .apply(&crate::common::mirrored(&image), Some(placement(true, side, offset, offset)));
        assert_eq!(bits(&there), bits(&back));
        let mirrored = transform(24).apply(&image, Some(placement(true, side, offset, offset)));
        assert_ne!(there, mirrored);
    }
}

#[test]
fn a_flat_image_stays_flat_and_black_surrounds_it() {
    let (size, color) = (20, [200, 30, 128]);
    let image = Image::filled(size, size, color).unwrap();
    for place in [placement(false, 14, 0, 0), placement(true, 28, 8, 3), placement(false, 20, 0, 0)] {
        let data = transform(size).apply(&image, Some(place));
        for (index, number) in data.into_iter().enumerate() {
            let (channel, y, x) = (index / (size * size), index / size % size, index % size);
            if y < place.side && x < place.side {
                assert!((number - normalised(color[channel], channel)).abs() < 1e-6);
            } else {
                assert_eq!(number.to_bits(), normalised(0, channel).to_bits());
                // Black, (0 − mean) / std, and not the 0 of a mean colour.
                assert!(number < -1.7);
            }
        }
    }
}

#[test]
fn draws_cover_the_published_range() {
    let augmentation = Augmentation::published(vec![1.]);
    assert_eq!((augmentation.flip_probability, augmentation.scale), (0.5, [0.7, 1.4]));
    let (size, count) = (20, 100_000);
    let mut rng = Key::new(1).rng();
    // By the side of the scaled image: how often it came, and how often each row and column.
    let mut sides = BTreeMap::<usize, (usize, Vec<usize>, Vec<usize>)>::new();
    let mut flips = 0;
    for _ in 0..count {
        let Placement { flipped, side, offset: (row, column) } = augmentation.draw(size, &mut rng);
        flips += usize::from(flipped);
        let places = side.saturating_sub(size) + 1;
        let (times, rows, columns) =
            sides.entry(side).or_insert_with(|| (0, vec![0; places], vec![0; places]));
        *times += 1;
        rows[row] += 1;
        columns[column] += 1;
    }
    // 50 000 expected, with a standard deviation of 158.
    assert!((flips as f64 - 5e4).abs() < 800., "{flips}");
    assert_eq!(sides.keys().copied().collect::<Vec<_>>(), (14..=28).collect::<Vec<_>>());
    for (side, (times, rows, columns)) in sides {
        // Of a range of 14 pixels each side has 1, the outermost 1/2.
        let expected = count as f64 / if side == 14 || side == 28 { 28. } else { 14. };
        assert!((times as f64 - expected).abs() < 5. * expected.sqrt(), "{side}: {times} of {expected}");
        for places in [rows, columns] {
            let expected = times as f64 / places.len() as f64;
            // Within five standard deviations, so that none is missing: the range is inclusive.
            assert!(
                places.iter().all(|&n| (n as f64 - expected).abs() <= 5. * expected.sqrt()),
                "{places:?}"
            );
        }
    }
}

#[test]
fn without_a_range_nothing_is_random_but_the_mirror() {
    let draw = |flip_probability, scale| {
        let augmentation = Augmentation { flip_probability, scale, ..Augmentation::published(vec![1.]) };
        let mut rng = Key::new(2).rng();
        (0..100).map(|_| augmentation.draw(64, &mut rng)).collect::<Vec<_>>()
    };
    assert_eq!(draw(0., [1., 1.]), [placement(false, 64, 0, 0); 100]);
    assert_eq!(draw(1., [0.5, 0.5]), [placement(true, 32, 0, 0); 100]);
}

#[test]
fn settings_are_checked() {
    let augmented = |change: fn(&mut Augmentation)| {
        let mut augmentation = Augmentation::published(vec![-1., 1., -1.]);
        change(&mut augmentation);
        FaceTransform { augmentation: Some(augmentation), ..transform(64) }
    };
    assert!(augmented(|_| ()).check().is_ok());
    let said = |transform: FaceTransform, name: &str| {
        transform.check().is_err_and(|error| error.to_string().starts_with(name))
    };
    assert!(said(transform(0), "size") && said(transform(1 << 20), "size"));
    let normalise = Normalise { std: [0.; 3], ..Normalise::IMAGENET };
    assert!(said(FaceTransform { normalise, ..transform(64) }, "normalise"));
    assert!(said(augmented(|a| a.flip_probability = 1.5), "flip_probability"));
    assert!(said(augmented(|a| a.flip_signs[1] = 0.), "flip_signs"));
    assert!(said(augmented(|a| a.flip_signs[1] = f32::NAN), "flip_signs"));
    for scale in [[1.4, 0.7], [0., 1.], [-1., 1.], [f64::NAN, 1.], [0.7, f64::NAN], [0.7, f64::INFINITY]] {
        let mut transform = augmented(|_| ());
        transform.augmentation.as_mut().unwrap().scale = scale;
        assert!(said(transform, "scale"), "{scale:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// What the crop keeps is what the whole resized image shows there, to the last bit.
    #[test]
    fn a_placed_image_is_a_part_of_the_whole(
        size in 1usize..40, low in 0.1f64..1., more in 0f64..1.5, flip in any::<bool>(), seed in any::<u64>(),
    ) {
        let flip_probability = f64::from(u8::from(flip));
        let augmentation = Augmentation { flip_probability, flip_signs: vec![1.], scale: [low, low + more] };
        let place = augmentation.draw(size, &mut Key::new(seed).rng());
        let (image, side) = (picture(size, size), place.side);
        let found = transform(size).apply(&image, Some(place));
        let whole = Transform {
            resize: ResizeRule { short_side: side, max_side: side },
            resample: Resample::TorchBilinear,
            normalise: Normalise::IMAGENET,
        };
        let mirrored = if flip { crate::common::mirrored(&image) } else { image };
        let resized = crate::plain::apply(&whole, &mirrored, (side, side));
        for (index, number) in found.into_iter().enumerate() {
            let (channel, y, x) = (index / (size * size), index / size % size, index % size);
            let (row, column) = (y + place.offset.0, x + place.offset.1);
            let expected = match row < side && column < side {
                true => resized[(channel * side + row) * side + column],
                false => normalised(0, channel),
            };
            prop_assert_eq!(number.to_bits(), expected.to_bits(), "{:?} {} {} {}", place, channel, y, x);
        }
    }

    /// Any placement is answered, also one that nobody would draw.
    #[test]
    fn any_placement_fills_the_square(
        (w, h) in (1usize..20, 1usize..20), side in 0usize..60, row in 0usize..90, column in 0usize..90,
    ) {
        let data = transform(16).apply(&picture(w, h), Some(placement(false, side, row, column)));
        prop_assert!(data.iter().all(|number| number.is_finite()));
        if row >= side || column >= side {
            prop_assert!(data.chunks(256).enumerate().all(|(c, plane)| plane.iter().all(|&n| n == normalised(0, c))));
        }
    }
}
