//! Samples of p(y | x) by Hamiltonian Monte Carlo.

use candle_core::{D, Tensor};
use rand::RngCore;
use serde::{Deserialize, Serialize};

use super::chains::{Acceptance, Chains, State, check_start, choose, metropolis, rows_finite};
use crate::{EnergyModel, Result, check, host};

/// How [`hmc`] moves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hmc {
    /// The number of proposals, at least 1.
    pub steps: usize,
    /// The leapfrog steps that lead to one proposal, at least 1.
    pub leapfrog_steps: usize,
    /// The length ε > 0 of a leapfrog step, in the units of y: the mass is 1.
    pub step_size: f64,
}

/// Runs one Markov chain from each of `y0`, shape `(B, M, D)`: a particle of position y and momentum
/// `p ~ N(0, I)` moves in the potential −f(x, y) by the leapfrog rule, and the test of Metropolis decides on
/// where it arrives.
///
/// The states stay on their device. The model is evaluated, with its gradient, `1 + steps · leapfrog_steps`
/// times. A proposal that is not finite in y, f or the gradient of f is rejected; where f is −∞ the particle
/// feels no force.
///
/// On a mode of standard deviation σ a trajectory of the length `leapfrog_steps · ε = π σ` ends at the mirror
/// image of its start, whatever the momentum, and the chain does not mix: choose a shorter one, about
/// `π σ / 2`.
///
/// # Errors
/// Those of [`langevin`](crate::langevin).
pub fn hmc<M: EnergyModel>(
    model: &M,
    features: &M::Features,
    y0: &Tensor,
    settings: &Hmc,
    rng: &mut dyn RngCore,
) -> Result<Chains> {
    let &Hmc { steps, leapfrog_steps, step_size } = settings;
    check::setting("steps", steps > 0, steps, "at least 1")?;
    check::setting("leapfrog_steps", leapfrog_steps > 0, leapfrog_steps, "at least 1")?;
    check::setting("step_size", step_size > 0.0 && step_size.is_finite(), step_size, "positive and finite")?;
    check_start(y0)?;

    let mut acceptance = Acceptance::new();
    let mut state = State::at(model, features, y0.detach())?;
    for _ in 0..steps {
        let start = host::standard_normal(state.y.shape(), &state.y, rng)?;
        let kick = |momentum: &Tensor, gradient: &Tensor| momentum + (gradient * (0.5 * step_size))?;
        let (mut momentum, mut moving) = (start.clone(), state.clone());
        let mut finite = rows_finite(&start)?;
        for _ in 0..leapfrog_steps {
            momentum = kick(&momentum, &moving.gradient)?;
            let y = (&moving.y + (&momentum * step_size)?)?;
            // A particle that has left the numbers stands still: a model need not bear what will be rejected.
            finite = (finite * rows_finite(&y)?)?;
            moving = State::at(model, features, choose(&finite, &y, &moving.y)?)?;
            momentum = kick(&momentum, &moving.gradient)?;
        }
        let kinetic = ((start.sqr()? - momentum.sqr()?)?.sum(D::Minus1)? * 0.5)?;
        let log_ratio = ((&moving.f - &state.f)? + kinetic)?;
        let accepted = (metropolis(&log_ratio, rng)? * finite)?;
        acceptance.count(&accepted)?;
        state = state.replaced(&accepted, &moving)?;
    }
    Ok(Chains { y: state.y, acceptance_rate: acceptance.rate()? })
}
