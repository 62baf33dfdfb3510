//! Split-conformal calibration: regions that hold y with a frequency that is guaranteed whatever the model
//! is.

use serde::{Deserialize, Serialize};

use super::check;
use crate::error::{Error, Result};

/// The threshold Q on a score that says how badly y fits the prediction for its x. For a new example,
/// exchangeable with the n calibration examples, `score ≤ Q` holds with a probability of at least 1 − α, and
/// of less than 1 − α + 1/(n + 1) where scores never tie. That is an average over x, not a promise for each.
///
/// Two scores, and the region {y : score ≤ Q} that each gives:
///
/// | score | region |
/// |---|---|
/// | −log p(y given x) | the level set where log p is at least −Q; several intervals where p is multimodal |
/// | mass of the smallest highest-density region that holds y | the highest-density region of mass Q |
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SplitConformal {
    /// Q, the ⌈(1 − α)(n + 1)⌉-th smallest calibration score.
    pub threshold: f64,
}

impl SplitConformal {
    /// Finds Q from the scores of n calibration examples that the model was not trained on.
    ///
    /// The rank ⌈(1 − α)(n + 1)⌉ is what makes the guarantee hold in finite samples. Published code for
    /// regression takes ⌊(1 − α) n⌋ + 1, which is one less for some n, and then misses it.
    ///
    /// # Errors
    /// [`Error::Value`] unless α is in (0, 1) and no score is NaN (infinite ones are allowed),
    /// [`Error::Empty`], and [`Error::TooFew`] when n < (1 − α)/α, where only a region of all y would do.
    pub fn calibrate(scores: &[f64], alpha: f64) -> Result<Self> {
        check::value("alpha", alpha, "in (0, 1)", alpha > 0.0 && alpha < 1.0)?;
        check::values("scores", scores, "a number", |score| !score.is_nan())?;
        let count = scores.len();
        // A product that is a whole number must not become the next one by rounding.
        let rank = ((1.0 - alpha) * (count + 1) as f64 - 1e-9).ceil() as usize;
        if rank > count {
            let needed = ((1.0 - alpha) / alpha - 1e-9).ceil() as usize;
            return Err(Error::TooFew { what: "calibration scores", found: count, needed });
        }
        let mut scores = scores.to_vec();
        scores.sort_by(f64::total_cmp);
        // α so close to 1 that the rank is 0 asks for nothing; the smallest score more than gives it.
        Ok(Self { threshold: scores[rank.max(1) - 1] })
    }

    /// Whether a y with this `score` is in the region.
    pub fn contains(&self, score: f64) -> bool {
        score <= self.threshold
    }
}
