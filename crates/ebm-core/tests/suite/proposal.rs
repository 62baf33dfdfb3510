//! Eq. 5: densities against golden values, samples against their moments.

use candle_core::{DType, Device, Tensor};
use ebm_core::{Error, GaussianMixture, Proposal};

use crate::zoo::{candidates, flat, rng};

/// log q at one offset from the centre.
fn log_q(sigmas: &[f64], offset: &[f64]) -> f64 {
    let center: Vec<f64> = (0..offset.len()).map(|i| 3.0 - i as f64).collect();
    let y: Vec<f64> = center.iter().zip(offset).map(|(c, o)| c + o).collect();
    let center = Tensor::from_vec(center, (1, offset.len()), &Device::Cpu).unwrap();
    let q = GaussianMixture::isotropic(sigmas, offset.len()).unwrap();
    flat(&q.log_prob(&candidates(1, &[&y]), &center).unwrap())[0]
}

#[test]
fn golden_densities() {
    let detection = [0.0375, 0.075, 0.15];
    for (sigmas, offset, want) in [
        (&[0.1, 0.8][..], &[0.0][..], 2.2440503272580585f64.ln()),
        (&[0.1, 0.8], &[0.3], 0.2545686757282956f64.ln()),
        (&[0.1, 20.0], &[0.0], 2.0046849590171987f64.ln()),
        (&[0.1, 20.0], &[5.0], 0.009666702920071232f64.ln()),
        (&detection, &[0.0; 4], 8.423585313241686),
        (&detection, &[0.05, -0.02, 0.1, 0.03], 4.804976648679633),
        (&[0.05, 0.5], &[0.0; 4], 7.614127775837661),
        (&[0.05, 0.5], &[0.1, 0.1, 0.2, -0.3], -1.8963125898757078),
        (&[1.0, 20.0], &[0.0; 3], -3.4498377879858126),
        (&[1.0, 20.0], &[3.0, -2.0, 10.0], -12.578409600835935),
    ] {
        let got = log_q(sigmas, offset);
        assert!((got - want).abs() < 1e-12, "{sigmas:?} at {offset:?}: {got}, expected {want}");
    }
}

#[test]
fn far_away_the_density_is_that_of_the_widest_component() {
    // 1e3 standard deviations: the density itself is 0 in f64.
    let want = -0.5e6 - (0.8 * std::f64::consts::TAU.sqrt()).ln() - 2f64.ln();
    assert!((log_q(&[0.1, 0.8], &[800.0]) - want).abs() < 1e-6);
}

#[test]
fn each_coordinate_has_its_own_sigma_and_each_row_its_own_center() {
    let q = GaussianMixture::new(vec![vec![0.1, 2.0]]).unwrap();
    let center = Tensor::new(&[[0.0, 0.0], [1.0, -1.0]], &Device::Cpu).unwrap();
    let y = candidates(2, &[&[0.1, 0.0], &[0.0, 2.0], &[1.0, -1.0], &[1.2, -5.0]]);
    let log_volume = (0.1 * 2.0 * std::f64::consts::TAU).ln();
    let want = [0.5, 0.5, 0.0, 4.0].map(|half_square| -half_square - log_volume);
    crate::zoo::assert_close(&flat(&q.log_prob(&y, &center).unwrap()), &want, 1e-13);
}

#[test]
fn the_density_integrates_to_one() {
    let q = GaussianMixture::isotropic(&[0.1, 0.8], 1).unwrap();
    let (n, range) = (20_000, 16.0);
    let grid: Vec<f64> = (0..n).map(|i| (i as f64 + 0.5) / n as f64 * range - range / 2.0).collect();
    let y = Tensor::from_vec(grid, (1, n, 1), &Device::Cpu).unwrap();
    let log_prob = q.log_prob(&y, &Tensor::new(&[[0.3]], &Device::Cpu).unwrap()).unwrap();
    let total: f64 = flat(&log_prob).iter().map(|l| l.exp()).sum::<f64>() * range / n as f64;
    assert!((total - 1.0).abs() < 1e-9, "{total}");
}

type Moment = fn(f64, f64) -> f64;

#[test]
fn sampled_moments_are_those_of_the_mixture() {
    let q = GaussianMixture::new(vec![vec![0.5, 0.1], vec![2.0, 1.0]]).unwrap();
    let center = Tensor::new(&[[4.0, -1.0], [0.0, 100.0]], &Device::Cpu).unwrap();
    let n = 50_000;
    let samples = q.sample(&center, n, &mut rng(2)).unwrap();
    assert_eq!(samples.dims(), [2, n, 2]);
    let offsets = flat(&samples.broadcast_sub(&center.unsqueeze(1).unwrap()).unwrap());
    for row in offsets.chunks_exact(2 * n) {
        let moment = |f: Moment| {
            let values: Vec<f64> = row.chunks_exact(2).map(|e| f(e[0], e[1])).collect();
            let mean = values.iter().sum::<f64>() / n as f64;
            let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64;
            (mean, (variance / n as f64).sqrt())
        };
        let cases: [(Moment, f64); 7] = [
            (|a, _| a, 0.0),
            (|_, b| b, 0.0),
            (|a, b| a * b, 0.0),
            (|a, _| a * a, (0.25 + 4.0) / 2.0),
            (|_, b| b * b, (0.01 + 1.0) / 2.0),
            (|a, _| a.powi(4), 3.0 * (0.0625 + 16.0) / 2.0),
            // The coordinates share their component, so that their squares are correlated.
            (|a, b| a * a * b * b, (0.25 * 0.01 + 4.0 * 1.0) / 2.0),
        ];
        for (index, (f, want)) in cases.into_iter().enumerate() {
            let (mean, error) = moment(f);
            assert!((mean - want).abs() < 4.0 * error, "moment {index}: {mean} ± {error}, expected {want}");
        }
    }
}

#[test]
fn samples_depend_on_the_seed_alone() {
    let q = GaussianMixture::isotropic(&[0.1, 0.8], 2).unwrap();
    let center = Tensor::new(&[[0.0, 1.0]], &Device::Cpu).unwrap();
    let draw = |seed| flat(&q.sample(&center, 3, &mut rng(seed)).unwrap());
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));

    // In f32 they are the same numbers, rounded.
    let single = q.sample(&center.to_dtype(DType::F32).unwrap(), 3, &mut rng(1)).unwrap();
    assert_eq!(single.dtype(), DType::F32);
    crate::zoo::assert_close(&flat(&single), &draw(1), 1e-6);
}

#[test]
fn the_stream_is_pinned() {
    // From golden/streams.py. A change of these numbers changes every result that names a seed.
    let q = GaussianMixture::isotropic(&[0.1, 0.8], 1).unwrap();
    let center = Tensor::new(&[[0.0]], &Device::Cpu).unwrap();
    let samples = flat(&q.sample(&center, 3, &mut rng(0)).unwrap());
    crate::zoo::assert_close(&samples, &PINNED, 1e-10);
}

const PINNED: [f64; 3] = [0.628_883_341_427, 0.030_288_628_025, -0.630_551_655_822];

#[test]
fn references_and_boxes_are_proposals_too() {
    let q = GaussianMixture::isotropic(&[0.1], 1).unwrap();
    let center = Tensor::new(&[[0.0]], &Device::Cpu).unwrap();
    let boxed: Box<dyn Proposal> = Box::new(q.clone());
    let y = boxed.sample(&center, 2, &mut rng(0)).unwrap();
    assert_eq!(flat(&y), flat(&q.sample(&center, 2, &mut rng(0)).unwrap()));
    assert_eq!(
        flat(&Proposal::log_prob(&&q, &y, &center).unwrap()),
        flat(&boxed.log_prob(&y, &center).unwrap())
    );
}

#[test]
fn bad_settings_and_shapes_have_typed_errors() {
    let bad: [Vec<Vec<f64>>; 8] = [
        vec![],
        vec![vec![]],
        vec![vec![1.0], vec![1.0, 2.0]],
        vec![vec![0.0]],
        vec![vec![-1.0]],
        vec![vec![f64::NAN]],
        vec![vec![f64::INFINITY]],
        vec![vec![1.0, 1e-40]],
    ];
    for sigmas in bad {
        let error = GaussianMixture::new(sigmas).unwrap_err();
        assert!(matches!(error, Error::Setting { name: "sigmas", .. }), "{error}");
    }

    let q = GaussianMixture::isotropic(&[0.1], 2).unwrap();
    let zeros = |shape: &[usize]| Tensor::zeros(shape, DType::F64, &Device::Cpu).unwrap();
    let sample = |shape: &[usize], n| q.sample(&zeros(shape), n, &mut rng(0)).unwrap_err();
    assert!(matches!(sample(&[0, 2], 1), Error::Empty { .. }));
    assert!(matches!(sample(&[1, 3], 1), Error::Shape { .. }));
    assert!(matches!(sample(&[2], 1), Error::Shape { .. }));
    assert!(matches!(sample(&[1, 2], 0), Error::Setting { name: "num_samples", .. }));
    for y in [&[1, 5, 3][..], &[2, 5, 2], &[1, 2]] {
        assert!(matches!(q.log_prob(&zeros(y), &zeros(&[1, 2])).unwrap_err(), Error::Shape { .. }));
    }
}
