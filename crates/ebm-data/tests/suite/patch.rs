//! Patches of images and the views of a first frame: torch's numbers and closed forms.

use crate::common::{golden, picture};
use ebm_base::Key;
use ebm_data::patch::{PatchGeometry, PatchSampler, PatchTransform, PatchView, first_frame_views};
use ebm_data::transform::Normalise;
use ebm_data::{Error, Image};
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    samples: Vec<Sample>,
    views: Vec<View>,
}

#[derive(Deserialize)]
struct Sample {
    image: (usize, usize),
    center: [f64; 2],
    size: f64,
    output: usize,
    data: Vec<f32>,
}

#[derive(Deserialize)]
struct View {
    side: usize,
    output: usize,
    transform: Vec<serde_json::Value>,
    shift: [i32; 2],
    data: Vec<f32>,
}

fn goldens() -> Golden {
    serde_json::from_slice(&std::fs::read(golden("patch.json")).unwrap()).unwrap()
}

fn assert_close(found: &[f32], expected: &[f32], tolerance: f32, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= tolerance, "{what}, {index}: {found} against {expected}");
    }
}

/// The planes of [`picture`].
fn planes(side: usize) -> Vec<f32> {
    Normalise::IDENTITY.to_chw(&picture(side, side))
}

fn view(transform: PatchTransform, shift: [i32; 2]) -> PatchView {
    PatchView { transform, shift }
}

/// The patch `(3, output, output)` of an image that [`PatchGeometry::new`] describes, in samples of 0 to 255.
fn sample_patch(
    image: &Image,
    center: [f64; 2],
    sample_size: f64,
    output: usize,
) -> Result<(Vec<f32>, PatchGeometry), Error> {
    let geometry = PatchGeometry::new(center, sample_size, output)?;
    let mut planes = vec![0.; 3 * output * output];
    PatchSampler::new(&Normalise::IDENTITY)?.sample(image, &geometry, &mut planes)?;
    Ok((planes, geometry))
}

#[test]
fn patches_agree_with_torch() {
    let samples = goldens().samples;
    assert_eq!(samples.len(), 11);
    for Sample { image: (width, height), center, size, output, data } in samples {
        let (found, _) = sample_patch(&picture(width, height), center, size, output).unwrap();
        assert_close(&found, &data, 1e-3, &format!("{center:?} {size}"));
    }
}

#[test]
fn views_agree_with_torch() {
    let views = goldens().views;
    assert_eq!(views.len(), 8);
    for View { side, output, transform, shift, data } in views {
        let number = |index: usize| transform[index].as_f64().unwrap();
        let transform = match transform[0].as_str().unwrap() {
            "identity" => PatchTransform::Identity,
            "flip" => PatchTransform::FlipHorizontal,
            "blur" => PatchTransform::Blur { sigma: [number(1), number(2)] },
            "rotate" => PatchTransform::Rotate { degrees: number(1) },
            other => panic!("{other}"),
        };
        let found = view(transform, shift).apply(&planes(side), side, output).unwrap();
        assert_close(&found, &data, 2e-3, &format!("{transform:?} {shift:?}"));
    }
}

#[test]
fn a_patch_of_the_same_size_is_cut_out() {
    let image = picture(40, 30);
    let (patch, geometry) = sample_patch(&image, [12.7, 20.2], 9., 9).unwrap();
    assert_eq!((geometry.scale(), geometry.to_image([0., 0.])), (1., [8., 16.]));
    for (c, plane) in patch.chunks_exact(81).enumerate() {
        for (index, &number) in plane.iter().enumerate() {
            let (y, x) = (8 + index / 9, 16 + index % 9);
            assert_eq!(number, f32::from(image.pixels[3 * (40 * y + x) + c]));
        }
    }
}

#[test]
fn outside_the_image_its_corner_repeats() {
    let image = picture(40, 30);
    for (center, corner) in [([-500., -90.], 0), ([1e6, 1e6], 40 * 30 - 1), ([-500., 7000.], 39)] {
        let (patch, _) = sample_patch(&image, center, 61., 16).unwrap();
        for (c, plane) in patch.chunks_exact(256).enumerate() {
            // Every third pixel is taken, so that the last one taken is up to two from the border.
            let near = |number: f32| {
                image.pixels.iter().skip(c).step_by(3).enumerate().any(|(index, &sample)| {
                    let (dx, dy) = ((index % 40).abs_diff(corner % 40), (index / 40).abs_diff(corner / 40));
                    dx < 3 && dy < 3 && f32::from(sample) == number
                })
            };
            assert!(near(plane[0]) && plane.iter().all(|&number| number == plane[0]), "{center:?}");
        }
    }
}

/// A bilinear patch of a ramp is the ramp at the place that the geometry tells.
#[test]
fn the_geometry_tells_where_pixels_come_from() {
    let mut image = Image::filled(200, 180, [0; 3]).unwrap();
    for (index, pixel) in image.pixels.chunks_exact_mut(3).enumerate() {
        pixel.copy_from_slice(&[(index % 200) as u8, (index / 200) as u8, 7]);
    }
    for size in [20., 41., 64., 66., 67., 110., 113.] {
        let (patch, geometry) = sample_patch(&image, [91., 99.], size, 32).unwrap();
        for index in 0..32 * 32 {
            let [row, column] = geometry.to_image([(index / 32) as f64, (index % 32) as f64]);
            // Enlarged, the outermost pixels lie beyond the first sample, which repeats.
            let inside = size >= 32. || (1..31).contains(&(index / 32)) && (1..31).contains(&(index % 32));
            if inside {
                assert!((f64::from(patch[index]) - column).abs() < 1e-3, "{size} {index}");
                assert!((f64::from(patch[1024 + index]) - row).abs() < 1e-3, "{size} {index}");
            }
            assert_eq!(patch[2048 + index], 7.);
        }
    }
}

#[test]
fn a_sampler_normalises_and_forgets_what_it_did_before() {
    let geometry = PatchGeometry::new([5., 8.], 33., 12).unwrap();
    let (image, mut planes) = (picture(40, 30), vec![f32::NAN; 3 * 144]);
    let mut sampler = PatchSampler::new(&Normalise::IMAGENET).unwrap();
    sampler.sample(&picture(64, 3), &geometry, &mut planes).unwrap();
    planes.fill(f32::NAN);
    sampler.sample(&image, &geometry, &mut planes).unwrap();
    let (plain, _) = sample_patch(&image, [5., 8.], 33., 12).unwrap();
    let Normalise { scale, mean, std, .. } = Normalise::IMAGENET;
    let expected: Vec<f32> =
        plain.iter().enumerate().map(|(i, number)| (number * scale - mean[i / 144]) / std[i / 144]).collect();
    assert_close(&planes, &expected, 1e-5, "normalised");
}

#[test]
fn bad_input_is_refused() {
    let geometry = PatchGeometry::new([5., 8.], 33., 12).unwrap();
    let mut sampler = PatchSampler::new(&Normalise::IDENTITY).unwrap();
    let short = sampler.sample(&picture(4, 4), &geometry, &mut [0.; 7]);
    assert!(matches!(short, Err(Error::Argument { name: "planes", .. })));
    let empty = Image { width: 0, height: 4, pixels: Vec::new() };
    let empty = sampler.sample(&empty, &geometry, &mut vec![0.; 432]);
    assert!(matches!(empty, Err(Error::Failure(..))));
    let identity = view(PatchTransform::Identity, [0, 0]);
    assert!(identity.apply(&planes(4), 4, 5).is_err());
    assert!(identity.apply(&[0.; 7], 4, 3).is_err());
    for transform in [
        PatchTransform::Rotate { degrees: f64::NAN },
        PatchTransform::Blur { sigma: [0., 1.] },
        PatchTransform::Blur { sigma: [1., f64::INFINITY] },
    ] {
        assert!(view(transform, [0, 0]).apply(&planes(4), 4, 3).is_err(), "{transform:?}");
    }
}

#[test]
fn turning_by_right_angles_permutes() {
    let side = 9;
    let source = planes(side);
    let at = |y: usize, x: usize| y * side + x;
    for (degrees, from) in [
        (0., (|y, x| (y, x)) as fn(usize, usize) -> (usize, usize)),
        (90., |y, x| (x, 8 - y)),
        (180., |y, x| (8 - y, 8 - x)),
        (-90., |y, x| (8 - x, y)),
    ] {
        let turned = view(PatchTransform::Rotate { degrees }, [0, 0]).apply(&source, side, side).unwrap();
        for (index, number) in turned[..side * side].iter().enumerate() {
            let (y, x) = from(index / side, index % side);
            assert!((number - source[at(y, x)]).abs() < 1e-3, "{degrees} {index}");
        }
    }
}

#[test]
fn a_blur_spreads_a_dot_around_its_place() {
    let side = 41;
    let mut dot = vec![0.; side * side];
    dot[20 * side + 20] = 100.;
    for sigma in [[2., 0.2], [1., 3.], [2., 2.]] {
        let soft = view(PatchTransform::Blur { sigma }, [3, -4]).apply(&dot, side, side).unwrap();
        let total: f32 = soft.iter().sum();
        assert!((total - 100.).abs() < 1e-3);
        for (axis, expected) in [23., 16.].into_iter().enumerate() {
            let place = |index: usize| if axis == 0 { index / side } else { index % side } as f32;
            let mean: f32 = soft.iter().enumerate().map(|(i, v)| v * place(i)).sum::<f32>() / total;
            assert!((mean - expected).abs() < 1e-3);
            let variance = |i: usize, v: f32| v * (place(i) - expected).powi(2);
            let spread = soft.iter().enumerate().map(|(i, &v)| variance(i, v)).sum::<f32>() / total;
            // Cut at two deviations, a Gaussian's variance is about a fifth smaller.
            let wanted = sigma[axis] as f32;
            assert!(spread.sqrt() <= wanted * 1.001, "{sigma:?} {spread}");
            assert!(wanted < 1. || spread.sqrt() > 0.8 * wanted, "{sigma:?} {spread}");
        }
    }
}

#[test]
fn the_views_of_a_first_frame_are_atoms() {
    let views = first_frame_views(288, &mut Key::new(1).rng());
    assert_eq!(views.len(), 23);
    assert_eq!(views[0], view(PatchTransform::Identity, [0, 0]));
    let mut shifts: Vec<_> = views[1..5].iter().map(|view| view.shift).collect();
    shifts.sort_unstable();
    assert_eq!(shifts, [[-86, -86], [-86, 86], [86, -86], [86, 86]]);
    let count = |test: fn(&PatchTransform) -> bool| views.iter().filter(|view| test(&view.transform)).count();
    assert_eq!(count(|transform| *transform == PatchTransform::Identity), 5);
    assert_eq!(count(|transform| *transform == PatchTransform::FlipHorizontal), 1);
    assert_eq!(count(|transform| matches!(transform, PatchTransform::Blur { .. })), 5);
    assert_eq!(count(|transform| matches!(transform, PatchTransform::Rotate { .. })), 12);
    assert!(views[5..].iter().all(|view| view.shift.iter().all(|shift| shift.abs() <= 48)));
    assert_ne!(views, first_frame_views(288, &mut Key::new(2).rng()));
    let mut extremes = [0; 2];
    for seed in 0..200 {
        for view in &first_frame_views(288, &mut Key::new(seed).rng())[5..] {
            extremes = [extremes[0].min(view.shift[0]), extremes[1].max(view.shift[1])];
        }
    }
    assert!(extremes[0] <= -47 && extremes[1] >= 47, "{extremes:?}");
}

fn any_view() -> impl Strategy<Value = PatchView> {
    let transform = prop_oneof![
        Just(PatchTransform::Identity),
        Just(PatchTransform::FlipHorizontal),
        (0.1..4., 0.1..4.).prop_map(|(a, b)| PatchTransform::Blur { sigma: [a, b] }),
        (-360.0..360.).prop_map(|degrees| PatchTransform::Rotate { degrees }),
    ];
    (transform, -50..50, -50..50).prop_map(|(transform, down, right)| view(transform, [down, right]))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_constant_stays(view in any_view(), side in 4usize..20, less in 0usize..19) {
        let output = side.saturating_sub(less).max(1);
        for number in view.apply(&vec![37.5; 2 * side * side], side, output).unwrap() {
            prop_assert!((number - 37.5).abs() < 1e-3);
        }
    }

    #[test]
    fn a_shift_moves_a_dot(y in 0usize..15, x in 0usize..15, down in -6i32..6, right in -6i32..6) {
        let mut dot = vec![0.; 225];
        dot[15 * y + x] = 1.;
        let moved = view(PatchTransform::Identity, [down, right]).apply(&dot, 15, 9).unwrap();
        // Content on the border repeats.
        prop_assume!((1..14).contains(&y) && (1..14).contains(&x));
        let (row, column) = (y as i32 - 3 + down, x as i32 - 3 + right);
        for (index, number) in moved.into_iter().enumerate() {
            let here = (index as i32 / 9, index as i32 % 9) == (row, column);
            prop_assert_eq!(number, f32::from(u8::from(here)));
        }
    }

    #[test]
    fn any_square_gives_samples_of_the_image(
        y in -1e4..1e4, x in -1e4..1e4, size in 0.1f64..2000., output in 1usize..40,
    ) {
        let (patch, _) = sample_patch(&picture(13, 9), [y, x], size, output).unwrap();
        prop_assert!(patch.iter().all(|number| (0.0..=255.).contains(number)));
    }
}
