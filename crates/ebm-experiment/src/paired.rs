//! Effect of a change on the error of the same items, with a bootstrap interval.

use ebm_base::Key;
use ebm_eval::{Error as MetricError, Summary};
use rand::Rng;
use serde::Serialize;

use crate::Result;

/// Mean difference between two estimates of the same items, over items and seeds.
///
/// ```
/// use ebm_experiment::PairedDifference;
/// use ebm_base::Key;
///
/// // Two seeds, four items: every difference is negative, so the interval is too.
/// let found = PairedDifference::new(&[vec![-1.0, -2.0, -1.0, -2.0], vec![-2.0, -1.0, -2.0, -1.0]], Key::new(0))?;
/// assert!(found.mean == -1.5 && found.interval[1] < 0.0 && found.lower == 1.0);
/// # Ok::<(), ebm_experiment::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PairedDifference {
    /// Mean difference.
    pub mean: f64,
    /// Central 95 % of the means of [`RESAMPLES`](Self::RESAMPLES) bootstrap samples. Items are drawn with
    /// replacement, and so are seeds if there are several.
    pub interval: [f64; 2],
    /// Fraction of the items of all seeds whose difference is below 0.
    pub lower: f64,
}

impl PairedDifference {
    /// Number of bootstrap samples.
    pub const RESAMPLES: usize = 2000;

    /// Computes the mean of `differences`, which has a list for each seed with a number for each item. The
    /// bootstrap samples depend on `key`.
    ///
    /// # Errors
    /// [`MetricError::Empty`] without an item, [`MetricError::Lengths`] if seeds have different numbers of items,
    /// [`MetricError::Value`] for a number that is not finite.
    pub fn new(differences: &[Vec<f64>], key: Key) -> Result<Self> {
        let all: Vec<f64> = differences.concat();
        let mean = Summary::new(&all)?.mean;
        let (seeds, items) = (differences.len(), all.len() / differences.len());
        if let Some(other) = differences.iter().find(|of_seed| of_seed.len() != items) {
            let (found, expected) = (other.len(), items);
            return Err(MetricError::Lengths { what: "differences of a seed", found, expected }.into());
        }
        let mut rng = key.rng();
        let mut means = Vec::with_capacity(Self::RESAMPLES);
        for _ in 0..Self::RESAMPLES {
            let drawn: Vec<&Vec<f64>> =
                (0..seeds).map(|_| &differences[rng.random_range(0..seeds)]).collect();
            let sum: f64 = (0..items)
                .map(|_| {
                    let item = rng.random_range(0..items);
                    drawn.iter().map(|of_seed| of_seed[item]).sum::<f64>()
                })
                .sum();
            means.push(sum / all.len() as f64);
        }
        means.sort_by(f64::total_cmp);
        let outside = Self::RESAMPLES / 40;
        let lower = all.iter().filter(|&&difference| difference < 0.0).count() as f64 / all.len() as f64;
        Ok(Self { mean, interval: [means[outside], means[Self::RESAMPLES - 1 - outside]], lower })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns numbers from −1 to 1 with mean 0.
    fn spread(items: usize) -> Vec<f64> {
        (0..items).map(|i| 2.0 * (i as f64 + 0.5) / items as f64 - 1.0).collect()
    }

    #[test]
    fn the_interval_of_one_seed_is_that_of_the_mean() {
        let found = PairedDifference::new(&[spread(400)], Key::new(1)).unwrap();
        // The standard deviation of the mean of 400 uniform numbers over (−1, 1).
        let half = 1.96 * (1.0f64 / 3.0).sqrt() / 20.0;
        assert!(found.mean.abs() < 1e-12 && found.lower == 0.5);
        let [low, high] = found.interval;
        assert!((low + half).abs() < 0.15 * half && (high - half).abs() < 0.15 * half, "{found:?}");
        assert_eq!(found, PairedDifference::new(&[spread(400)], Key::new(1)).unwrap());
    }

    #[test]
    fn seeds_that_differ_widen_it() {
        let seeds: Vec<Vec<f64>> =
            [-0.5, 0.0, 0.5].map(|shift| spread(400).iter().map(|value| value + shift).collect()).into();
        let [low, high] = PairedDifference::new(&seeds, Key::new(1)).unwrap().interval;
        assert!(low < -0.3 && high > 0.3, "{low} {high}");
    }

    #[test]
    fn what_has_no_mean_is_refused() {
        for bad in [vec![], vec![vec![]], vec![vec![1.0], vec![1.0, 2.0]], vec![vec![f64::NAN]]] {
            assert!(PairedDifference::new(&bad, Key::new(0)).is_err(), "{bad:?}");
        }
    }
}
