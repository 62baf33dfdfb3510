//! Samples of p(y | x) by Langevin dynamics.

use candle_core::{D, Tensor};
use rand::RngCore;
use serde::{Deserialize, Serialize};

use super::chains::{Acceptance, Chains, State, check_start, choose, metropolis, rows_finite};
use crate::{EnergyModel, Result, check, fused, host};

/// How [`langevin`] moves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Langevin {
    /// L, the number of steps, at least 1.
    pub steps: usize,
    /// λ > 0, in the units of y: the standard deviation of a step's noise.
    pub step_size: f64,
    /// Whether each step is subject to the test of Metropolis (MALA), so that the chains converge to p
    /// itself. Without it they converge to p with an error that vanishes with λ.
    pub adjusted: bool,
}

/// Runs one Markov chain from each of `y0`, shape `(B, M, D)`:
/// `y ← y + (λ²/2) ∇_y f(x, y) + λ ε` with `ε ~ N(0, I)`, L times.
///
/// The states stay on their device. A proposal that is not finite in y is rejected; so is, at the next step,
/// one where f or its gradient is not finite. The unadjusted chains evaluate f and its gradient L times, and
/// never at the states that are returned; the adjusted ones L + 1 times. Unadjusted, a chain from a y0 with f
/// = −∞ or NaN wanders by the noise alone until it finds a finite f; adjusted, it accepts the first finite f.
///
/// # Errors
/// [`Error::Setting`](crate::Error::Setting) for bad settings, [`Error::Empty`](crate::Error::Empty) without
/// chains, [`Error::NonFinite`](crate::Error::NonFinite) for a bad `y0`; else whatever the model reports.
pub fn langevin<M: EnergyModel>(
    model: &M,
    features: &M::Features,
    y0: &Tensor,
    settings: &Langevin,
    rng: &mut dyn RngCore,
) -> Result<Chains> {
    let &Langevin { steps, step_size: lambda, adjusted } = settings;
    check::at_least_one("steps", steps)?;
    check::positive("step_size", lambda)?;
    check_start(y0)?;
    let y0 = y0.detach();
    if adjusted {
        mala(model, features, y0, steps, lambda, rng)
    } else {
        plain(model, features, y0, steps, lambda, rng)
    }
}

fn plain<M: EnergyModel>(
    model: &M,
    features: &M::Features,
    y0: Tensor,
    steps: usize,
    lambda: f64,
    rng: &mut dyn RngCore,
) -> Result<Chains> {
    let mut acceptance = Acceptance::new();
    let mut state = State::at(model, features, y0)?;
    let count = state.f.elem_count();
    for step in 1..=steps {
        let noise = host::standard_normal(state.y.shape(), &state.y, rng)?;
        let (y, finite) = match fused::langevin_step(&state.y, &state.gradient, &noise, lambda)? {
            Some(y) => (y, None),
            None => propose(&state, lambda, &noise).map(|(y, finite)| (y, Some(finite)))?,
        };
        if step == steps {
            match finite {
                Some(finite) => acceptance.count(&finite)?,
                None => acceptance.count_all(count),
            }
            state.y = y;
            break;
        }
        let proposed = State::at(model, features, y)?;
        if finite.is_none() && proposed.all_usable {
            acceptance.count_all(count);
            state = proposed;
            continue;
        }
        let wandering = state.f.eq(f64::NEG_INFINITY)?;
        let usable = proposed.f.gt(f64::NEG_INFINITY)?.maximum(&wandering)?;
        let accepted = match finite {
            Some(finite) => (usable * finite)?,
            None => usable,
        };
        acceptance.count(&accepted)?;
        state = state.replaced(&accepted, &proposed)?;
    }
    Ok(Chains { y: state.y, acceptance_rate: acceptance.rate()? })
}

fn mala<M: EnergyModel>(
    model: &M,
    features: &M::Features,
    y0: Tensor,
    steps: usize,
    lambda: f64,
    rng: &mut dyn RngCore,
) -> Result<Chains> {
    let mut acceptance = Acceptance::new();
    let mut state = State::at(model, features, y0)?;
    for _ in 0..steps {
        let noise = host::standard_normal(state.y.shape(), &state.y, rng)?;
        let (y, finite) = propose(&state, lambda, &noise)?;
        let proposed = State::at(model, features, y)?;
        // log q(y | y') − log q(y' | y); the way back needs the noise −(ε + (λ/2)(∇f + ∇f')).
        let back = (&noise + ((&state.gradient + &proposed.gradient)? * (0.5 * lambda))?)?;
        let log_q_ratio = ((noise.sqr()? - back.sqr()?)?.sum(D::Minus1)? * 0.5)?;
        let log_ratio = ((&proposed.f - &state.f)? + log_q_ratio)?;
        let accepted = (metropolis(&log_ratio, rng)? * finite)?;
        acceptance.count(&accepted)?;
        state = state.replaced(&accepted, &proposed)?;
    }
    Ok(Chains { y: state.y, acceptance_rate: acceptance.rate()? })
}

/// A step of all chains, and which of them, `(B, M)`, stay finite; the others keep their place, since a model
/// need not bear what will not be accepted.
fn propose(state: &State, lambda: f64, noise: &Tensor) -> Result<(Tensor, Tensor)> {
    let drift = (&state.gradient * (0.5 * lambda * lambda))?;
    let y = ((&state.y + drift)? + (noise * lambda)?)?;
    let finite = rows_finite(&y)?;
    Ok((choose(&finite, &y, &state.y)?, finite))
}
