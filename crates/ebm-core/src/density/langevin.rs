//! Samples of p(y | x) by Langevin dynamics.

use candle_core::Tensor;
use rand::RngCore;

use crate::model::checked_score_and_grad;
use crate::{EnergyModel, Error, Result, check, fused, host};

/// Runs one Markov chain from each of `y0`, shape `(B, M, D)`, and returns where they are after L = `steps`
/// steps: `y ← y + (λ²/2) ∇_y f(x, y) + λ ε` with `ε ~ N(0, I)`, λ > 0 being the `step_size` in the units of y.
/// The chains converge to p with an error that vanishes with λ.
///
/// The states stay on their device; the result has the type and device of `y0` and is detached. f and its
/// gradient are evaluated L times, and never at the states that are returned. A proposal that is not finite in
/// y is rejected; so is, at the next step, one where f or its gradient is not finite. A chain from a y0 with
/// f = −∞ or NaN wanders by the noise alone until it finds a finite f.
///
/// # Errors
/// [`Error::Setting`] for bad settings, [`Error::Empty`] without chains, [`Error::NonFinite`] for a bad `y0`;
/// else whatever the model reports.
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

/// Where chains are, `(B, M, D)`, with f `(B, M)` and its gradient there.
struct State {
    y: Tensor,
    /// −∞ wherever f or a part of its gradient is not finite.
    f: Tensor,
    /// 0 wherever f is −∞.
    gradient: Tensor,
    /// Whether it is known that f is finite everywhere, which only a look at the CPU's memory tells for
    /// nothing.
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

    /// A step of all chains, and which of them, `(B, M)`, stay finite, or none where all do. The others keep
    /// their place, since a model need not bear what will not be accepted.
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

    /// `other` for the chains where `accepted`, `(B, M)`, is 1, and this state for the others.
    fn replaced(&self, accepted: &Tensor, other: &Self) -> Result<Self> {
        Ok(Self {
            y: choose(accepted, &other.y, &self.y)?,
            f: accepted.where_cond(&other.f, &self.f)?,
            gradient: choose(accepted, &other.gradient, &self.gradient)?,
            all_usable: self.all_usable && other.all_usable,
        })
    }
}

/// `a` where `mask`, `(B, M)`, is 1 and `b` elsewhere, both `(B, M, D)`.
fn choose(mask: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    Ok(mask.unsqueeze(2)?.broadcast_as(a.shape())?.where_cond(a, b)?)
}

/// 1 for the chains, `(B, M)`, all of whose D coordinates are finite.
fn rows_finite(y: &Tensor) -> Result<Tensor> {
    // A sum that overflows belongs to a y that is of no use either.
    is_finite(&y.abs()?.sum(2)?)
}

/// 1 where `x` is finite.
fn is_finite(x: &Tensor) -> Result<Tensor> {
    Ok(x.abs()?.lt(f64::INFINITY)?)
}
