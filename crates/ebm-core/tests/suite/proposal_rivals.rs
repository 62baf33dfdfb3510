//! Proposals other than Eq. 5.

use candle_core::{DType, Device, Tensor};
use ebm_core::parametric::GaussianMixtureDensity;
use ebm_core::{Error, GaussianMixture, IouStratified, Proposal, SharedOffsets, Uniform};

use crate::zoo::{assert_close, candidates, flat, rng};

fn centers() -> Tensor {
    Tensor::new(&[[0.3, -2.0], [5.0, 1.0], [-1.0, 0.0]], &Device::Cpu).unwrap()
}

/// A density network's output for three inputs.
fn learned(dtype: DType) -> GaussianMixtureDensity {
    let tensor = |values: &[f64], shape: &[usize]| {
        Tensor::from_slice(values, shape, &Device::Cpu).unwrap().to_dtype(dtype).unwrap()
    };
    let logits = tensor(&[0.0, 1.0, -1.0, 0.5, 2.0, 2.0], &[3, 2]);
    let means = tensor(&[0.0, 1.0, -4.0, 2.0, 1.0, 1.0, 0.5, -0.5, 3.0, 0.0, 0.0, -3.0], &[3, 2, 2]);
    let log_variances =
        tensor(&[-1.0, 0.0, 0.5, -2.0, 0.0, 1.0, -1.0, -1.0, 0.2, 0.1, -0.4, 0.7], &[3, 2, 2]);
    GaussianMixtureDensity::new(&logits, means, log_variances).unwrap()
}

#[test]
fn drawing_with_densities_is_drawing_and_then_asking() {
    let mixture = GaussianMixture::new(vec![vec![0.1, 0.4], vec![1.0, 3.0]]).unwrap();
    let uniform = Uniform::new(vec![-6.0, -6.0], vec![6.0, 7.0]).unwrap();
    for (dtype, tolerance) in [(DType::F64, 1e-13), (DType::F32, 2e-4)] {
        let proposals: [Box<dyn Proposal>; 4] = [
            Box::new(mixture.clone()),
            Box::new(SharedOffsets(mixture.clone())),
            Box::new(uniform.clone()),
            Box::new(learned(dtype)),
        ];
        let centers = centers().to_dtype(dtype).unwrap();
        for (index, q) in proposals.iter().enumerate() {
            let (samples, log_q) = q.sample_with_log_prob(&centers, 20, &mut rng(7)).unwrap();
            assert_eq!((samples.dims(), samples.dtype()), (&[3, 20, 2][..], dtype), "{index}");
            assert_eq!((log_q.dims(), log_q.dtype()), (&[3, 20][..], dtype), "{index}");
            assert_eq!(flat(&samples), flat(&q.sample(&centers, 20, &mut rng(7)).unwrap()), "{index}");
            assert_ne!(flat(&samples), flat(&q.sample(&centers, 20, &mut rng(8)).unwrap()), "{index}");
            assert_close(&flat(&log_q), &flat(&q.log_prob(&samples, &centers).unwrap()), tolerance);
        }
    }
}

#[test]
fn a_uniform_density_is_that_of_its_box() {
    let q = Uniform::new(vec![-1.0, 2.0], vec![3.0, 2.5]).unwrap();
    let center = Tensor::new(&[[100.0, -7.0]], &Device::Cpu).unwrap();
    let inside: [&[f64]; 4] = [&[0.0, 2.2], &[-1.0, 2.0], &[3.0, 2.5], &[-1.0, 2.5]];
    let outside: [&[f64]; 5] =
        [&[-1.1, 2.2], &[0.0, 2.51], &[3.1, 1.0], &[f64::NAN, 2.2], &[0.0, f64::INFINITY]];
    assert_eq!(flat(&q.log_prob(&candidates(1, &inside), &center).unwrap()), [-(2f64.ln()); 4]);
    assert_eq!(flat(&q.log_prob(&candidates(1, &outside), &center).unwrap()), [f64::NEG_INFINITY; 5]);
    assert_eq!(q.dim(), 2);
}

#[test]
fn uniform_samples_fill_the_box() {
    let (low, high) = ([-1.0, 2.0], [3.0, 2.5]);
    let q = Uniform::new(low.to_vec(), high.to_vec()).unwrap();
    let n = 40_000;
    let samples = q.sample(&Tensor::new(&[[100.0, -7.0]], &Device::Cpu).unwrap(), n, &mut rng(1)).unwrap();
    let unit: Vec<Vec<f64>> = flat(&samples)
        .chunks_exact(2)
        .map(|y| (0..2).map(|d| (y[d] - low[d]) / (high[d] - low[d])).collect())
        .collect();
    assert!(unit.iter().flatten().all(|u| (0.0..1.0).contains(u)));
    // 8 × 8 cells: chi-square with 63 degrees of freedom, which is above 119 with a probability of 2e-5.
    let mut counts = [0usize; 64];
    unit.iter().for_each(|u| counts[(u[0] * 8.0) as usize * 8 + (u[1] * 8.0) as usize] += 1);
    assert!(chi_square(&counts) < 119.0, "{}", chi_square(&counts));
}

fn chi_square(counts: &[usize]) -> f64 {
    let expected = counts.iter().sum::<usize>() as f64 / counts.len() as f64;
    counts.iter().map(|count| (*count as f64 - expected).powi(2) / expected).sum()
}

#[test]
fn bounds_that_f32_rounds_still_hold_the_samples() {
    let q = Uniform::new(vec![0.1], vec![0.1 + 1e-7]).unwrap();
    let center = Tensor::zeros((1, 1), DType::F32, &Device::Cpu).unwrap();
    let (samples, log_q) = q.sample_with_log_prob(&center, 500, &mut rng(3)).unwrap();
    assert!(flat(&samples).iter().all(|y| (y - 0.1).abs() < 1e-6));
    assert!(flat(&log_q).iter().all(|log_q| (log_q + 1e-7f64.ln()).abs() < 1e-3), "{:?}", flat(&log_q));
}

#[test]
fn bad_boxes_and_shapes_have_typed_errors() {
    for (low, high) in [
        (vec![], vec![]),
        (vec![0.0], vec![0.0]),
        (vec![1.0], vec![0.0]),
        (vec![0.0], vec![1.0, 2.0]),
        (vec![0.0, 0.0], vec![1.0, -2.0]),
        (vec![f64::NAN], vec![1.0]),
        (vec![0.0], vec![f64::INFINITY]),
        (vec![-1e308], vec![1.7e308]),
    ] {
        assert!(matches!(Uniform::new(low, high).unwrap_err(), Error::Setting { name: "low, high", .. }));
    }
    let uniform = Uniform::new(vec![0.0; 2], vec![1.0; 2]).unwrap();
    let shared = SharedOffsets(GaussianMixture::isotropic(&[1.0], 2).unwrap());
    let learned = learned(DType::F64);
    let zeros = |shape: &[usize]| Tensor::zeros(shape, DType::F64, &Device::Cpu).unwrap();
    let proposals: [&dyn Proposal; 3] = [&uniform, &shared, &learned];
    for (index, q) in proposals.into_iter().enumerate() {
        let sample = |shape: &[usize], n| q.sample(&zeros(shape), n, &mut rng(0)).unwrap_err();
        assert!(matches!(sample(&[3, 2], 0), Error::Setting { name: "num_samples", .. }), "{index}");
        if index < 2 {
            // The learned proposal ignores the target.
            assert!(matches!(sample(&[0, 2], 1), Error::Empty { .. }), "{index}");
            assert!(matches!(sample(&[3, 1], 1), Error::Shape { .. }), "{index}");
            assert!(matches!(sample(&[3], 1), Error::Shape { .. }), "{index}");
        }
        for y in [&[3, 5, 3][..], &[2, 5, 2], &[3, 2]] {
            let error = q.log_prob(&zeros(y), &zeros(&[3, 2])).unwrap_err();
            assert!(matches!(error, Error::Shape { .. }), "{index}: {error}");
        }
    }
}

#[test]
fn shared_offsets_are_the_same_for_each_target() {
    let mixture = GaussianMixture::new(vec![vec![0.5, 0.1], vec![2.0, 1.0]]).unwrap();
    let q = SharedOffsets(mixture.clone());
    let samples = q.sample(&centers(), 50, &mut rng(3)).unwrap();
    let offsets = flat(&samples.broadcast_sub(&centers().unsqueeze(1).unwrap()).unwrap());
    for row in offsets.chunks_exact(100) {
        assert_close(row, &offsets[..100], 1e-14);
    }
    // The offsets of one target are samples of the mixture itself, so each target's marginal is the mixture.
    let origin = Tensor::zeros((1, 2), DType::F64, &Device::Cpu).unwrap();
    assert_close(&offsets[..100], &flat(&mixture.sample(&origin, 50, &mut rng(3)).unwrap()), 1e-14);
}

#[test]
fn each_target_of_shared_offsets_has_samples_of_the_mixture() {
    // P(|y − y_i| < r) of 0.5 N(0, 0.1²) + 0.5 N(0, 0.8²) at r = 0.1 and r = 0.8.
    let q = SharedOffsets(GaussianMixture::isotropic(&[0.1, 0.8], 1).unwrap());
    let center = Tensor::new(&[[4.0], [-4.0]], &Device::Cpu).unwrap();
    let n = 40_000;
    let samples = flat(&q.sample(&center, n, &mut rng(4)).unwrap());
    let within_one_sigma = 0.682_689_492_137;
    let within_an_eighth = 0.099_476_449_658; // of a standard deviation
    for (row, center) in samples.chunks_exact(n).zip([4.0, -4.0]) {
        for (r, want) in
            [(0.1, 0.5 * (within_one_sigma + within_an_eighth)), (0.8, 0.5 * (within_one_sigma + 1.0))]
        {
            let got = row.iter().filter(|y| (*y - center).abs() < r).count() as f64 / n as f64;
            let error = (want * (1.0 - want) / n as f64).sqrt();
            assert!((got - want).abs() < 4.0 * error, "{got}, expected {want} ± {error}");
        }
    }
}

#[test]
fn a_learned_proposal_does_not_look_at_the_target() {
    let q = learned(DType::F64);
    let elsewhere = (centers() * 10.0).unwrap();
    let draw = |center: &Tensor| Proposal::sample(&q, center, 6, &mut rng(5)).unwrap();
    let samples = draw(&centers());
    assert_eq!(flat(&samples), flat(&draw(&elsewhere)));
    let log_q = Proposal::log_prob(&q, &samples, &centers()).unwrap();
    assert_eq!(flat(&log_q), flat(&Proposal::log_prob(&q, &samples, &elsewhere).unwrap()));
    assert_eq!(flat(&log_q), flat(&q.log_prob(&samples).unwrap()));
}

/// Intersection over union of the boxes (cx, cy, log w, log h), the reference's own size being 1.
fn overlap(a: &[f64], b: &[f64]) -> f64 {
    let side = |box_: &[f64], d: usize| {
        let half = 0.5 * box_[2 + d].exp();
        (box_[d] - half, box_[d] + half)
    };
    let shared = |d: usize| (side(a, d).1.min(side(b, d).1) - side(a, d).0.max(side(b, d).0)).max(0.0);
    let intersection = shared(0) * shared(1);
    intersection / ((a[2] + a[3]).exp() + (b[2] + b[3]).exp() - intersection)
}

#[test]
fn stratified_jitters_are_spread_evenly_over_their_overlap() {
    let q = IouStratified::new(20_000, &mut rng(0)).unwrap();
    // Targets in units of their own size: log w = log h = 0.
    let center = Tensor::new(&[[3.0, 4.0, 0.0, 0.0], [-0.5, 9.0, 0.0, 0.0]], &Device::Cpu).unwrap();
    let n = 10_000;
    let samples = q.sample(&center, n, &mut rng(1)).unwrap();
    assert_eq!(samples.dims(), [2, n, 4]);
    let centers = flat(&center);
    let overlaps: Vec<f64> = flat(&samples)
        .chunks_exact(4)
        .enumerate()
        .map(|(index, y)| overlap(y, &centers[index / n * 4..][..4]))
        .collect();
    assert!(overlaps.iter().all(|iou| *iou > 0.5 && *iou <= 1.0));
    let mut counts = [0usize; 10];
    overlaps.iter().for_each(|iou| counts[(((iou - 0.5) * 20.0) as usize).min(9)] += 1);
    // Ten cells of five of the proposal's bins each. A bin with k jitters of the pool has the share k / (k + 1), so
    // that no full one is rare; the draws themselves have 9 degrees of freedom.
    println!("{} {counts:?}", chi_square(&counts));
    assert!(chi_square(&counts) < 60.0, "{} {counts:?}", chi_square(&counts));
    let mean = overlaps.iter().sum::<f64>() / overlaps.len() as f64;
    assert!((mean - 0.75).abs() < 0.01, "{mean}");
    assert!(matches!(q.log_prob(&samples, &center).unwrap_err(), Error::Unsupported { .. }));
    assert!(matches!(
        q.sample_with_log_prob(&center, 1, &mut rng(0)).unwrap_err(),
        Error::Unsupported { .. }
    ));
}

#[test]
fn stratified_jitters_are_for_boxes() {
    let q = IouStratified::new(10, &mut rng(0)).unwrap();
    let zeros = |shape: &[usize]| Tensor::zeros(shape, DType::F32, &Device::Cpu).unwrap();
    assert_eq!(q.sample(&zeros(&[1, 4]), 3, &mut rng(0)).unwrap().dtype(), DType::F32);
    for (shape, n) in [(&[1, 3][..], 1), (&[4], 1), (&[0, 4], 1), (&[1, 4], 0)] {
        let error = q.sample(&zeros(shape), n, &mut rng(0)).unwrap_err();
        assert!(
            matches!(error, Error::Shape { .. } | Error::Empty { .. } | Error::Setting { .. }),
            "{error}"
        );
    }
    assert!(matches!(IouStratified::new(0, &mut rng(0)).unwrap_err(), Error::Setting { name: "pool", .. }));
}
