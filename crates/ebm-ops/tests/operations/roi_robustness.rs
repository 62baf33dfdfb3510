//! Absurd boxes, refused arguments and thread counts.

use candle_core::{DType, Device, Tensor, Var};
use ebm_base::Key;
use ebm_ops::Error;
use ebm_ops::boxes::{BoxConvention, batched_nms, iou};
use ebm_ops::roi::{prroi_pool, roi_align};
use proptest::prelude::*;
use rand::{Rng, RngCore};

fn map(c: usize) -> Tensor {
    let values: Vec<f32> = (0..2 * c * 5 * 7).map(|i| ((i * 41) % 19) as f32 / 9.0 - 1.0).collect();
    Tensor::from_vec(values, (2, c, 5, 7), &Device::Cpu).unwrap()
}

fn all_finite(t: &Tensor) -> bool {
    t.to_dtype(DType::F64)
        .unwrap()
        .flatten_all()
        .unwrap()
        .to_vec1::<f64>()
        .unwrap()
        .iter()
        .all(|v| v.is_finite())
}

fn coordinate() -> impl Strategy<Value = f32> {
    prop_oneof![
        4 => -10.0f32..20.0,
        1 => prop::sample::select(vec![
            0.0, -0.0, 1.0, 4.0, 5.0, 7.0, 1e-30, -1e-30, 1e-45, 1e30, -1e30, 1e7, 16_777_217.0, f32::MAX, f32::MIN,
            f32::MIN_POSITIVE, f32::EPSILON, 3.000_000_2,
        ]),
    ]
}

/// Boxes, a third of them with two equal or nearly equal coordinates.
fn boxes() -> impl Strategy<Value = Vec<[f32; 5]>> {
    let any = (0u8..2, [coordinate(), coordinate(), coordinate(), coordinate()]);
    let row = (any, 0u8..6).prop_map(|((image, [x0, y0, x1, y1]), kind)| match kind {
        0 => [f32::from(image), x0, y0, x0, y1],
        1 => [f32::from(image), x0, y0, x0.next_up(), y0.next_up()],
        _ => [f32::from(image), x0, y0, x1, y1],
    });
    prop::collection::vec(row, 0..6).prop_map(|rows| {
        rows.into_iter().map(|row| row.map(|v| if v.is_finite() { v } else { f32::MAX })).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn finite_boxes_give_finite_results(rows in boxes(), double in any::<bool>(), scale in prop::sample::select(vec![1.0, 0.25, 1e-3])) {
        let dtype = if double { DType::F64 } else { DType::F32 };
        let features = Var::from_tensor(&map(3).to_dtype(dtype).unwrap()).unwrap();
        let rois = Tensor::from_vec(rows.concat(), (rows.len(), 5), &Device::Cpu).unwrap();
        let rois = Var::from_tensor(&rois.to_dtype(dtype).unwrap()).unwrap();
        let out = prroi_pool(&features, &rois, (3, 2), scale).unwrap();
        prop_assert!(all_finite(&out));
        // A mean of values in [-1, 1] is one too.
        if !rows.is_empty() {
            let largest = out.abs().unwrap().flatten_all().unwrap().max(0).unwrap().to_dtype(DType::F64).unwrap();
            prop_assert!(largest.to_scalar::<f64>().unwrap() <= 1.2);
        }
        let grads = out.sum_all().unwrap().backward().unwrap();
        prop_assert!(all_finite(grads.get(&features).unwrap()));
        prop_assert!(all_finite(grads.get(&rois).unwrap()));
        for ratio in [0, 2] {
            for aligned in [false, true] {
                let out = roi_align(&features, &rois, (3, 2), scale, ratio, aligned).unwrap();
                prop_assert!(all_finite(&out));
                let grads = out.sum_all().unwrap().backward().unwrap();
                prop_assert!(all_finite(grads.get(&features).unwrap()));
            }
        }
    }

    #[test]
    fn a_non_finite_number_is_refused(rows in boxes(), at in any::<prop::sample::Index>(), bad in prop::sample::select(vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY])) {
        let mut numbers = rows.concat();
        numbers.extend([0.0, 1.0, 1.0, 3.0, 3.0]);
        let at = at.index(numbers.len());
        numbers[at] = bad;
        let rois = Tensor::from_vec(numbers.clone(), (numbers.len() / 5, 5), &Device::Cpu).unwrap();
        for result in [prroi_pool(&map(1), &rois, (2, 2), 1.0), roi_align(&map(1), &rois, (2, 2), 1.0, 2, false)] {
            let row = format!("row {} of rois", at / 5);
            let refused = matches!(result, Err(Error::Argument { reason, .. }) if reason.contains(&row));
            prop_assert!(refused);
        }
    }
}

/// Any number of boxes of one of eight kinds each: with area, empty, turned around, in another world, smaller
/// than a pixel …
fn absurd(count: usize, rng: &mut impl Rng) -> Vec<[f32; 4]> {
    let one = |rng: &mut dyn RngCore| -> [f32; 4] {
        let mut near = || rng.random_range(-10.0f32..20.0);
        let [x, y, w, h] = [near(), near(), near(), near()];
        match rng.random_range(0..8) {
            0 => [x, y, x, y],
            1 => [x, y, x + 1e-30, y + 1e-3],
            2 => [1e30 * x, 1e30 * y, 1e30 * w, 1e30 * h],
            3 => [x, y, x - w.abs(), y - h.abs()],
            4 => [1e-30 * x, 1e-30 * y, 1e-30, 1e-30],
            5 => [x + 1e4, y - 1e4, x + 1e4 + w.abs(), y],
            6 => [x, y, x.next_up(), y.next_up()],
            _ => [x, y, x + w.abs(), y + h.abs()],
        }
    };
    (0..count).map(|_| one(rng)).collect()
}

#[test]
fn a_million_absurd_boxes_give_finite_results() {
    let features = map(1);
    let mut rng = Key::new(16).rng();
    for count in std::iter::repeat_n(10_000, 100).chain([0, 1]) {
        let rows = absurd(count, &mut rng);
        let rois: Vec<f32> = rows.iter().flat_map(|&[x0, y0, x1, y1]| [0.0, x0, y0, x1, y1]).collect();
        let rois = Tensor::from_vec(rois, (count, 5), &Device::Cpu).unwrap();
        let pooled = prroi_pool(&features, &rois, (2, 2), 0.5).unwrap();
        let aligned = roi_align(&features, &rois, (2, 2), 0.5, 2, true).unwrap();
        assert_eq!((pooled.dims(), aligned.dims()), (&[count, 1, 2, 2][..], &[count, 1, 2, 2][..]));
        assert!(all_finite(&pooled) && all_finite(&aligned));
        for convention in [BoxConvention::HalfOpen, BoxConvention::Inclusive] {
            let some = &rows[..rows.len().min(500)];
            let scores: Vec<f32> = (0..some.len()).map(|i| i as f32).collect();
            let kept = batched_nms(some, &scores, &vec![0; some.len()], 0.5, convention).unwrap();
            assert!(kept.len() <= some.len() && kept.is_empty() == some.is_empty());
            let sound = |a, b| (0.0..=1.0).contains(&iou(a, b, convention));
            assert!(some.iter().all(|a| some.iter().take(20).all(|b| sound(a, b))));
        }
    }
}

#[test]
fn absurd_boxes_far_away_in_double_precision() {
    let features = Var::from_tensor(&map(2).to_dtype(DType::F64).unwrap()).unwrap();
    let rows = [
        [0.0, -1e308, -1e308, 1e308, 1e308],
        [1.0, 1e300, 1e300, 1.1e300, 1.2e300],
        [0.0, 1.0, 1.0, 1.0 + 1e-16, 2.0],
        [0.0, 1e-300, 1e-300, 2e-300, 2e-300],
        [1.0, f64::MIN, 0.0, f64::MAX, 5e-324],
    ];
    let rois = Var::new(&rows, &Device::Cpu).unwrap();
    let out = prroi_pool(&features, &rois, (7, 7), 1.0).unwrap();
    let grads = out.sum_all().unwrap().backward().unwrap();
    assert!(
        all_finite(&out)
            && all_finite(grads.get(&features).unwrap())
            && all_finite(grads.get(&rois).unwrap())
    );
    assert!(all_finite(&roi_align(&features, &rois, (7, 7), 1.0, 0, true).unwrap()));
}

#[test]
fn a_vanishing_box_reads_the_interpolant() {
    let features = map(1);
    let at = |width: f32| {
        let rois = Tensor::new(&[[0.0f32, 2.25, 1.5, 2.25 + width, 1.5 + width]], &Device::Cpu).unwrap();
        let out = prroi_pool(&features, &rois, (1, 1), 1.0).unwrap();
        out.flatten_all().unwrap().to_vec1::<f32>().unwrap()[0]
    };
    let m = features.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    let pixel = |y: usize, x: usize| m[y * 7 + x];
    let mean = |x: usize| 0.5 * (pixel(1, x) + pixel(2, x));
    let expected = 0.75 * mean(2) + 0.25 * mean(3);
    assert!((at(1e-6) - expected).abs() < 1e-5, "{} against {expected}", at(1e-6));
}

#[test]
fn no_boxes_and_one_box() {
    let features = Var::from_tensor(&map(3)).unwrap();
    let none = Tensor::zeros((0, 5), DType::F32, &Device::Cpu).unwrap();
    assert_eq!(prroi_pool(&features, &none, (7, 7), 1.0).unwrap().dims(), &[0, 3, 7, 7]);
    assert_eq!(roi_align(&features, &none, (7, 7), 1.0, 2, false).unwrap().dims(), &[0, 3, 7, 7]);
    let one = Tensor::new(&[[1.0f32, 1.0, 1.0, 3.0, 3.0]], &Device::Cpu).unwrap();
    assert_eq!(prroi_pool(&features, &one, (7, 7), 1.0).unwrap().dims(), &[1, 3, 7, 7]);
}

#[test]
fn arguments_are_refused_with_a_reason() {
    let features = map(3);
    let zeros = |shape: &[usize], dtype| Tensor::zeros(shape, dtype, &Device::Cpu).unwrap();
    let row = |image: f32| Tensor::new(&[[image, 1.0, 1.0, 3.0, 3.0]], &Device::Cpu).unwrap();
    type Case<'a> = (&'a Tensor, Tensor, (usize, usize), f64, &'a str);
    let cases: [Case; 10] = [
        (&features, row(2.0), (7, 7), 1.0, "names image 2"),
        (&features, row(-1.0), (7, 7), 1.0, "names image -1"),
        (&features, row(0.5), (7, 7), 1.0, "names image 0.5"),
        (&features, zeros(&[3, 4], DType::F32), (7, 7), 1.0, "(R, 5)"),
        (&features, zeros(&[3, 5], DType::F64), (7, 7), 1.0, "both be f32 or both f64"),
        (&features, zeros(&[3, 5], DType::F32), (0, 7), 1.0, "at least one bin"),
        (&features, zeros(&[3, 5], DType::F32), (7, 7), 0.0, "spatial_scale"),
        (&features, zeros(&[3, 5], DType::F32), (7, 7), f64::NAN, "spatial_scale"),
        (&zeros(&[3, 5, 5], DType::F32), row(0.0), (7, 7), 1.0, "(N, C, H, W)"),
        (&zeros(&[1, 1, 5, 5], DType::BF16), zeros(&[3, 5], DType::BF16), (7, 7), 1.0, "both be f32"),
    ];
    for (features, rois, out, scale, expected) in cases {
        for result in
            [prroi_pool(features, &rois, out, scale), roi_align(features, &rois, out, scale, 2, false)]
        {
            match result {
                Err(Error::Argument { reason, .. }) => assert!(reason.contains(expected), "{reason}"),
                other => panic!("{expected}: {other:?}"),
            }
        }
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let rows: Vec<f32> = (0..400)
        .flat_map(|i| {
            let at = |k: usize, m: usize| ((i * k) % m) as f32 / 3.0 - 2.0;
            let (x, y) = (at(7, 23), at(11, 19));
            [(i % 2) as f32, x, y, x + at(13, 17) + 2.5, y + at(5, 13) + 2.5]
        })
        .collect();
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let features = Var::from_tensor(&map(21)).unwrap();
            let rois = Var::from_slice(&rows, (400, 5), &Device::Cpu).unwrap();
            let flat = |t: &Tensor| t.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            let out = prroi_pool(&features, &rois, (7, 7), 1.0).unwrap();
            let grads = out.sqr().unwrap().sum_all().unwrap().backward().unwrap();
            let aligned = roi_align(&features, &rois, (7, 7), 1.0, 2, false).unwrap();
            let of_aligned = aligned.sqr().unwrap().sum_all().unwrap().backward().unwrap();
            [
                flat(&out),
                flat(grads.get(&features).unwrap()),
                flat(grads.get(&rois).unwrap()),
                flat(&aligned),
                flat(of_aligned.get(&features).unwrap()),
            ]
        })
    };
    let one = run(1);
    assert!(one.iter().all(|values| values.iter().any(|v| v.abs() > 0.1)));
    for threads in [2, 3, 8] {
        assert_eq!(one, run(threads), "{threads} threads");
    }
}
