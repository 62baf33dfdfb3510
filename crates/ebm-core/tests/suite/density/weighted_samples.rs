//! Weighted samples and their kernel density estimates against closed forms.

use candle_core::{DType, Device, Tensor};
use ebm_core::{DensityMap, Error, GridDensity, ImportanceDensity, WeightedSamples};

use crate::zoo::{Function, TableProposal, assert_close, rng};

/// Rows of numbers with these weights.
fn weighted<const N: usize>(rows: &[([f64; N], f64)]) -> WeightedSamples<N> {
    let f: Vec<f64> = rows.iter().map(|(_, weight)| weight.ln()).collect();
    let f = Tensor::from_vec(f, (1, rows.len()), &Device::Cpu).unwrap();
    let q = TableProposal(f.zeros_like().unwrap());
    let model = Function::new(move |_: &Tensor| Ok(f.clone()));
    let center = Tensor::zeros((1, 1), DType::F64, &Device::Cpu).unwrap();
    let density = ImportanceDensity::from_model(&model, &(), &q, &center, rows.len(), &mut rng(0)).unwrap();
    WeightedSamples::new(&density[0], rows.iter().map(|row| row.0).collect()).unwrap()
}

/// Ends of the grid of the only marginal.
fn ends(p: &GridDensity) -> [f64; 2] {
    p.range()
}

/// Width of a kernel by Silverman's rule for one dimension.
fn width(spread: f64, size: f64) -> f64 {
    0.9 * spread * size.powf(-0.2)
}

#[test]
fn a_marginal_has_a_kernel_at_each_sample() {
    // The deviation 1 is less than the distance 2 of the quartiles, over 1.349.
    let samples = weighted(&[([4.0, -1.0], 0.5), ([4.5, 1.0], 0.5)]);
    let w = width(1.0, 2.0);
    let p = samples.marginal(1).unwrap();
    assert_close(&ends(&p), &[-1.0 - 3.0 * w, 1.0 + 3.0 * w], 1e-12);
    // A kernel ends at three standard deviations. Its variance is that of a normal distribution cut off
    // there: 1 − 6 φ(3) / (2 Φ(3) − 1).
    assert_close(&[p.mean(), p.variance()], &[0.0, 1.0 + 0.973_336_92 * w * w], 1e-4);
    let kernel = |y: f64| super::log_normal_density(y, 1.0, w).exp() / 0.997_300_2;
    for y in [1.0, 1.5, 2.5] {
        let beside =
            if y - 3.0 * w < -1.0 { super::log_normal_density(y, -1.0, w).exp() / 0.997_300_2 } else { 0.0 };
        assert_close(&[p.log_prob(y).exp()], &[0.5 * (kernel(y) + beside)], 1e-3);
    }
    assert_eq!(samples.expectation(|y| y[0]), 4.25);
    assert!((samples.effective_sample_size() - 2.0).abs() < 1e-12);
}

#[test]
fn few_samples_far_away_widen_neither_kernels_nor_the_grid() {
    // Only the probability beyond an end decides: 0.0004 lies above, and 0.0006 below it.
    let rows = [([-50.0], 0.0006), ([-1.0], 0.4990), ([1.0], 0.5), ([100.0], 0.0004)];
    let size = 1.0 / rows.iter().map(|(_, weight)| weight * weight).sum::<f64>();
    // The quartiles −1 and 1 are closer than the deviation of 2.5 says.
    let w = width(2.0 / 1.349, size);
    assert_close(&ends(&weighted(&rows).marginal(0).unwrap()), &[-50.0 - 3.0 * w, 1.0 + 3.0 * w], 1e-12);
}

#[test]
fn the_deviation_counts_where_the_quartiles_agree() {
    let p = weighted(&[([7.0], 0.9), ([8.0], 0.1)]).marginal(0).unwrap();
    let w = width(0.3, 1.0 / 0.82);
    assert_close(&ends(&p), &[7.0 - 3.0 * w, 8.0 + 3.0 * w], 1e-12);
    let same = weighted(&[([7.0, 1.0], 0.5), ([7.0, 2.0], 0.5)]);
    assert!(matches!(same.marginal(0), Err(Error::NoSpread(_))));
    assert!(matches!(same.joint([1, 0], 9), Err(Error::NoSpread(_))));
}

#[test]
fn a_joint_density_of_independent_numbers_is_the_product() {
    let rows = [([0.0, 0.0], 0.375), ([1.0, 0.0], 0.375), ([0.0, 10.0], 0.125), ([1.0, 10.0], 0.125)];
    let samples = weighted(&rows).map(|[x, y]| [y, 3.0, x]);
    let map = samples.joint([2, 0], 41).unwrap();
    let at = |k: usize, d: usize| map.first[d] + map.step[d] * k as f64;
    // The sixth root in two dimensions; the size is 3.2. The quartiles of y agree.
    let w = [0.5, 10.0 * 0.1875f64.sqrt()].map(|deviation| 0.9 * deviation * 3.2f64.powf(-1.0 / 6.0));
    for (d, high) in [1.0, 10.0].into_iter().enumerate() {
        assert_close(&[at(0, d), at(40, d)], &[-3.0 * w[d], high + 3.0 * w[d]], 1e-12);
    }
    let [mut columns, mut rows] = [[0.0; 41]; 2];
    for (place, p) in map.p.iter().enumerate() {
        columns[place % 41] += p;
        rows[place / 41] += p;
    }
    let product: Vec<f64> = (0..41 * 41).map(|place| columns[place % 41] * rows[place / 41]).collect();
    assert_close(&map.p, &product, 1e-12);
    let mean = |p: &[f64], d| p.iter().enumerate().map(|(k, p)| p * at(k, d)).sum::<f64>();
    assert_close(&[map.p.iter().sum(), mean(&columns, 0), mean(&rows, 1)], &[1.0, 0.5, 2.5], 2e-3);
}

#[test]
fn kernels_are_no_narrower_than_the_grid() {
    // Two points a coordinate: each sample is at least as wide as the whole range.
    let map = weighted(&[([0.0, 0.0], 0.5), ([1.0, 1.0], 0.5)]).joint([0, 1], 2).unwrap();
    assert!(map.p.iter().all(|p| *p > 0.1), "{:?}", map.p);
}

#[test]
fn the_level_is_where_the_mass_is_reached() {
    let map = DensityMap { first: [0.0; 2], step: [0.5, 4.0], size: 2, p: vec![0.125, 0.25, 0.5, 0.125] };
    // A mass that is reached exactly needs no point more.
    for (mass, level, points) in [(0.5, 0.5, 1.0), (0.6, 0.25, 2.0), (0.75, 0.25, 2.0), (0.8, 0.125, 4.0)] {
        assert_eq!((map.level(mass), map.area(mass)), (level, 2.0 * points));
    }
    assert_eq!(map.level(2.0), 0.125);
}
