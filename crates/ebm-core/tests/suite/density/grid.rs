//! Normalisation, moments and the distribution function on a grid.

use candle_core::{DType, Device, Tensor};
use ebm_core::{EnergyModel, Error, Grid, GridDensity, Result};
use proptest::prelude::*;

use super::{assert_moments, bimodal, density, log_normal_density};
use crate::zoo::{Function, assert_close, gaussian, rng};

#[test]
fn a_gaussian_has_its_closed_forms() {
    let sigma: f64 = 0.3;
    // f is not normalised: log Z = 2.
    let p = density(-4.0, 6.0, 2001, |y| log_normal_density(y, 1.0, sigma) + 2.0);
    assert_close(&[p.log_z()], &[2.0], 1e-13);
    assert_close(&[p.mean(), p.variance()], &[1.0, sigma * sigma], 1e-12);
    let entropy = 0.5 * (std::f64::consts::TAU * std::f64::consts::E * sigma * sigma).ln();
    assert_close(&[p.entropy(), p.mode()], &[entropy, 1.0], 1e-12);
    // Φ(1), Φ(1.959963984540054), and the quantile back.
    for (z, probability) in [(0.0, 0.5), (1.0, 0.841344746068543), (1.959963984540054, 0.975)] {
        assert_close(&[p.cdf(1.0 + z * sigma)], &[probability], 2e-5);
        assert_close(&[p.quantile(1.0 - probability).unwrap()], &[1.0 - z * sigma], 1e-4);
    }
    assert_close(&[p.expectation(|y| (y - 1.0).powi(4))], &[3.0 * sigma.powi(4)], 1e-12);
    // Between the points, and where p itself is 0 in f64.
    assert_close(&[p.log_prob(1.1234)], &[log_normal_density(1.1234, 1.0, sigma)], 1e-4);
    let narrow = density(-1.0, 1.0, 2001, |y| log_normal_density(y, 0.0, 0.01));
    assert_close(&[narrow.log_prob(0.9)], &[log_normal_density(0.9, 0.0, 0.01)], 1e-12);
    assert!(narrow.log_prob(0.9) < -4000.0);
}

#[test]
fn the_shifted_log_normal_of_figure_2_has_its_closed_forms() {
    let p = density(-1.0, 3.0, 4001, |y| {
        if y <= -1.0 {
            f64::NEG_INFINITY
        } else {
            log_normal_density((y + 1.0).ln(), 0.0, 0.25) - (y + 1.0).ln()
        }
    });
    let s2 = 0.0625f64;
    assert_close(&[p.log_z()], &[0.0], 1e-7);
    assert_close(&[p.mean()], &[(s2 / 2.0).exp() - 1.0], 1e-6);
    assert_close(&[p.variance()], &[(s2.exp() - 1.0) * s2.exp()], 1e-5);
    assert!((p.mode() - ((-s2).exp() - 1.0)).abs() < 1e-3);
    assert_close(&[p.quantile(0.5).unwrap()], &[0.0], 1e-6);
    assert_eq!((p.cdf(-1.0), p.cdf(3.0), p.cdf(7.0), p.cdf(-7.0)), (0.0, 1.0, 1.0, 0.0));
}

#[test]
fn a_mixture_has_two_modes_and_the_moments_of_both() {
    let p = density(-3.0, 3.0, 3001, bimodal);
    assert_close(&[p.log_z(), p.mean(), p.variance()], &[0.0, 0.6, 0.04 + 4.0 * 0.8 * 0.2], 1e-10);
    assert_close(&p.modes(0.0), &[1.0, -1.0], 1e-3);
    assert_close(&[p.mode(), p.cdf(0.0)], &[1.0, 0.2], 1e-3);
}

#[test]
fn a_uniform_density_on_the_whole_grid_is_exact() {
    let p = density(2.0, 6.0, 17, |_| -3.0);
    assert_close(&[p.log_z(), p.mean(), p.entropy()], &[4f64.ln() - 3.0, 4.0, 4f64.ln()], 1e-14);
    assert_close(
        &[p.log_prob(3.3), p.cdf(3.3), p.quantile(0.325).unwrap()],
        &[-(4f64.ln()), 0.325, 3.3],
        1e-14,
    );
    assert_eq!((p.log_prob(6.0001), p.log_prob(1.9999)), (f64::NEG_INFINITY, f64::NEG_INFINITY));
    assert_eq!((p.quantile(0.0).unwrap(), p.quantile(1.0).unwrap()), (2.0, 6.0));
    assert!(p.log_prob(f64::NAN).is_nan() && p.cdf(f64::NAN).is_nan());
    // One plateau: its middle.
    assert_eq!(p.modes(0.0), [4.0]);
}

#[test]
fn a_truncated_exponential_has_its_closed_forms() {
    // p ∝ exp(-2 y) on [0, 1], with zero density in the rest of the grid.
    let p = density(0.0, 2.0, 20_001, |y| if y <= 1.0 { -2.0 * y } else { f64::NEG_INFINITY });
    let z = (1.0 - (-2f64).exp()) / 2.0;
    // The jump at 1 costs half a cell.
    assert_close(&[p.log_z()], &[z.ln()], 1e-4);
    let mean = 0.5 - (-2f64).exp() / (1.0 - (-2f64).exp());
    assert_close(&[p.mean()], &[mean], 1e-4);
    assert_close(&[p.cdf(0.5)], &[(1.0 - (-1f64).exp()) / (2.0 * z)], 1e-4);
    assert_eq!(p.modes(0.0), [0.0]);
    assert!((p.quantile(1.0).unwrap() - 1.0).abs() < 2e-4);
    assert_eq!(
        density(0.0, 3.0, 4, |y| if y > 1.5 { 0.0 } else { f64::NEG_INFINITY }).quantile(0.0).unwrap(),
        1.0
    );
}

#[test]
fn two_points_make_a_trapezium() {
    // p from 0.5 to 1.5 on [0, 1]: the interpolant is exact.
    let p = density(0.0, 1.0, 2, |y| (0.5 + y).ln());
    assert_close(&[p.log_z(), p.log_prob(0.25), p.cdf(0.5)], &[0.0, 0.75f64.ln(), 0.375], 1e-15);
    assert_close(&[p.quantile(0.375).unwrap()], &[0.5], 1e-15);
}

#[test]
fn a_constant_in_f_changes_log_z_alone() {
    let f = |y: f64| bimodal(y) - 0.3 * y;
    let (plain, up, down) = (
        density(-3.0, 3.0, 501, f),
        density(-3.0, 3.0, 501, |y| f(y) + 1e4),
        density(-3.0, 3.0, 501, |y| f(y) - 1e4),
    );
    for (shifted, c) in [(up, 1e4), (down, -1e4)] {
        assert!((shifted.log_z() - plain.log_z() - c).abs() < 1e-10);
        assert_close(shifted.log_prob_values(), plain.log_prob_values(), 1e-10);
        assert_close(shifted.cdf_values(), plain.cdf_values(), 1e-10);
        assert_close(&[shifted.mean(), shifted.entropy()], &[plain.mean(), plain.entropy()], 1e-10);
    }
}

/// f = log N(y; x, 0.5²) of a batch of x, (B, 1, 1).
struct Shifted;

impl EnergyModel for Shifted {
    type Features = Tensor;
    fn score(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        gaussian(&[0.0], &[0.5], 0.0).score(&(), &y.broadcast_sub(x)?)
    }
}

#[test]
fn a_batch_of_inputs_has_each_its_own_density_in_f32_and_f64() {
    // More candidates than one pass takes, and a number of points that no pass divides.
    let (batch, n) = (40, 1203);
    let means: Vec<f64> = (0..batch).map(|i| i as f64 * 0.05 - 1.0).collect();
    let x = Tensor::from_vec(means.clone(), (batch, 1, 1), &Device::Cpu).unwrap();
    let grid = Grid::new(-5.0, 5.0, n).unwrap();
    let run = |dtype| {
        let x = x.to_dtype(dtype).unwrap();
        Shifted.bind(&x, batch).with(dtype, &Device::Cpu).grid(&grid).unwrap()
    };
    let (double, single) = (run(DType::F64), run(DType::F32));
    assert_eq!((double.len(), single.len()), (batch, batch));
    for (index, mean) in means.iter().enumerate() {
        let want = density(-5.0, 5.0, n, |y| log_normal_density(y, *mean, 0.5));
        assert_close(double[index].log_prob_values(), want.log_prob_values(), 1e-12);
        assert_close(&[double[index].log_z(), double[index].mean()], &[0.0, *mean], 1e-12);
        assert_close(single[index].log_prob_values(), want.log_prob_values(), 1e-5);
        assert_close(&[single[index].log_z(), single[index].mean()], &[0.0, *mean], 1e-5);
    }
}

/// f = log N(y; 0.3, σ²), with a σ for each input (B, 1).
struct Widths;

impl EnergyModel for Widths {
    type Features = Tensor;
    fn score(&self, sigma: &Tensor, y: &Tensor) -> Result<Tensor> {
        let z = (y.squeeze(2)? - 0.3)?.broadcast_div(sigma)?;
        Ok((z.sqr()? * -0.5)?.broadcast_sub(&sigma.log()?)?)
    }
}

/// Points are added where the mass is, whatever its width; the tails keep the grid's.
#[test]
fn points_are_added_where_the_mass_is() {
    let sigmas = [1.0, 0.05, 1e-3, 1e-5];
    let features = Tensor::new(&sigmas, &Device::Cpu).unwrap().reshape((4, 1)).unwrap();
    let grid = Grid::new(-7.0, 7.0, 256).unwrap();
    let conditional = Widths.bind(&features, 4).with(DType::F64, &Device::Cpu);
    let found = conditional.adaptive_grid(&grid).unwrap();
    for (density, sigma) in found.iter().zip(sigmas) {
        assert!(grid.points().iter().all(|y| density.points().contains(y)) && density.range() == [-7.0, 7.0]);
        let half_log = 0.5 * std::f64::consts::TAU.ln();
        assert_close(&[density.log_z(), (density.mean() - 0.3) / sigma], &[half_log, 0.0], 1e-3);
        let region = density.highest_density_region(0.9).unwrap().intervals;
        let expected = [0.3 - 1.644_853_626_951_473 * sigma, 0.3 + 1.644_853_626_951_473 * sigma];
        for (end, expected) in region[0].iter().zip(expected) {
            assert!((end - expected).abs() < 0.003 * sigma, "{end} {expected}");
        }
        for (probability, z) in [(1e-3, -3.090_232), (0.25, -0.674_490), (0.9, 1.281_552)] {
            let error = (density.quantile(probability).unwrap() - 0.3) / sigma - z;
            assert!(error.abs() < 0.02, "{sigma}, {probability}: {error}");
        }
        assert!((density.entropy() - (half_log + 0.5 + sigma.ln())).abs() < 2e-3);
    }
    // Without, the region of the third is off by more than its width.
    let same = conditional.grid(&grid).unwrap();
    assert!((same[2].variance().sqrt() / 1e-3 - 1.0).abs() > 0.5);
}

#[test]
fn bad_inputs_have_typed_errors() {
    for (lo, hi, n, name) in [
        (0.0, 1.0, 1, "num_points"),
        (1.0, 1.0, 5, "[lo, hi]"),
        (2.0, 1.0, 5, "[lo, hi]"),
        (f64::NAN, 1.0, 5, "[lo, hi]"),
        (0.0, f64::INFINITY, 5, "[lo, hi]"),
        (1e16, 1e16 + 4.0, 100, "[lo, hi]"),
    ] {
        let error = Grid::new(lo, hi, n).unwrap_err();
        assert!(matches!(error, Error::Setting { name: got, .. } if got == name), "{error}");
    }
    let grid = Grid::new(0.0, 2.0, 3).unwrap();
    let refuse = |f: &[f64]| GridDensity::from_scores(&grid, f).unwrap_err();
    assert!(matches!(refuse(&[0.0; 4]), Error::Shape { .. }));
    assert!(matches!(refuse(&[f64::NEG_INFINITY; 3]), Error::NoMass(0)));
    for value in [f64::NAN, f64::INFINITY] {
        let error = refuse(&[0.0, 0.0, value]);
        assert!(matches!(&error, Error::NonFiniteScore { x: 0, y, .. } if y == &[2.0]), "{error}");
    }

    // The second of three inputs has a bad f at y = 2, and the error must say so.
    struct Partly(f64);
    impl EnergyModel for Partly {
        type Features = ();
        fn score(&self, (): &(), y: &Tensor) -> Result<Tensor> {
            let bad = Tensor::new(&[[0.0], [self.0], [0.0]], y.device())?;
            let y = y.squeeze(2)?;
            Ok(y.ge(2.0)?.where_cond(&bad.broadcast_as(y.shape())?, &y)?)
        }
    }
    let with = |bad| Partly(bad).bind(&(), 3).with(DType::F64, &Device::Cpu).grid(&grid);
    assert_eq!(with(f64::NEG_INFINITY).unwrap().len(), 3);
    for bad in [f64::NAN, f64::INFINITY] {
        let error = with(bad).unwrap_err();
        assert!(matches!(&error, Error::NonFiniteScore { x: 1, y, .. } if y == &[2.0]), "{error}");
    }
    let none = Function::new(|y: &Tensor| Ok(y.log()?.sum(2)?));
    let negative = Grid::new(-1.0, 1.0, 3).unwrap();
    let error = none.bind(&(), 1).with(DType::F64, &Device::Cpu).grid(&negative).unwrap_err();
    assert!(matches!(&error, Error::NonFiniteScore { x: 0, y, .. } if y == &[-1.0]), "{error}");
    let zero = Function::new(|y: &Tensor| Ok((y.sum(2)? * 0.0)?.log()?));
    let error = zero.bind(&(), 2).with(DType::F64, &Device::Cpu).grid(&grid).unwrap_err();
    assert!(matches!(error, Error::NoMass(0)), "{error}");
    let error = none.bind(&(), 0).with(DType::F64, &Device::Cpu).grid(&negative).unwrap_err();
    assert!(matches!(error, Error::Setting { name: "batch", .. }), "{error}");
    let p = density(0.0, 1.0, 5, |_| 0.0);
    for probability in [-0.1, 1.1, f64::NAN] {
        assert!(matches!(p.quantile(probability), Err(Error::Setting { name: "probability", .. })));
    }
}

#[test]
fn samples_have_the_moments_and_repeat_with_the_seed() {
    let p = density(-3.0, 3.0, 3001, bimodal);
    let draws = p.sample(20_000, &mut rng(3));
    assert_moments(&draws, 0.6, 0.68);
    let low = draws.iter().filter(|y| **y < 0.0).count() as f64;
    assert!((low - 4000.0).abs() < 4.0 * 3200f64.sqrt(), "{low}");
    assert_eq!(p.sample(3, &mut rng(3)), draws[..3]);
    assert!(p.sample(0, &mut rng(3)).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    /// Any values of f, with gaps of no density.
    #[test]
    fn quantiles_ascend_and_invert_the_distribution_function(
        f in prop::collection::vec(prop_oneof![3 => -20.0..20.0f64, 1 => Just(f64::NEG_INFINITY)], 2..40),
        mut probabilities in prop::collection::vec(0.0..=1.0f64, 8),
    ) {
        prop_assume!(f.iter().any(|value| value.is_finite()));
        let grid = Grid::new(-1.0, 2.5, f.len()).unwrap();
        let p = GridDensity::from_scores(&grid, &f).unwrap();
        probabilities.sort_by(f64::total_cmp);
        let quantiles: Vec<f64> = probabilities.iter().map(|&u| p.quantile(u).unwrap()).collect();
        prop_assert!(quantiles.windows(2).all(|pair| pair[0] <= pair[1]));
        for (u, y) in probabilities.iter().zip(&quantiles) {
            prop_assert!((p.cdf(*y) - u).abs() < 1e-9, "{u} -> {y} -> {}", p.cdf(*y));
            // The quantile inverts it where the density is large enough to tell y from its neighbours.
            if p.log_prob(*y) > -5.0 {
                prop_assert!((p.quantile(p.cdf(*y)).unwrap() - y).abs() < 1e-9);
            }
        }
    }
}
