//! The histogram of probability integral transforms.

use serde::{Deserialize, Serialize};

use super::check;
use crate::error::Result;

/// How the values F(y_i | x_i) of the predicted distribution functions at the observed y are spread over \[0,
/// 1\]: evenly if the predictions are calibrated, in a ∪ if they are too narrow, in a ∩ if they are too wide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PitHistogram {
    /// How many values lie in each of the bins of equal width; a value between two counts in one of them.
    pub counts: Vec<usize>,
}

impl PitHistogram {
    /// Counts the values `pit` in `bins` bins.
    ///
    /// # Errors
    /// [`Error::Empty`](crate::Error::Empty) without values or bins, [`Error::Value`](crate::Error::Value)
    /// for a value outside \[0, 1\].
    pub fn new(pit: &[f64], bins: usize) -> Result<Self> {
        check::pit(pit)?;
        if bins == 0 {
            return Err(crate::Error::Empty("bins"));
        }
        let mut counts = vec![0; bins];
        for value in pit {
            counts[((value * bins as f64) as usize).min(bins - 1)] += 1;
        }
        Ok(Self { counts })
    }
}
