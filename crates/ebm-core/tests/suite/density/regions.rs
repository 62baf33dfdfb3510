//! Highest-density regions and local modes.

use ebm_core::{Error, Grid, GridDensity};
use proptest::prelude::*;

use super::{bimodal, density, log_normal_density};
use crate::zoo::assert_close;

#[test]
fn the_region_of_a_gaussian_is_its_central_interval() {
    let p = density(-8.0, 10.0, 9001, |y| log_normal_density(y, 1.0, 1.0));
    let region = p.highest_density_region(0.95).unwrap();
    assert_eq!(region.intervals.len(), 1);
    assert_close(&region.intervals[0], &[1.0 - 1.959963984540054, 1.0 + 1.959963984540054], 1e-6);
    assert_close(
        &[region.mass, region.log_level],
        &[0.95, log_normal_density(2.959963984540054, 1.0, 1.0)],
        1e-6,
    );
    assert_close(&[region.width()], &[2.0 * 1.959963984540054], 1e-6);
    assert!(region.contains(2.9) && !region.contains(2.97) && !region.contains(f64::NAN));
    assert_close(&[p.mass_above(p.log_prob(2.0))], &[0.682689492137], 1e-5);
    // The largest number below 1.
    let whole = |mass: f64| p.highest_density_region(mass).unwrap();
    assert_eq!(whole(1.0 - f64::EPSILON / 2.0), whole(1.0));
}

#[test]
fn the_region_of_a_mixture_has_two_intervals_of_the_right_mass() {
    let p = density(-3.0, 3.0, 6001, bimodal);
    let region = p.highest_density_region(0.9).unwrap();
    let &[[a, b], [c, d]] = &region.intervals[..] else { panic!("{region:?}") };
    assert!(a < -1.0 && b > -1.0 && b < 0.0 && c > 0.0 && c < 1.0 && d > 1.0, "{region:?}");
    let mass: f64 = region.intervals.iter().map(|[from, to]| p.cdf(*to) - p.cdf(*from)).sum();
    assert_close(&[mass, region.mass], &[0.9, 0.9], 1e-12);
    for edge in [a, b, c, d] {
        assert_close(&[p.log_prob(edge)], &[region.log_level], 1e-9);
    }
    // The small mode holds 0.2: half the mass is in the large one alone.
    assert_eq!(p.highest_density_region(0.5).unwrap().intervals.len(), 1);
}

#[test]
fn a_trapezium_is_exact() {
    // p = 2 y on [0, 1]: the highest half of the mass is where y² ≥ 1/2.
    let p = density(0.0, 1.0, 11, |y| (2.0 * y).ln());
    let region = p.highest_density_region(0.5).unwrap();
    assert_close(&region.intervals[0], &[0.5f64.sqrt(), 1.0], 1e-14);
    assert_close(&[region.mass, region.log_level], &[0.5, 2f64.sqrt().ln()], 1e-14);
}

#[test]
fn a_plateau_is_taken_whole() {
    let uniform = density(0.0, 4.0, 9, |_| 1.0);
    let region = uniform.highest_density_region(0.3).unwrap();
    assert_eq!(region.intervals, [[0.0, 4.0]]);
    assert_close(&[region.mass], &[1.0], 1e-14);

    // Steps of heights 1 and 3 with equal widths: the requested mass is reached inside the lower step.
    let steps = density(0.0, 4.0, 40_001, |y| if y < 2.0 { 0.0 } else { 3f64.ln() });
    let region = steps.highest_density_region(0.8).unwrap();
    assert_close(&region.intervals[0], &[0.0, 4.0], 1e-12);
    let region = steps.highest_density_region(0.6).unwrap();
    assert_close(&region.intervals[0], &[2.0, 4.0], 1e-3);
    assert_close(&[region.mass], &[0.75], 1e-3);
    // A third step, of height 2, between them: 0.6 is reached inside it, and the lowest stays outside.
    let steps = density(0.0, 6.0, 60_001, |y| ((0.5 * y.min(5.9)).floor() + 1.0).ln());
    let region = steps.highest_density_region(0.6).unwrap();
    assert_close(&region.intervals[0], &[2.0, 6.0], 1e-3);
    assert_close(&[region.mass], &[5.0 / 6.0], 1e-3);
}

#[test]
fn the_region_of_all_mass_is_the_support() {
    let p = density(-2.0, 3.0, 51, |y| {
        if (0.0..=1.0).contains(&y.abs()) && y > -0.05 { 0.0 } else { f64::NEG_INFINITY }
    });
    let region = p.highest_density_region(1.0).unwrap();
    assert_close(&region.intervals.concat(), &[-0.1, 1.1], 1e-12);
    assert_close(&[region.mass], &[1.0], 1e-12);
    for mass in [0.0, -0.5, 1.5, f64::NAN] {
        assert!(matches!(p.highest_density_region(mass), Err(Error::Setting { name: "mass", .. })));
    }
}

#[test]
fn modes_are_listed_by_height_and_ripples_left_out() {
    // Four peaks at 1, 3, 5, 7 with heights 1.5, 5, 1, 4, then with a ripple of 0.1.
    let heights = [1.5, 5.0, 1.0, 4.0];
    let f = |y: f64| {
        let peak = |(k, h): (usize, &f64)| h - 6.0 * (y - (2 * k + 1) as f64).abs();
        heights.iter().enumerate().map(peak).fold(f64::NEG_INFINITY, f64::max)
    };
    let p = density(0.0, 8.0, 801, f);
    assert_close(&p.modes(0.0), &[3.0, 7.0, 1.0, 5.0], 1e-12);
    // From the peak at 1 down to the saddle towards the one at 3, 1.5 - 6 t = 5 - 6 (2 - t), is a fall of 4.25; from
    // the peak at 5 towards the same, 1 - 6 t = 5 - 6 (2 - t), one of 4, less than the 4.5 towards the one at 7.
    assert_close(&p.modes(3.9), &[3.0, 7.0, 1.0, 5.0], 1e-12);
    assert_close(&p.modes(4.1), &[3.0, 7.0, 1.0], 1e-12);
    assert_close(&p.modes(4.6), &[3.0, 7.0], 1e-12);
    assert_close(&p.modes(1e9), &[3.0], 1e-12);

    let rippled = density(0.0, 8.0, 801, |y| f(y) + if (y * 100.0).round() % 2.0 == 0.0 { 0.1 } else { 0.0 });
    assert!(rippled.modes(0.0).len() > 100);
    assert_close(&rippled.modes(0.5), &[3.0, 7.0, 1.0, 5.0], 1e-2);
    assert_eq!(rippled.modes(0.0)[0], rippled.mode());
}

#[test]
fn peaks_of_equal_height_are_all_highest() {
    let grid = Grid::new(0.0, 8.0, 9).unwrap();
    let p = GridDensity::from_scores(&grid, &[0.0, 5.0, 1.0, 5.0, 5.0, 0.0, 3.0, 2.0, 4.0]).unwrap();
    // No way leads from them to a higher point, so that no prominence removes them. A plateau counts at its
    // middle.
    assert_eq!(p.modes(1e9), [1.0, 3.5]);
    assert_eq!((p.modes(0.0), p.mode()), (vec![1.0, 3.5, 8.0, 6.0], 1.0));
    // The saddle of the peak at 6 is 2 and that of the end at 8 is 0. A mode stays if log p falls by just its
    // prominence.
    assert_eq!((p.modes(1.0).len(), p.modes(1.0 + 1e-9).len()), (4, 3));
    assert_eq!((p.modes(4.0 - 1e-9).len(), p.modes(4.0 + 1e-9).len()), (3, 2));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_region_has_its_mass_and_nothing_denser_outside(
        f in prop::collection::vec(prop_oneof![4 => -5.0..5.0f64, 1 => Just(f64::NEG_INFINITY)], 2..40),
        mass in 0.01..0.999f64,
    ) {
        prop_assume!(f.iter().any(|value| value.is_finite()));
        let grid = Grid::new(-1.0, 2.5, f.len()).unwrap();
        let p = GridDensity::from_scores(&grid, &f).unwrap();
        let region = p.highest_density_region(mass).unwrap();
        prop_assert!((region.mass - mass).abs() < 1e-9, "{} for {mass}", region.mass);
        let by_cdf: f64 = region.intervals.iter().map(|[from, to]| p.cdf(*to) - p.cdf(*from)).sum();
        prop_assert!((by_cdf - mass).abs() < 1e-9);
        prop_assert!(region.intervals.windows(2).all(|pair| pair[0][1] < pair[1][0]));
        for y in grid.points() {
            if (p.log_prob(y) - region.log_level).abs() > 1e-9 {
                prop_assert_eq!(region.contains(y), p.log_prob(y) > region.log_level);
            }
        }
    }
}
