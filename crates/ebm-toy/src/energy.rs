//! The energy-based model of Figure 2.

use candle_core::{DType, Device, Tensor, Var};
use ebm_base::Key;
use ebm_core::{DirectionalDerivatives, EnergyModel, Error, Order};

use crate::composed::{features, jets};
use crate::layout::{Layout, Network, WIDTH};
use crate::op::{Score, is_served};

/// Energy-based model f(x, y) with one of the published networks for 1-D x and y.
///
/// All parameters are one vector θ, so that an optimiser's step is one pass over it. On the CPU and in `f32`, one
/// fused kernel computes f, its derivative in y and all gradients; otherwise tensor operations do.
pub struct ToyEnergy {
    network: Network,
    theta: Var,
    normalizer: Var,
}

impl ToyEnergy {
    /// Creates a network with torch's initial distribution. Its estimate b(x) of log Z starts at 0.
    ///
    /// # Errors
    /// Fails if a tensor cannot be created.
    pub fn new(network: Network, key: Key, device: &Device) -> ebm_core::Result<Self> {
        Self::from_parameters(network, Layout::new(network).init(network, key), DType::F32, device)
    }

    /// Creates a network with the parameters `theta`, in the order of [`Layout`].
    ///
    /// # Errors
    /// Fails if the number of parameters is wrong.
    pub fn from_parameters(
        network: Network,
        theta: Vec<f32>,
        dtype: DType,
        device: &Device,
    ) -> ebm_core::Result<Self> {
        let theta = Tensor::from_vec(theta, Layout::new(network).len, device)?.to_dtype(dtype)?;
        let normalizer = Tensor::zeros(WIDTH + 1, dtype, device)?;
        Ok(Self { network, theta: Var::from_tensor(&theta)?, normalizer: Var::from_tensor(&normalizer)? })
    }

    /// Computes the features g_x, (B, 10), of `x`, (B, 1).
    ///
    /// # Errors
    /// Fails if `x` has another shape or type.
    pub fn features(&self, x: &Tensor) -> ebm_core::Result<Tensor> {
        features(self.network, &self.theta, x).map_err(Error::model)
    }

    fn jets(
        &self,
        theta: &Tensor,
        features: &Tensor,
        y: &Tensor,
        orders: usize,
    ) -> ebm_core::Result<Vec<Tensor>> {
        jets(self.network, theta, features, y, orders).map_err(Error::model)
    }

    /// Returns θ and the 11 weights of b(x), by name.
    pub fn parameters(&self) -> Vec<(String, Var)> {
        vec![("theta".to_owned(), self.theta.clone()), ("normalizer".to_owned(), self.normalizer.clone())]
    }
}

impl EnergyModel for ToyEnergy {
    type Features = Tensor;

    fn score(&self, features: &Tensor, y: &Tensor) -> ebm_core::Result<Tensor> {
        let y = y.squeeze(2)?;
        if is_served(&y) {
            let score = Score { network: self.network, derivative: false };
            return Ok(score.of(&self.theta, features, &y)?);
        }
        Ok(self.jets(&self.theta, features, &y, 0)?.remove(0))
    }

    fn score_and_grad(&self, features: &Tensor, y: &Tensor) -> ebm_core::Result<(Tensor, Tensor)> {
        let (theta, y) = (self.theta.as_detached_tensor(), y.detach().squeeze(2)?);
        let (f, first) = if is_served(&y) {
            let score = Score { network: self.network, derivative: true };
            let both = score.of(&theta, &features.detach(), &y)?;
            (both.get(0)?, both.get(1)?)
        } else {
            let mut both = self.jets(&theta, &features.detach(), &y, 1)?;
            (both.remove(0), both.remove(0))
        };
        Ok((f, first.unsqueeze(2)?))
    }

    /// Multiplies the derivatives in y by the direction, which is a single factor in one dimension.
    fn derivatives_along(
        &self,
        features: &Tensor,
        y: &Tensor,
        direction: &Tensor,
        order: Order,
    ) -> ebm_core::Result<DirectionalDerivatives> {
        let (y, direction) = (y.squeeze(2)?, direction.squeeze(2)?);
        if order == Order::First && is_served(&y) {
            let score = Score { network: self.network, derivative: true };
            let both = score.of(&self.theta, features, &y.detach())?;
            return Ok(DirectionalDerivatives {
                value: both.get(0)?,
                first: (both.get(1)? * direction)?,
                second: None,
            });
        }
        let orders = if order == Order::First { 1 } else { 2 };
        let mut jets = self.jets(&self.theta, features, &y, orders)?.into_iter();
        let mut next = || jets.next().ok_or(Error::NoGradient);
        let (value, first) = (next()?, (next()? * &direction)?);
        let second = match order {
            Order::First => None,
            Order::Second => Some((next()? * direction.sqr()?)?),
        };
        Ok(DirectionalDerivatives { value, first, second })
    }

    /// Computes b(x), which is linear in the features of x.
    fn log_normalizer(&self, features: &Tensor) -> ebm_core::Result<Tensor> {
        let weight = self.normalizer.narrow(0, 0, WIDTH)?.reshape((1, WIDTH))?;
        let bias = self.normalizer.narrow(0, WIDTH, 1)?;
        Ok(ebm_ops::linear(features, &weight, Some(&bias)).map_err(Error::model)?.squeeze(1)?)
    }
}
