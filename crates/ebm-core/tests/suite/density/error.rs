//! The error estimate of a grid.

use super::{bimodal, density, log_normal_density};

#[test]
fn a_grid_that_holds_the_mass_says_so() {
    let error = *density(-8.0, 8.0, 801, |y| log_normal_density(y, 0.0, 1.0)).error();
    assert!(error.discretisation < 1e-12 && error.total() < 1e-12, "{error:?}");
    // A flat floor far below, as of log(p + 1e-30), is as harmless as it is small.
    let floor = *density(-8.0, 8.0, 801, |y| (log_normal_density(y, 0.0, 0.5).exp() + 1e-30).ln()).error();
    assert!(floor.total() < 1e-12 && floor.outside[0] > 0.0, "{floor:?}");
}

#[test]
fn the_estimate_bounds_the_error_of_a_grid_that_cuts_a_tail() {
    for (hi, missed) in
        [(0.5, 0.308_537_538_725_986_9), (1.0, 0.158_655_253_931_457), (3.0, 0.001_349_898_031_63)]
    {
        let p = density(-8.0, hi, 2001, |y| log_normal_density(y, 0.0, 1.0));
        let (error, actual) = (p.error(), -(1.0f64 - missed).ln());
        assert!((p.log_z() + actual).abs() < 1e-4);
        assert!(error.total() > actual && error.total() < 4.0 * actual, "{hi}: {error:?}, actual {actual}");
        assert!(error.outside[1] > missed && error.outside[0] < 1e-12, "{error:?}");
    }
}

#[test]
fn a_grid_that_misses_the_mass_says_so() {
    let p = density(-1.0, 1.0, 201, |y| log_normal_density(y, 10.0, 1.0));
    assert!(p.log_z() < -40.0 && p.error().total() > 10.0, "{:?}", p.error());
    assert!(p.error().outside[1] > 1e4 && p.error().outside[0] < 1e-6, "{:?}", p.error());
    let p = density(-1.0, 1.0, 201, |y| log_normal_density(y, -10.0, 1.0));
    assert!(p.error().outside[0] > 1e4, "{:?}", p.error());
    // A continuation that no f64 holds.
    let p = density(-1.0, 1.0, 201, |y| 1e3 * y);
    assert_eq!((p.error().outside[1], p.error().total()), (f64::INFINITY, f64::INFINITY));
}

#[test]
fn a_uniform_density_may_go_on_beyond_its_grid() {
    let error = *density(0.0, 1.0, 11, |_| 5.0).error();
    assert!(error.discretisation < 1e-14);
    assert!((error.outside[0] - 1.0).abs() < 1e-12 && (error.total() - 3f64.ln()).abs() < 1e-12, "{error:?}");
    // Zero density at the ends leaves nothing outside.
    let inside = density(-1.0, 2.0, 31, |y| if (0.0..=1.0).contains(&y) { 0.0 } else { f64::NEG_INFINITY });
    assert_eq!(inside.error().outside, [0.0, 0.0]);
}

#[test]
fn a_coarse_grid_says_so_and_a_fine_one_is_better_than_its_estimate() {
    // σ = 0.2 and steps of up to 0.3.
    for points in [21, 22, 31, 41, 61] {
        let p = density(-3.0, 3.0, points, bimodal);
        let actual = p.log_z().abs();
        assert!(p.error().discretisation >= actual, "{points}: {:?}, actual {actual}", p.error());
    }
    assert!(density(-3.0, 3.0, 21, bimodal).error().discretisation > 0.1);
    // A spike on one point has twice the mass, or none, on every second point.
    for spike in [4, 5] {
        let p = density(0.0, 10.0, 11, |y| if y == f64::from(spike) { 50.0 } else { 0.0 });
        assert!(p.error().discretisation >= 2f64.ln() - 1e-9, "{spike}: {:?}", p.error());
    }
}
