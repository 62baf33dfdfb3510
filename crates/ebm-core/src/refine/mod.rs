//! Section 3.3: prediction by gradient ascent.

mod ascent;
mod candidate;

use candle_core::{DType, Device, Tensor};

pub use ascent::{GradientAscent, StepRule};
use candidate::{Candidate, Point, Verdict};
pub use candidate::{CandidateOutcome, Status};

use crate::model::{checked_score, checked_score_and_grad};
use crate::{EnergyModel, Result, check, host};

/// The result of [`refine`].
#[derive(Clone, Debug)]
pub struct Refined {
    /// The refined candidates, `(B, M, D)`, with the type and device of `y0`.
    pub y: Tensor,
    /// f at `y0`, `(B, M)`.
    pub f_init: Tensor,
    /// f at [`y`](Self::y), `(B, M)`.
    pub f: Tensor,
    /// f where the last step began, `(B, M)`: at `y0` without a step.
    pub f_before: Tensor,
    /// What happened.
    pub outcome: Outcome,
}

/// What happened in a refinement.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// How often f was evaluated for all candidates together: T + 1 unless every candidate stopped before.
    pub evaluations: usize,
    /// Each candidate's own record, B × M in row-major order.
    pub candidates: Vec<CandidateOutcome>,
}

/// Where a candidate stands after a step of [`refine_observed`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stand<'a> {
    /// The candidate, from 0 to B × M in row-major order.
    pub candidate: usize,
    /// Where it is, D coordinates.
    pub y: &'a [f64],
    /// f there.
    pub f: f64,
    /// Whether the step was kept; true where it begins. An undone step leaves it where it was.
    pub is_kept: bool,
}

/// Climbs f from each of the candidates `y0`, shape `(B, M, D)`, independently of one another (Section 3.3;
/// supplement, Algorithms S1 and S2).
///
/// Algorithm S1 as printed evaluates f twice in a step; here each step costs one evaluation. The value at an
/// accepted point is the next step's PrevValue, and after a rejected step neither it nor the gradient
/// changed. Only the gradients where a step was kept are read
/// ([`EnergyModel::score_and_grad_where`](crate::EnergyModel::score_and_grad_where)).
///
/// The result is always finite in y. Under [`StepRule::Backtracking`] no candidate ends with a lower f than
/// it began with. A candidate whose f is not finite at `y0` stays there ([`Status::NonFinite`]). Without
/// candidates (B or M is 0) the model is not called.
///
/// # Errors
/// [`Error::Setting`](crate::Error::Setting) for bad settings, [`Error::NonFinite`](crate::Error::NonFinite)
/// for a bad `y0`, and [`Error::Shape`](crate::Error::Shape) when `y0` or a result of the model has the wrong
/// shape; else whatever the model reports.
pub fn refine<M: EnergyModel>(
    model: &M,
    features: &M::Features,
    y0: &Tensor,
    ascent: &GradientAscent,
) -> Result<Refined> {
    refine_observed(model, features, y0, ascent, &mut |_| ())
}

/// [`refine`], with `observe` told where every candidate stands: at `y0`, and after each step that it tries.
///
/// # Errors
/// Those of [`refine`].
pub fn refine_observed<M: EnergyModel>(
    model: &M,
    features: &M::Features,
    y0: &Tensor,
    ascent: &GradientAscent,
    observe: &mut dyn FnMut(Stand<'_>),
) -> Result<Refined> {
    let (batch, count, dim) = check::dims3("y0", y0)?;
    let step_lengths = ascent.step_lengths(dim)?;
    check::finite("y0", y0)?;
    if y0.elem_count() == 0 {
        let f = Tensor::zeros((batch, count), y0.dtype(), y0.device())?;
        let outcome = Outcome { evaluations: 0, candidates: Vec::new() };
        return Ok(Refined { y: y0.detach(), f_init: f.clone(), f_before: f.clone(), f, outcome });
    }

    // The decisions are made on the host: a few numbers for each candidate, next to a pass through a network.
    // In a step y goes to the device, f and its gradient come back, and nothing else is moved.
    let y0 = y0.detach();
    let read_first: &dyn Fn(usize, f64) -> bool = &|_, f| f.is_finite();
    let first = (ascent.steps > 0).then_some(read_first);
    let (f_init, points) = evaluate(model, features, &y0, &host::values(&y0)?, first)?;
    let mut candidates: Vec<_> = points.into_iter().map(|start| Candidate::new(start, ascent.rule)).collect();
    let mut evaluations = 1;
    for (place, candidate) in candidates.iter().enumerate() {
        observe(candidate.stand(place, true));
    }

    for step in 1..=ascent.steps {
        if candidates.iter().all(|candidate| candidate.finished) {
            break;
        }
        let (y, finite) = propose(&candidates, &step_lengths, y0.dtype())?;
        let on_device = host::tensor(y.clone(), y0.shape(), &y0)?;
        let goes_on =
            |place: usize, f: f64| finite[place] && candidates[place].verdict(ascent, f) == Verdict::GoesOn;
        let is_read: Option<&dyn Fn(usize, f64) -> bool> =
            if step < ascent.steps { Some(&goes_on) } else { None };
        let (_, points) = evaluate(model, features, &on_device, &y, is_read)?;
        evaluations += 1;
        let proposed = points.into_iter().zip(finite).map(|(point, finite)| finite.then_some(point));
        for (place, (candidate, point)) in candidates.iter_mut().zip(proposed).enumerate() {
            if !candidate.finished {
                let is_kept = candidate.decide(ascent, point);
                observe(candidate.stand(place, is_kept));
            }
        }
    }

    let before = candidates.iter().map(|candidate| candidate.before).collect();
    let f_before = host::tensor(before, (batch, count), &f_init)?;
    let returned = |candidate: Candidate| (candidate.best.unwrap_or(candidate.at), candidate.outcome);
    let (points, candidates): (Vec<_>, _) = candidates.into_iter().map(returned).unzip();
    let f = host::tensor(points.iter().map(|point| point.f).collect(), (batch, count), &f_init)?;
    let y = host::tensor(points.into_iter().flat_map(|point| point.y).collect(), y0.shape(), &y0)?;
    Ok(Refined { y, f_init, f, f_before, outcome: Outcome { evaluations, candidates } })
}

/// The proposed points, and which of them are finite. In place of one that is not stands the point that its
/// candidate comes from: a model need not bear what no rule would accept.
fn propose(candidates: &[Candidate], step_lengths: &[f64], dtype: DType) -> Result<(Vec<f64>, Vec<bool>)> {
    let proposed: Vec<f64> =
        candidates.iter().flat_map(|candidate| candidate.propose(step_lengths)).collect();
    // Rounded to the type of y0 first, where a number can overflow and where the model will see it.
    let mut proposed = host::values(&Tensor::from_vec(proposed, ((),), &Device::Cpu)?.to_dtype(dtype)?)?;
    let mut finite = Vec::with_capacity(candidates.len());
    for (candidate, y) in candidates.iter().zip(proposed.chunks_exact_mut(step_lengths.len())) {
        let is_finite = y.iter().all(|coordinate| coordinate.is_finite());
        if !is_finite {
            y.copy_from_slice(&candidate.at.y);
        }
        finite.push(is_finite);
    }
    Ok((proposed, finite))
}

/// f at y, given on the device and on the host, as a tensor `(B, M)`, and the same by candidate, with
/// the gradients that `is_read` names, if the next step needs any.
fn evaluate<M: EnergyModel>(
    model: &M,
    features: &M::Features,
    y: &Tensor,
    values: &[f64],
    is_read: Option<&dyn Fn(usize, f64) -> bool>,
) -> Result<(Tensor, Vec<Point>)> {
    let (f, gradients) = match is_read {
        Some(is_read) => {
            let (f, gradient) = checked_score_and_grad(model, features, y, is_read)?;
            (f.detach(), host::values(&gradient)?)
        }
        None => (checked_score(model, features, y)?.detach(), Vec::new()),
    };
    let dim = y.dim(2)?;
    let points =
        host::values(&f)?.into_iter().zip(values.chunks_exact(dim)).enumerate().map(|(index, (f, y))| {
            let gradient = gradients.get(index * dim..(index + 1) * dim).unwrap_or_default();
            Point { y: y.to_vec(), f, gradient: gradient.to_vec() }
        });
    let points = points.collect();
    Ok((f, points))
}
