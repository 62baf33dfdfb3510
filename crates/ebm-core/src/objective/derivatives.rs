//! The derivatives in y that score matching trains on.

use candle_core::Tensor;
use ebm_settings::settings;
use rand::{Rng, RngCore};
use serde::{Deserialize, Serialize};

use crate::model::{DirectionalDerivatives, Order, checked_score};
use crate::{EnergyModel, Error, Result, check, host};

settings! {
    /// How derivatives of f in y are found, as functions of the parameters.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "snake_case")]
    pub enum Derivatives {
        /// Exactly, by [`EnergyModel::derivatives_along`], which the network must offer.
        Exact,
        /// By central differences of f along a direction, for any network: of error `O(h²)`, and in rounding
        /// `ε |f|/h` (first) and `ε |f|/h²` (second), so that f's level, which is arbitrary, should stay
        /// small in f32.
        Differences {
            /// h > 0, in the units of y.
            step: f64 where 1e-9..=1e3,
        },
    }
}

settings! {
    /// Along which directions v derivatives are taken; their mean over v with `E[v vᵀ] = I` is exact.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "snake_case")]
    pub enum Directions {
        /// All D coordinates, one after the other.
        Coordinates,
        /// Random signs for each candidate: the estimate of Hutchinson, for many coordinates.
        Random {
            /// How many directions are averaged, at least 1.
            count: usize where 1..=1024,
        },
    }
}

impl Derivatives {
    /// The first derivative of f at `y` along `direction`, both `(B, M, D)`; the result is `(B, M)`.
    pub(super) fn first<M: EnergyModel>(
        self,
        model: &M,
        features: &M::Features,
        y: &Tensor,
        direction: &Tensor,
    ) -> Result<Tensor> {
        match self {
            Self::Exact => Ok(exact(model, features, y, direction, Order::First)?.first),
            Self::Differences { step } => {
                let [below, above] = shifted(model, features, y, direction, step, [-1.0, 1.0])?;
                Ok(((above - below)? / (2.0 * step))?)
            }
        }
    }

    /// The first and the second derivative.
    pub(super) fn first_and_second<M: EnergyModel>(
        self,
        model: &M,
        features: &M::Features,
        y: &Tensor,
        direction: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        match self {
            Self::Exact => {
                let found = exact(model, features, y, direction, Order::Second)?;
                let missing = Error::Unsupported {
                    what: "the second derivative of EnergyModel::derivatives_along",
                    remedy: "return it when it is asked for, or take Derivatives::Differences",
                };
                Ok((found.first, found.second.ok_or(missing)?))
            }
            Self::Differences { step } => {
                let [below, value, above] = shifted(model, features, y, direction, step, [-1.0, 0.0, 1.0])?;
                let first = ((&above - &below)? / (2.0 * step))?;
                let second = (((above - &value)? - (value - below)?)? / (step * step))?;
                Ok((first, second))
            }
        }
    }
}

/// The network's own derivatives, with their shapes verified.
fn exact<M: EnergyModel>(
    model: &M,
    features: &M::Features,
    y: &Tensor,
    direction: &Tensor,
    order: Order,
) -> Result<DirectionalDerivatives> {
    let found = model.derivatives_along(features, y, direction, order)?;
    let sizes = &y.dims()[..2];
    for tensor in [&found.value, &found.first].into_iter().chain(&found.second) {
        check::dims("a result of EnergyModel::derivatives_along", tensor, "(B, M)", sizes)?;
    }
    Ok(found)
}

/// f at `y + k h v` for each k of `multiples`, all in one pass.
fn shifted<M: EnergyModel, const N: usize>(
    model: &M,
    features: &M::Features,
    y: &Tensor,
    direction: &Tensor,
    step: f64,
    multiples: [f64; N],
) -> Result<[Tensor; N]> {
    check::positive("step", step)?;
    let (_, count, _) = check::dims3("y", y)?;
    let shift = |k: f64| -> Result<Tensor> { Ok((y + (direction * (k * step))?)?) };
    let all = multiples.iter().map(|&k| shift(k)).collect::<Result<Vec<_>>>()?;
    let f = checked_score(model, features, &Tensor::cat(&all, 1)?)?;
    let mut parts = multiples.map(|_| f.clone());
    for (index, part) in parts.iter_mut().enumerate() {
        *part = f.narrow(1, index * count, count)?;
    }
    Ok(parts)
}

impl Directions {
    /// The directions, each `(B, M, D)`, and the weight of each in a sum that stands for `Σ_d`.
    pub(super) fn tensors(self, like: &Tensor, rng: &mut dyn RngCore) -> Result<(Vec<Tensor>, f64)> {
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
