//! The mean absolute error of predicted numbers (Sections 4.3 and 4.4).

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The mean absolute error (MAE), in the units of y.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AbsoluteError {
    /// MAE of each coordinate: for a pose yaw, pitch and roll.
    pub coordinates: Vec<f64>,
    /// Mean over the coordinates.
    pub mean: f64,
}

impl AbsoluteError {
    /// Computes the MAE of `predictions` (N, D) on `targets` (N, D), row by row, with D = `dim`. Angles are
    /// compared as plain numbers without wrapping, as in FSA-Net.
    ///
    /// # Errors
    /// [`Error::Empty`] without a row; [`Error::Lengths`] if the lengths differ or are no multiple of `dim`;
    /// [`Error::Value`] with the row of a prediction or target that is not finite.
    pub fn new(predictions: &[f64], targets: &[f64], dim: usize) -> Result<Self> {
        if predictions.is_empty() || dim == 0 {
            return Err(Error::Empty("predictions"));
        }
        let rows = targets.len().div_ceil(dim) * dim;
        for (what, found) in [("predictions", predictions.len()), ("targets", targets.len())] {
            if found != rows {
                return Err(Error::Lengths { what, found, expected: rows });
            }
        }
        let mut sums = vec![0.0; dim];
        let rows = predictions.chunks_exact(dim).zip(targets.chunks_exact(dim));
        for (index, (prediction, target)) in rows.enumerate() {
            for ((sum, prediction), target) in sums.iter_mut().zip(prediction).zip(target) {
                let value = prediction - target;
                if !value.is_finite() {
                    return Err(Error::Value { what: "values", index, value, expected: "finite" });
                }
                *sum += value.abs();
            }
        }
        let rows = (predictions.len() / dim) as f64;
        let coordinates: Vec<f64> = sums.into_iter().map(|sum| sum / rows).collect();
        Ok(Self { mean: coordinates.iter().sum::<f64>() / dim as f64, coordinates })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_mean_of_distances_by_coordinate() {
        let error = AbsoluteError::new(&[1.0, 2.0, 3.0, 5.0], &[2.0, 2.0, 0.0, 6.0], 2).unwrap();
        assert_eq!(error, AbsoluteError { coordinates: vec![2.0, 0.5], mean: 1.25 });
    }

    #[test]
    fn what_can_not_be_compared_is_refused() {
        assert!(matches!(AbsoluteError::new(&[], &[], 1), Err(Error::Empty { .. })));
        assert!(matches!(AbsoluteError::new(&[1.0], &[1.0, 2.0], 1), Err(Error::Lengths { .. })));
        assert!(matches!(AbsoluteError::new(&[1.0; 3], &[1.0; 3], 2), Err(Error::Lengths { .. })));
        let nan = AbsoluteError::new(&[1.0, 2.0, 3.0, f64::NAN], &[0.0; 4], 2);
        assert!(matches!(nan, Err(Error::Value { index: 1, .. })));
    }
}
