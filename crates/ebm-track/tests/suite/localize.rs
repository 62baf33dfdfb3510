//! Peaks of the scores, and their interpolation.

use std::f64::consts::PI;

use ebm_track::localize::{Interpolation, LocalizeConfig, Location, State, localize};

const SIZE: usize = 100;

/// Peaks of the given heights in a map of zeros.
fn map(peaks: &[(usize, usize, f32)]) -> Vec<f32> {
    let mut scores = vec![0.0; SIZE * SIZE];
    peaks.iter().for_each(|&(y, x, score)| scores[y * SIZE + x] = score);
    scores
}

fn at(peaks: &[(usize, usize, f32)]) -> Location {
    localize(&map(peaks), SIZE, 50.0, [10.0, 20.0], &LocalizeConfig::default())
}

#[test]
fn each_state_is_reached_as_published() {
    assert_eq!(at(&[(60, 45, 0.24)]).state, State::NotFound);
    let normal = at(&[(60, 45, 0.9), (20, 20, 0.4)]);
    assert_eq!((normal.state, normal.displacement), (State::Normal, [10.0, -5.0]));
    assert_eq!(at(&[(60, 45, 0.9), (20, 20, 0.5)]).state, State::HardNegative);
    // A weak second peak of a weak first one.
    assert_eq!(at(&[(60, 45, 0.3), (20, 20, 0.23)]).state, State::Normal);
    // Two near ones, a near and a far one, a far and a near one, two far ones.
    assert_eq!(at(&[(60, 45, 0.9), (30, 50, 0.8)]).state, State::Uncertain);
    let near = at(&[(60, 45, 0.9), (5, 50, 0.8)]);
    assert_eq!((near.state, near.displacement), (State::HardNegative, [10.0, -5.0]));
    let near = at(&[(5, 50, 0.9), (60, 45, 0.8)]);
    assert_eq!((near.state, near.displacement), (State::HardNegative, [10.0, -5.0]));
    assert!((near.score - 0.8).abs() < 1e-6);
    assert_eq!(at(&[(5, 50, 0.9), (95, 45, 0.8)]).state, State::Uncertain);
}

#[test]
fn the_peaks_own_neighbourhood_does_not_count() {
    // 2.2 · (10, 20) / 2 = (11, 22).
    assert_eq!(at(&[(50, 50, 0.9), (61, 72, 0.8)]).state, State::Normal);
    assert_eq!(at(&[(50, 50, 0.9), (62, 50, 0.8)]).state, State::Uncertain);
    assert_eq!(at(&[(50, 50, 0.9), (50, 73, 0.8)]).state, State::Uncertain);
}

#[test]
fn interpolation_passes_through_the_cells_and_is_exact_for_waves() {
    for cells in [5usize, 18] {
        let wave = |y: f64, x: f64| {
            (0.3 + (2.0 * PI * (2.0 * y + x) / cells as f64).cos() + (2.0 * PI * x / cells as f64).sin())
                as f32
        };
        let scores: Vec<f32> =
            (0..cells * cells).map(|i| wave((i / cells) as f64, (i % cells) as f64)).collect();
        let size = cells * 4;
        for (i, value) in Interpolation::new(cells, 4).apply(&scores).iter().enumerate() {
            let expected = wave((i / size) as f64 / 4.0, (i % size) as f64 / 4.0);
            assert!((value - expected).abs() < 1e-5, "{cells} {i}: {value} {expected}");
        }
    }
}
