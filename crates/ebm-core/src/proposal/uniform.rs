//! Uniform proposal.

use candle_core::{D, Tensor};
use ebm_base::settings;
use rand::{Rng, RngCore};
use serde::{Deserialize, Serialize};

use super::Proposal;
use crate::{Error, Result, check, host};

/// Uniform distribution on the box between `low` and `high`, independent of the target. It gives the
/// counter-examples of implicit behavioural cloning, and importance samples if nothing is known of y.
///
/// A loss with these samples ignores f outside the box. A target outside the box has no noise density:
/// [`NoiseContrastive`](crate::NoiseContrastive) is then certain and learns nothing from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Uniform {
    low: Vec<f64>,
    high: Vec<f64>,
}

settings! {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Unchecked {
        low: Vec<f64> where -1e6..=1e6,
        high: Vec<f64> where -1e6..=1e6,
    }
}

settings!(Uniform as Unchecked);

impl TryFrom<Unchecked> for Uniform {
    type Error = Error;

    fn try_from(unchecked: Unchecked) -> Result<Self> {
        Self::new(unchecked.low, unchecked.high)
    }
}

impl Uniform {
    /// Creates the distribution on the box between the corners `low` and `high`, D coordinates each.
    ///
    /// # Errors
    /// [`Error::Setting`] unless both have the same number (at least one) of finite coordinates, and `low` is
    /// below `high` in each.
    pub fn new(low: Vec<f64>, high: Vec<f64>) -> Result<Self> {
        let extends = |(low, high): (&f64, &f64)| low < high && (high - low).is_finite();
        let ok = !low.is_empty() && low.len() == high.len() && low.iter().zip(&high).all(extends);
        let expected =
            "the corners of a box, with the same number of finite coordinates and each low below its high";
        check::setting("low, high", ok, format!("{low:?}, {high:?}"), expected)?;
        Ok(Self { low, high })
    }

    fn log_volume(&self) -> f64 {
        self.low.iter().zip(&self.high).map(|(low, high)| (high - low).ln()).sum()
    }

    /// Returns D, the number of coordinates.
    pub fn dim(&self) -> usize {
        self.low.len()
    }
}

impl Proposal for Uniform {
    fn sample(&self, center: &Tensor, num_samples: usize, rng: &mut dyn RngCore) -> Result<Tensor> {
        let (batch, _) = check::dims2("the proposal's centre", center)?;
        check::dims("the proposal's centre", center, "(B, D)", &[batch, self.dim()])?;
        check::at_least_one("num_samples", num_samples)?;
        let sides: Vec<_> = self.low.iter().zip(&self.high).collect();
        let draw =
            |(low, high): &(&f64, &f64), rng: &mut dyn RngCore| *low + (*high - *low) * rng.random::<f64>();
        let mut values = Vec::with_capacity(batch * num_samples * self.dim());
        for _ in 0..batch * num_samples {
            values.extend(sides.iter().map(|side| draw(side, rng)));
        }
        host::tensor(values, (batch, num_samples, self.dim()), center)
    }

    fn sample_with_log_prob(
        &self,
        center: &Tensor,
        num_samples: usize,
        rng: &mut dyn RngCore,
    ) -> Result<(Tensor, Tensor)> {
        let samples = self.sample(center, num_samples, rng)?;
        let log_q = host::tensor(vec![-self.log_volume()], (1, 1), center)?;
        let log_q = log_q.broadcast_as((center.dim(0)?, num_samples))?;
        Ok((samples, log_q))
    }

    /// Returns −log of the volume inside the box, and −∞ elsewhere and at a NaN.
    fn log_prob(&self, y: &Tensor, center: &Tensor) -> Result<Tensor> {
        let (batch, _) = check::dims2("the proposal's centre", center)?;
        let (_, count, _) = check::dims3("y", y)?;
        check::dims("y", y, "(B, M, D)", &[batch, count, self.dim()])?;
        let bound = |values: &[f64]| host::tensor(values.to_vec(), (1, 1, self.dim()), y);
        // Every comparison with a NaN is false, so such a y is not inside.
        let inside = y.broadcast_ge(&bound(&self.low)?)?.mul(&y.broadcast_le(&bound(&self.high)?)?)?;
        let inside = inside.min(D::Minus1)?; // (B, M)
        let fill = |value: f64| host::tensor(vec![value; batch * count], (batch, count), y);
        Ok(inside.where_cond(&fill(-self.log_volume())?, &fill(f64::NEG_INFINITY)?)?)
    }
}
