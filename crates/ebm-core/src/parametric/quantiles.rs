//! Quantile regression.

use candle_core::Tensor;

use super::{Parametric, batch, count, targets};
use crate::{Result, check, host};

/// Quantile regression of one coordinate: P quantiles with the probabilities `(k + ½)/P`, trained by the pinball
/// loss (Koenker and Bassett, 1978).
///
/// The first of the P outputs is the lowest quantile plus [`START`](Self::START). Each other output gives,
/// through a softplus, the distance to the next quantile, so quantiles never cross. The loss is the mean over the
/// quantiles q of `max(τ (y − q), (τ − 1)(y − q))`; twice the loss estimates the continuous ranked probability
/// score.
///
/// The density spreads the mass 1/P between two neighbours evenly. The mass 1/(2P) beyond each outermost quantile
/// falls off exponentially, starting with the density inside. The log-density is detached, because the loss
/// trains quantiles alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantiles {
    count: usize,
}

impl Quantiles {
    /// Difference of the first output and the lowest quantile, in the units of y. With outputs near 0 the
    /// quantiles are evenly spaced from −1.
    pub const START: f64 = 1.0;
    /// Least distance of two quantiles in the density.
    const MIN_DISTANCE: f64 = 1e-6;

    /// Creates a model of P = `count` quantiles of a target with `dim` = 1 coordinate.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting) for another `dim`, or fewer than two quantiles.
    pub fn new(dim: usize, count: usize) -> Result<Self> {
        check::setting("dim", dim == 1, dim, "1; quantiles are of one coordinate")?;
        check::setting("count", count >= 2, count, "at least 2")?;
        Ok(Self { count })
    }

    /// Returns the probabilities of the quantiles.
    pub fn probabilities(&self) -> Vec<f64> {
        (0..self.count).map(|k| (k as f64 + 0.5) / self.count as f64).collect()
    }

    /// Returns the quantiles `(B, P)` of `outputs`, `(B, P)`, in ascending order and differentiable.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and [`Error::Empty`](crate::Error::Empty).
    pub fn quantiles(&self, outputs: &Tensor) -> Result<Tensor> {
        batch(self, outputs)?;
        let first = (outputs.narrow(1, 0, 1)? - Self::START)?;
        // The distance is 2/P for an output of 0.
        let shift = ((2.0 * Self::START / self.count as f64).exp_m1()).ln();
        let raw = (outputs.narrow(1, 1, self.count - 1)? + shift)?;
        // This is log(1 + e^z) in a form that does not overflow.
        let distances = crate::math::log_sigmoid(&raw.neg()?)?.neg()?;
        let steps = Tensor::cat(&[&first, &distances], 1)?;
        // The product with a triangle of ones is a running sum.
        let triangle = Tensor::triu2(self.count, outputs.dtype(), outputs.device())?;
        Ok(steps.matmul(&triangle)?)
    }

    /// Returns log p at `y` for one input with these `quantiles`.
    fn log_density(&self, quantiles: &[f64], y: f64) -> f64 {
        let share = 1.0 / self.count as f64;
        let distance = |k: usize| (quantiles[k + 1] - quantiles[k]).max(Self::MIN_DISTANCE);
        let last = self.count - 1;
        // Beyond an end, p starts as high as inside and has the mass ½ share: p(y) = h exp(−(y − q) h / ½ share).
        let beyond = |height: f64, past: f64| height.ln() - past * height / (0.5 * share);
        match quantiles.partition_point(|q| *q <= y) {
            0 => beyond(share / distance(0), quantiles[0] - y),
            above if above > last => beyond(share / distance(last - 1), y - quantiles[last]),
            above => (share / distance(above - 1)).ln(),
        }
    }
}

impl Parametric for Quantiles {
    fn dim(&self) -> usize {
        1
    }

    fn num_outputs(&self) -> usize {
        self.count
    }

    fn loss(&self, outputs: &Tensor, y: &Tensor) -> Result<Tensor> {
        let y = targets(self, outputs, y)?.squeeze(1)?; // (B, 1)
        let difference = y.broadcast_sub(&self.quantiles(outputs)?)?; // (B, P)
        let probabilities = host::tensor(self.probabilities(), (1, self.count), outputs)?;
        // The larger of the two terms is (τ − 1{d < 0}) d.
        let below = difference.detach().lt(0.0)?.to_dtype(outputs.dtype())?;
        let slope = probabilities.broadcast_sub(&below)?;
        Ok((difference * slope)?.mean_all()?)
    }

    fn mean(&self, outputs: &Tensor) -> Result<Tensor> {
        Ok(self.quantiles(outputs)?.mean_keepdim(1)?)
    }

    fn log_prob(&self, outputs: &Tensor, y: &Tensor) -> Result<Option<Tensor>> {
        let count = count(self, outputs, y)?;
        check::finite("y", y)?;
        let quantiles = host::values(&self.quantiles(outputs)?)?;
        let values = host::values(y)?;
        let rows = quantiles.chunks_exact(self.count).zip(values.chunks_exact(count));
        let log_p = rows.flat_map(|(row, y)| y.iter().map(|y| self.log_density(row, *y)).collect::<Vec<_>>());
        Ok(Some(host::tensor(log_p.collect(), (outputs.dim(0)?, count), outputs)?))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};

    use super::*;

    fn outputs() -> Tensor {
        Tensor::new(&[[0.3f64, -0.5, 1.0, 0.2], [-1.0, 0.0, 0.4, -2.0]], &Device::Cpu).unwrap()
    }

    #[test]
    fn quantiles_ascend_and_begin_between_minus_one_and_one() {
        let model = Quantiles::new(1, 4).unwrap();
        for row in model.quantiles(&outputs()).unwrap().to_vec2::<f64>().unwrap() {
            assert!(row.windows(2).all(|pair| pair[0] < pair[1]), "{row:?}");
        }
        let zero = Tensor::zeros((1, 4), candle_core::DType::F64, &Device::Cpu).unwrap();
        let row = model.quantiles(&zero).unwrap().to_vec2::<f64>().unwrap().remove(0);
        for (found, expected) in row.iter().zip([-1.0, -0.5, 0.0, 0.5]) {
            assert!((found - expected).abs() < 1e-12, "{row:?}");
        }
        assert!(Quantiles::new(2, 4).is_err() && Quantiles::new(1, 1).is_err());
    }

    /// Checks that the mass of the density is 1.
    #[test]
    fn the_density_has_the_mass_one() {
        let model = Quantiles::new(1, 4).unwrap();
        let (from, step, points) = (-40.0, 1e-3, 80_000);
        let y: Vec<f64> = (0..points).map(|k| from + step * (f64::from(k) + 0.5)).collect();
        let y = Tensor::from_vec(y, (1, points as usize, 1), &Device::Cpu).unwrap();
        let y = y.broadcast_as((2, points as usize, 1)).unwrap();
        let p = model.log_prob(&outputs(), &y).unwrap().unwrap().exp().unwrap();
        for mass in (p.sum(1).unwrap() * step).unwrap().to_vec1::<f64>().unwrap() {
            assert!((mass - 1.0).abs() < 1e-3, "{mass}");
        }
    }

    /// Compares the gradient of the pinball loss with finite differences.
    #[test]
    fn the_gradient_is_that_of_the_loss() {
        let model = Quantiles::new(1, 4).unwrap();
        let y = Tensor::new(&[[0.1f64], [-0.7]], &Device::Cpu).unwrap();
        let var = Var::from_tensor(&outputs()).unwrap();
        let loss = |t: &Tensor| model.loss(t, &y).unwrap().to_scalar::<f64>().unwrap();
        let gradients = model.loss(&var, &y).unwrap().backward().unwrap();
        let gradient = gradients.get(&var).unwrap().flatten_all().unwrap().to_vec1::<f64>().unwrap();
        let values = outputs().flatten_all().unwrap().to_vec1::<f64>().unwrap();
        for (place, found) in gradient.iter().enumerate() {
            let moved = |by: f64| {
                let mut values = values.clone();
                values[place] += by;
                loss(&Tensor::from_vec(values, (2, 4), &Device::Cpu).unwrap())
            };
            let expected = (moved(1e-6) - moved(-1e-6)) / 2e-6;
            assert!((found - expected).abs() < 1e-8, "{place}: {found} not {expected}");
        }
    }
}
