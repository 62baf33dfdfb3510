//! p(y | x) as a value: a model and the features of its inputs, given once.

use candle_core::{DType, Device, Tensor};
use rand::RngCore;

use crate::density::grid_marginals;
use crate::{
    Chains, EnergyModel, GradientAscent, Grid, GridDensity, Hmc, ImportanceDensity, Langevin, Mode, Proposal,
    Refined, Result, find_modes, hmc, langevin, log_prob, refine,
};

/// `p(y | x) = exp f(x, y) / Z(x)` of a model at the features of B inputs x; made by [`EnergyModel::bind`].
///
/// ```
/// use ebm_core::candle_core::{Device, Tensor};
/// use ebm_core::{EnergyModel, GradientAscent, Grid, StepRule};
///
/// /// f(x, y) = -(y - x)²: p(y | x) is a Gaussian with mean x and variance 1/2.
/// struct Parabola;
///
/// impl EnergyModel for Parabola {
///     type Features = Tensor; // x (B, 1, 1)
///     fn score(&self, x: &Tensor, y: &Tensor) -> ebm_core::Result<Tensor> {
///         Ok(y.broadcast_sub(x)?.sqr()?.neg()?.sum(2)?)
///     }
/// }
///
/// # fn main() -> ebm_core::Result<()> {
/// let x = Tensor::new(&[[[1f32]], [[2.0]]], &Device::Cpu)?;
/// let p = Parabola.bind(&x, 2);
/// let densities = p.grid(&Grid::new(-5.0, 8.0, 2001)?)?;
/// assert!((densities[1].mean() - 2.0).abs() < 1e-6 && (densities[1].variance() - 0.5).abs() < 1e-6);
///
/// let ascent = GradientAscent { steps: 50, step_length: vec![0.25], decay: 0.5, rule: StepRule::Backtracking };
/// let refined = p.refine(&Tensor::zeros_like(&x)?, &ascent)?;
/// assert!((refined.y.flatten_all()?.to_vec1::<f32>()?[0] - 1.0).abs() < 1e-3);
/// # Ok(())
/// # }
/// ```
pub struct Conditional<'a, M: EnergyModel> {
    model: &'a M,
    features: &'a M::Features,
    batch: usize,
    dtype: DType,
    device: Device,
}

impl<'a, M: EnergyModel> Conditional<'a, M> {
    pub(crate) fn new(model: &'a M, features: &'a M::Features, batch: usize) -> Self {
        Self { model, features, batch, dtype: DType::F32, device: Device::Cpu }
    }

    /// The same for a model whose candidates y have this type, `f32` or `f64`, on this device, in place of
    /// `f32` on the CPU.
    #[must_use]
    pub fn with(self, dtype: DType, device: &Device) -> Self {
        Self { dtype, device: device.clone(), ..self }
    }

    /// f at `y` `(B, M, D)`: shape `(B, M)`.
    ///
    /// # Errors
    /// Those of [`EnergyModel::score`].
    pub fn score(&self, y: &Tensor) -> Result<Tensor> {
        self.model.score(self.features, y)
    }

    /// Algorithms S1 and S2 from `y0` `(B, M, D)`; see [`refine`](fn@refine).
    ///
    /// # Errors
    /// Those of [`refine`](fn@refine).
    pub fn refine(&self, y0: &Tensor, ascent: &GradientAscent) -> Result<Refined> {
        refine(self.model, self.features, y0, ascent)
    }

    /// The densities of the B inputs, for a model whose y has one coordinate. f is computed in passes, so
    /// that memory does not grow with the grid's N.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting) when B is 0,
    /// [`Error::NonFiniteScore`](crate::Error::NonFiniteScore) and [`Error::NoMass`](crate::Error::NoMass)
    /// naming x when f is NaN or +∞ anywhere or −∞ everywhere; else whatever the model reports.
    pub fn grid(&self, grid: &Grid) -> Result<Vec<GridDensity>> {
        GridDensity::of_model(self.model, self.features, self.batch, self.dtype, &self.device, grid)
    }

    /// For each of the B inputs the marginal densities of the D = 1 to 3 coordinates of y, from f on the
    /// product of one of `grids` for each. All the marginals of an x have its log Z. f is computed in passes:
    /// memory does not grow with the product of the grids' N.
    ///
    /// Each marginal's [`error`](GridDensity::error) is that of its own coordinate; to first order they add
    /// up.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting) for another D; else as [`grid`](Self::grid).
    pub fn marginals(&self, grids: &[Grid]) -> Result<Vec<Vec<GridDensity>>> {
        grid_marginals(self.model, self.features, self.batch, self.dtype, &self.device, grids)
    }

    /// The densities of the B inputs in any number of dimensions, from `num_samples` draws of `proposal`
    /// about `center` `(B, D)`.
    ///
    /// # Errors
    /// Those of [`ImportanceDensity::from_model`].
    pub fn importance(
        &self,
        proposal: &impl Proposal,
        center: &Tensor,
        num_samples: usize,
        rng: &mut dyn RngCore,
    ) -> Result<Vec<ImportanceDensity>> {
        ImportanceDensity::from_model(self.model, self.features, proposal, center, num_samples, rng)
    }

    /// `log p(y | x)`, in nats, at `y` `(B, M, D)`, given the log Z of each input: B rows of M values; see
    /// [`log_prob`](fn@log_prob).
    ///
    /// # Errors
    /// Those of [`log_prob`](fn@log_prob).
    pub fn log_prob(&self, y: &Tensor, log_z: &[f64]) -> Result<Vec<Vec<f64>>> {
        log_prob(self.model, self.features, y, log_z)
    }

    /// Samples of p(y | x) by Langevin dynamics from `y0` `(B, M, D)`; see [`langevin`](fn@langevin).
    ///
    /// # Errors
    /// Those of [`langevin`](fn@langevin).
    pub fn sample(&self, y0: &Tensor, settings: &Langevin, rng: &mut dyn RngCore) -> Result<Chains> {
        langevin(self.model, self.features, y0, settings, rng)
    }

    /// Samples of p(y | x) by Hamiltonian dynamics from `y0` `(B, M, D)`; see [`hmc`](fn@hmc).
    ///
    /// # Errors
    /// Those of [`hmc`](fn@hmc).
    pub fn sample_hmc(&self, y0: &Tensor, settings: &Hmc, rng: &mut dyn RngCore) -> Result<Chains> {
        hmc(self.model, self.features, y0, settings, rng)
    }

    /// The modes of p(y | x) that an ascent finds from `starts` `(B, M, D)`; see
    /// [`find_modes`](fn@find_modes).
    ///
    /// # Errors
    /// Those of [`find_modes`](fn@find_modes).
    pub fn modes(&self, starts: &Tensor, ascent: &GradientAscent, tolerance: f64) -> Result<Vec<Vec<Mode>>> {
        find_modes(self.model, self.features, starts, ascent, tolerance)
    }
}
