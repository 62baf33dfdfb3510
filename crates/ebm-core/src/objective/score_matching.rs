//! Score matching (SM), denoising score matching (DSM), and the derivatives in y that both need.

use candle_core::Tensor;
use ebm_base::{settings, settings_table};
use rand::{Rng, RngCore};
use serde::{Deserialize, Serialize};

use super::{Batch, Objective};
use crate::model::{DirectionalDerivatives, Order};
use crate::{EnergyModel, Error, GaussianMixture, Proposal, Result, check, host};

settings_table! {
    /// Score matching (Hyvärinen, 2005; SM in Gustafsson et al., BMVC 2020), which needs neither samples nor Z:
    ///
    /// `(1/B) Σ_i { tr ∇²_y f(x_i, y_i) + ½ ‖∇_y f(x_i, y_i)‖² }`.
    ///
    /// A network that is piecewise linear in y has no second derivative to train on; use a smooth activation.
    pub struct ScoreMatching {
        /// Method for the derivatives of f in y.
        pub derivatives: Derivatives,
        /// Directions of the derivatives; random ones give sliced score matching.
        pub directions: Directions,
    }
}

impl Objective for ScoreMatching {
    fn batch_loss<M: EnergyModel>(&self, batch: &Batch<'_, M>, rng: &mut dyn RngCore) -> Result<Tensor> {
        check::targets(batch.y)?;
        let y = batch.y.detach().unsqueeze(1)?;
        self.directions.sum(&y, rng, |direction| {
            let (first, second) = self.derivatives.first_and_second(batch, &y, direction)?;
            Ok((second + (first.sqr()? * 0.5)?)?.mean_all()?)
        })
    }
}

settings_table! {
    /// Denoising score matching (Vincent, 2011; DSM in Gustafsson et al., BMVC 2020):
    ///
    /// `(1/(B M)) Σ_im ‖∇_y f(x_i, y_im) + (y_im − y_i)/σ²‖²`, `y_im = y_i + σ ε`.
    ///
    /// f converges to the logarithm of the density of y with added Gaussian noise of standard deviation σ.
    pub struct DenoisingScoreMatching {
        /// σ > 0, in the units of y.
        pub sigma: f64 where 1e-6..=1e4,
        /// M, the number of samples per target, at least 1.
        pub num_samples: usize where 1..=65_536,
        /// Method for the derivatives of f in y.
        pub derivatives: Derivatives,
        /// Directions of the derivatives.
        pub directions: Directions,
    }
}

impl Objective for DenoisingScoreMatching {
    fn batch_loss<M: EnergyModel>(&self, batch: &Batch<'_, M>, rng: &mut dyn RngCore) -> Result<Tensor> {
        check::positive("sigma", self.sigma)?;
        let (_, dim) = check::targets(batch.y)?;
        let y = batch.y.detach();
        let noisy = GaussianMixture::isotropic(&[self.sigma], dim)?.sample(&y, self.num_samples, rng)?;
        let pull = (noisy.broadcast_sub(&y.unsqueeze(1)?)? / (self.sigma * self.sigma))?;
        self.directions.sum(&noisy, rng, |direction| {
            let first = self.derivatives.first(batch, &noisy, direction)?;
            Ok((first + (&pull * direction)?.sum(2)?)?.sqr()?.mean_all()?)
        })
    }
}

settings! {
    /// Method for the derivatives of f in y, as functions of the parameters.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "snake_case")]
    pub enum Derivatives {
        /// Exact derivatives by [`EnergyModel::derivatives_along`], which the network must implement.
        Exact,
        /// Central differences of f along a direction, for every network. The error is `O(h²)`, and the rounding
        /// error is `ε |f|/h` (first derivative) and `ε |f|/h²` (second). In f32 the arbitrary offset of f should
        /// therefore stay small.
        Differences {
            /// h > 0, in the units of y.
            step: f64 where 1e-9..=1e3,
        },
    }
}

settings! {
    /// Directions v of the derivatives; the mean over v is exact if `E[v vᵀ] = I`.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "snake_case")]
    pub enum Directions {
        /// All D coordinates, one after the other.
        Coordinates,
        /// Random signs for each candidate: Hutchinson's estimate, for many coordinates.
        Random {
            /// Number of directions that are averaged, at least 1.
            count: usize where 1..=1024,
        },
    }
}

impl Derivatives {
    /// Returns the first derivative, `(B, M)`, of f at `y` along `direction`, both `(B, M, D)`.
    fn first<M: EnergyModel>(self, batch: &Batch<'_, M>, y: &Tensor, direction: &Tensor) -> Result<Tensor> {
        match self {
            Self::Exact => Ok(exact(batch, y, direction, Order::First)?.first),
            Self::Differences { step } => {
                let [below, above] = shifted(batch, y, direction, step, [-1.0, 1.0])?;
                Ok(((above - below)? / (2.0 * step))?)
            }
        }
    }

    /// Returns the first and the second derivative.
    fn first_and_second<M: EnergyModel>(
        self,
        batch: &Batch<'_, M>,
        y: &Tensor,
        direction: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        match self {
            Self::Exact => {
                let found = exact(batch, y, direction, Order::Second)?;
                let missing = Error::Unsupported {
                    what: "the second derivative of EnergyModel::derivatives_along",
                    remedy: "return it when it is asked for, or take Derivatives::Differences",
                };
                Ok((found.first, found.second.ok_or(missing)?))
            }
            Self::Differences { step } => {
                let [below, value, above] = shifted(batch, y, direction, step, [-1.0, 0.0, 1.0])?;
                let first = ((&above - &below)? / (2.0 * step))?;
                let second = (((above - &value)? - (value - below)?)? / (step * step))?;
                Ok((first, second))
            }
        }
    }
}

/// Returns the network's own derivatives after a check of their shapes.
fn exact<M: EnergyModel>(
    batch: &Batch<'_, M>,
    y: &Tensor,
    direction: &Tensor,
    order: Order,
) -> Result<DirectionalDerivatives> {
    let found = batch.model.derivatives_along(batch.features, y, direction, order)?;
    let sizes = &y.dims()[..2];
    for tensor in [&found.value, &found.first].into_iter().chain(&found.second) {
        check::dims("a result of EnergyModel::derivatives_along", tensor, "(B, M)", sizes)?;
    }
    Ok(found)
}

/// Returns f at `y + k h v` for each k of `multiples`, from a single pass.
fn shifted<M: EnergyModel, const N: usize>(
    batch: &Batch<'_, M>,
    y: &Tensor,
    direction: &Tensor,
    step: f64,
    multiples: [f64; N],
) -> Result<[Tensor; N]> {
    check::positive("step", step)?;
    let (_, count, _) = check::dims3("y", y)?;
    let shift = |k: f64| -> Result<Tensor> { Ok((y + (direction * (k * step))?)?) };
    let all = multiples.iter().map(|&k| shift(k)).collect::<Result<Vec<_>>>()?;
    let f = batch.score(&Tensor::cat(&all, 1)?)?;
    let mut parts = multiples.map(|_| f.clone());
    for (index, part) in parts.iter_mut().enumerate() {
        *part = f.narrow(1, index * count, count)?;
    }
    Ok(parts)
}

impl Directions {
    /// Returns the sum of a scalar term of each direction, weighted to replace `Σ_d`.
    fn sum(
        self,
        like: &Tensor,
        rng: &mut dyn RngCore,
        term: impl FnMut(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let (directions, weight) = self.tensors(like, rng)?;
        let terms = directions.iter().map(term).collect::<Result<Vec<_>>>()?;
        Ok((Tensor::stack(&terms, 0)?.sum_all()? * weight)?)
    }

    /// Returns the directions, each `(B, M, D)`, and the weight of each in a sum that replaces `Σ_d`.
    fn tensors(self, like: &Tensor, rng: &mut dyn RngCore) -> Result<(Vec<Tensor>, f64)> {
        let (batch, count, dim) = check::dims3("y", like)?;
        match self {
            Self::Coordinates => {
                let unit = |d: usize| (0..dim).map(|index| f64::from(u8::from(index == d))).collect();
                let along = |d| {
                    Ok(host::tensor(unit(d), (1, 1, dim), like)?.broadcast_as(like.shape())?.contiguous()?)
                };
                Ok(((0..dim).map(along).collect::<Result<_>>()?, 1.0))
            }
            Self::Random { count: directions } => {
                check::at_least_one("count", directions)?;
                let mut signs = || {
                    let draws = (0..batch * count * dim).map(|_| if rng.random() { 1.0 } else { -1.0 });
                    host::tensor(draws.collect(), (batch, count, dim), like)
                };
                Ok(((0..directions).map(|_| signs()).collect::<Result<_>>()?, 1.0 / directions as f64))
            }
        }
    }
}
