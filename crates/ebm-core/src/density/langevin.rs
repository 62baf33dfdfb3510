//! Samples of p(y | x) by Langevin dynamics.

use candle_core::Tensor;
use rand::RngCore;

use crate::model::checked_score_and_grad;
use crate::{EnergyModel, Error, Result, check, fused, host};

/// Runs one Markov chain of L = `steps` Langevin steps from each candidate of `y0` and returns the final
/// states, both `(B, M, D)`. A step is `y ← y + (λ²/2) ∇_y f(x, y) + λ ε` with `ε ~ N(0, I)`, where λ > 0 is
/// the `step_size` in the units of y. The chains converge to p with an error that vanishes with λ.
///
/// The states stay on their device. The result has the type and device of `y0` and is detached. f and its
/// gradient are evaluated L times, but not at the returned states. A step to a non-finite y is rejected. A step
/// to a y with a non-finite f or gradient is rejected at the next step. A chain from a y0 with f = −∞ or NaN
/// follows the noise alone until it reaches a finite f.
///
/// # Errors
/// [`Error::Setting`] for bad settings, [`Error::Empty`] without chains, [`Error::NonFinite`] for a bad `y0`;
/// otherwise the error of the model.
pub fn langevin<M: EnergyModel>(
    model: &M,
    features: &M::Features,
    y0: &Tensor,
    steps: usize,
    step_size: f64,
    rng: &mut dyn RngCore,
) -> Result<Tensor> {
    check::at_least_one("steps", steps)?;
    check::positive("step_size", step_size)?;
    check::dims3("y0", y0)?;
    if y0.elem_count() == 0 {
        return Err(Error::Empty { what: "y0", shape: y0.dims().to_vec() });
    }
    if !fused::are_all_finite(y0)? {
        check::finite("y0", y0)?;
    }
    let mut state = State::at(model, features, y0.detach())?;
    for _ in 1..steps {
        let (y, finite) = state.propose(step_size, rng)?;
        let proposed = State::at(model, features, y)?;
        if finite.is_none() && proposed.all_usable {
            state = proposed;
            continue;
        }
        let wandering = state.f.eq(f64::NEG_INFINITY)?;
        let usable = proposed.f.gt(f64::NEG_INFINITY)?.maximum(&wandering)?;
        let accepted = match finite {
            Some(finite) => (usable * finite)?,
            None => usable,
        };
        state = state.replaced(&accepted, &proposed)?;
    }
    Ok(state.propose(step_size, rng)?.0)
}

/// States of the chains, `(B, M, D)`, with f, `(B, M)`, and its gradient.
struct State {
    y: Tensor,
    /// f, replaced by −∞ where f or a part of its gradient is not finite.
    f: Tensor,
    /// Gradient of f, replaced by 0 where f is −∞.
    gradient: Tensor,
    /// Whether f and its gradient are known to be finite. Only tensors on the CPU can be checked without a copy.
    all_usable: bool,
}

impl State {
    /// Evaluates the model once at `y`.
    fn at<M: EnergyModel>(model: &M, features: &M::Features, y: Tensor) -> Result<Self> {
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

    /// Proposes a step of all chains. Returns the new states and the mask, `(B, M)`, of the chains that stay
    /// finite, or no mask if all do. The other chains keep their state, because a model need not accept a
    /// non-finite y.
    fn propose(&self, lambda: f64, rng: &mut dyn RngCore) -> Result<(Tensor, Option<Tensor>)> {
        let noise = host::standard_normal(self.y.shape(), &self.y, rng)?;
        if let Some(y) = fused::langevin_step(&self.y, &self.gradient, &noise, lambda)? {
            return Ok((y, None));
        }
        let drift = (&self.gradient * (0.5 * lambda * lambda))?;
        let y = ((&self.y + drift)? + (noise * lambda)?)?;
        let finite = rows_finite(&y)?;
        Ok((choose(&finite, &y, &self.y)?, Some(finite)))
    }

    /// Returns `other` for the chains where `accepted`, `(B, M)`, is 1, and this state for the others.
    fn replaced(&self, accepted: &Tensor, other: &Self) -> Result<Self> {
        Ok(Self {
            y: choose(accepted, &other.y, &self.y)?,
            f: accepted.where_cond(&other.f, &self.f)?,
            gradient: choose(accepted, &other.gradient, &self.gradient)?,
            all_usable: self.all_usable && other.all_usable,
        })
    }
}

/// Returns `a` where `mask`, `(B, M)`, is 1 and `b` elsewhere, both `(B, M, D)`.
fn choose(mask: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    Ok(mask.unsqueeze(2)?.broadcast_as(a.shape())?.where_cond(a, b)?)
}

/// Returns 1 for each chain, `(B, M)`, whose D coordinates are all finite.
fn rows_finite(y: &Tensor) -> Result<Tensor> {
    // A sum that overflows belongs to a y that is not usable either.
    is_finite(&y.abs()?.sum(2)?)
}

/// Returns 1 where `x` is finite.
fn is_finite(x: &Tensor) -> Result<Tensor> {
    Ok(x.abs()?.lt(f64::INFINITY)?)
}
