//! What the samplers share: the state of many Markov chains on the model's device.

use candle_core::{DType, Tensor};
use rand::{Rng, RngCore};

use crate::model::checked_score_and_grad;
use crate::{EnergyModel, Error, Result, check, fused, host};

/// The result of [`langevin`](crate::langevin) and [`hmc`](crate::hmc).
#[derive(Clone, Debug)]
pub struct Chains {
    /// The last states of the M chains of each input, `(B, M, D)`, with the type and device of `y0`,
    /// detached.
    pub y: Tensor,
    /// The fraction of the proposals, over all chains and steps, that were kept.
    pub acceptance_rate: f64,
}

/// Requires chains `(B, M, D)` to be there and to start at finite y.
pub(super) fn check_start(y0: &Tensor) -> Result<()> {
    check::dims3("y0", y0)?;
    if y0.elem_count() == 0 {
        return Err(Error::Empty { what: "y0", shape: y0.dims().to_vec() });
    }
    // One number comes from the device unless there is something to report.
    let finite = is_finite(&y0.detach())?.flatten_all()?.min(0)?.to_scalar::<u8>()? == 1;
    if finite { Ok(()) } else { check::finite("y0", y0) }
}

/// Where chains are, `(B, M, D)`, with f `(B, M)` and its gradient there.
#[derive(Clone)]
pub(super) struct State {
    pub(super) y: Tensor,
    /// −∞ wherever f or a part of its gradient is not finite.
    pub(super) f: Tensor,
    /// 0 wherever f is −∞.
    pub(super) gradient: Tensor,
    /// Whether it is known that f is finite everywhere, which only a look at the CPU's memory tells for
    /// nothing.
    pub(super) all_usable: bool,
}

impl State {
    /// Evaluates the model once at `y`.
    pub(super) fn at<M: EnergyModel>(model: &M, features: &M::Features, y: Tensor) -> Result<Self> {
        let (f, gradient) = checked_score_and_grad(model, features, &y, &|_, _| true)?;
        let (f, gradient) = (f.detach(), gradient.detach());
        if fused::are_all_finite(&f)? && fused::are_all_finite(&gradient)? {
            return Ok(Self { y, f, gradient, all_usable: true });
        }
        let usable = (is_finite(&f)? * rows_finite(&gradient)?)?;
        let nowhere = Tensor::full(f64::NEG_INFINITY, (), f.device())?.to_dtype(f.dtype())?;
        Ok(Self {
            f: usable.where_cond(&f, &nowhere.broadcast_as(f.shape())?)?,
            gradient: choose(&usable, &gradient, &gradient.zeros_like()?)?,
            all_usable: false,
            y,
        })
    }

    /// `other` for the chains where `accepted`, `(B, M)`, is 1, and this state for the others.
    pub(super) fn replaced(&self, accepted: &Tensor, other: &Self) -> Result<Self> {
        Ok(Self {
            y: choose(accepted, &other.y, &self.y)?,
            f: accepted.where_cond(&other.f, &self.f)?,
            gradient: choose(accepted, &other.gradient, &self.gradient)?,
            all_usable: self.all_usable && other.all_usable,
        })
    }
}

/// Counts accepted proposals without waiting for the device before the end.
pub(super) struct Acceptance {
    accepted: Option<Tensor>,
    accepted_at_once: usize,
    proposed: usize,
}

impl Acceptance {
    pub(super) fn new() -> Self {
        Self { accepted: None, accepted_at_once: 0, proposed: 0 }
    }

    /// Adds a step in which all `count` proposals were accepted.
    pub(super) fn count_all(&mut self, count: usize) {
        self.proposed += count;
        self.accepted_at_once += count;
    }

    /// Adds the decisions `(B, M)`, 0 or 1, of one step.
    pub(super) fn count(&mut self, accepted: &Tensor) -> Result<()> {
        self.proposed += accepted.elem_count();
        let accepted = accepted.to_dtype(DType::U32)?.sum_all()?;
        self.accepted = Some(match self.accepted.take() {
            Some(before) => (before + accepted)?,
            None => accepted,
        });
        Ok(())
    }

    /// The fraction of accepted proposals; NaN before the first.
    pub(super) fn rate(self) -> Result<f64> {
        let accepted = self.accepted.map_or(Ok(0), |count| count.to_scalar::<u32>())?;
        Ok((f64::from(accepted) + self.accepted_at_once as f64) / self.proposed as f64)
    }
}

/// The test of Metropolis: 1, with the probability min(1, exp `log_ratio`), where a proposal is accepted.
/// Never where the ratio is NaN.
pub(super) fn metropolis(log_ratio: &Tensor, rng: &mut dyn RngCore) -> Result<Tensor> {
    let uniform = (0..log_ratio.elem_count()).map(|_| (1.0 - rng.random::<f64>()).ln()).collect();
    Ok(host::tensor(uniform, log_ratio.shape(), log_ratio)?.lt(log_ratio)?)
}

/// `a` where `mask`, `(B, M)`, is 1 and `b` elsewhere, both `(B, M, D)`.
pub(super) fn choose(mask: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    Ok(mask.unsqueeze(2)?.broadcast_as(a.shape())?.where_cond(a, b)?)
}

/// 1 for the chains, `(B, M)`, all of whose D coordinates are finite.
pub(super) fn rows_finite(y: &Tensor) -> Result<Tensor> {
    // A sum that overflows belongs to a y that is of no use either.
    is_finite(&y.abs()?.sum(2)?)
}

/// 1 where `x` is finite.
fn is_finite(x: &Tensor) -> Result<Tensor> {
    Ok(x.abs()?.lt(f64::INFINITY)?)
}
