//! Broader or narrower densities p(y | x).

use candle_core::Tensor;

use crate::{EnergyModel, Result, check};

/// Density `p(y | x)^(1/T)`, normalised again: f divided by a temperature T. For T > 1 the density is broader and
/// flatter around its modes; the modes stay where they are.
#[derive(Clone, Copy, Debug)]
pub struct Tempered<'a, M> {
    model: &'a M,
    temperature: f64,
}

impl<'a, M: EnergyModel> Tempered<'a, M> {
    /// Creates the density of `model` at this temperature.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting) unless the temperature is a positive number.
    pub fn new(model: &'a M, temperature: f64) -> Result<Self> {
        check::positive("temperature", temperature)?;
        Ok(Self { model, temperature })
    }
}

impl<M: EnergyModel> EnergyModel for Tempered<'_, M> {
    type Features = M::Features;

    fn score(&self, features: &M::Features, y: &Tensor) -> Result<Tensor> {
        Ok((self.model.score(features, y)? / self.temperature)?)
    }

    fn score_and_grad_where(
        &self,
        features: &M::Features,
        y: &Tensor,
        needs_gradient: &dyn Fn(usize, f64) -> bool,
    ) -> Result<(Tensor, Tensor)> {
        let of_tempered = |place: usize, f: f64| needs_gradient(place, f / self.temperature);
        let (f, gradient) = self.model.score_and_grad_where(features, y, &of_tempered)?;
        Ok(((f / self.temperature)?, (gradient / self.temperature)?))
    }
}
