//! Densities p(y | x) that keep to the neighbourhood of a given y.

use candle_core::Tensor;

use crate::{EnergyModel, Result, check, host};

/// Density `p(y | x) N(y; c, diag σ²)`, normalised again: f with the quadratic term −½ Σ ((y − c) / σ)². A network's f
/// is arbitrary away from its training samples, so that exp f can have most of its integral there. With the σ of the
/// widest samples in training, the term leaves little of this part.
#[derive(Clone, Debug)]
pub struct Anchored<'a, M> {
    model: &'a M,
    /// Points c, `(B, 1, D)`.
    center: Tensor,
    /// Standard deviations σ, `(1, 1, D)`.
    sigmas: Tensor,
}

impl<'a, M: EnergyModel> Anchored<'a, M> {
    /// Creates the density of `model` about the points `center (B, D)`, one for each input, with D `sigmas`.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting) unless all `sigmas` are positive numbers;
    /// [`Error::Shape`](crate::Error::Shape) for other shapes.
    pub fn new(model: &'a M, center: &Tensor, sigmas: &[f64]) -> Result<Self> {
        let (batch, _) = check::dims2("the centre", center)?;
        check::dims("the centre", center, "(B, D)", &[batch, sigmas.len()])?;
        for &sigma in sigmas {
            check::positive("sigma", sigma)?;
        }
        let sigmas = host::tensor(sigmas.to_vec(), (1, 1, sigmas.len()), center)?;
        Ok(Self { model, center: center.detach().unsqueeze(1)?, sigmas })
    }
}

impl<M: EnergyModel> EnergyModel for Anchored<'_, M> {
    type Features = M::Features;

    fn score(&self, features: &M::Features, y: &Tensor) -> Result<Tensor> {
        let offset = y.broadcast_sub(&self.center)?.broadcast_div(&self.sigmas)?;
        Ok((self.model.score(features, y)? - (offset.sqr()?.sum(2)? * 0.5)?)?)
    }
}
