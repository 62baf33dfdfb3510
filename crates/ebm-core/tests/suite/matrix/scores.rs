//! Score matching and denoising score matching on a conditional Gaussian, with every kind of derivatives.

use ebm_core::{DenoisingScoreMatching, Directions, ScoreMatching};

use super::families::Gaussian;
use super::{SCORES, WAYS, assert_recovers};

/// Returns all directions, and random ones too for two coordinates.
fn directions(dim: usize) -> Vec<(&'static str, Directions)> {
    let random = ("random", Directions::Random { count: 1 });
    [("coordinates", Directions::Coordinates), random].into_iter().take(dim).collect()
}

#[test]
fn score_matching_recovers_the_density() {
    for dim in [1, 2] {
        for (way, derivatives) in WAYS {
            for (along, directions) in directions(dim) {
                let objective = ScoreMatching { derivatives, directions };
                let expected = Gaussian::expected(dim, 0.0);
                let what = format!("SM, {way}, {along}");
                assert_recovers(&what, SCORES, &Gaussian::new(dim), &objective, &expected, 0.0);
            }
        }
    }
}

#[test]
fn denoising_score_matching_recovers_the_density_with_noise() {
    for dim in [1, 2] {
        for (way, derivatives) in WAYS {
            for (along, directions) in directions(dim) {
                let objective =
                    DenoisingScoreMatching { sigma: 0.4, num_samples: 4, derivatives, directions };
                let expected = Gaussian::expected(dim, 0.16);
                let what = format!("DSM, {way}, {along}");
                assert_recovers(&what, SCORES, &Gaussian::new(dim), &objective, &expected, 0.0);
            }
        }
    }
}
