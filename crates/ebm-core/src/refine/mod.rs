//! Prediction by gradient ascent (Section 3.3).

mod ascent;
mod candidate;

use candle_core::{DType, Device, Tensor};

pub use ascent::{GradientAscent, StepRule};
use candidate::{Candidate, Decision, Point};
pub use candidate::{CandidateOutcome, Status};

use crate::model::{checked_score, checked_score_and_grad};
use crate::{EnergyModel, Result, check, host};

/// Result of [`refine`].
#[derive(Clone, Debug)]
pub struct Refined {
    /// Refined candidates, `(B, M, D)`, with the type and device of `y0`.
    pub y: Tensor,
    /// f at `y0`, `(B, M)`.
    pub f_init: Tensor,
    /// f at [`y`](Self::y), `(B, M)`.
    pub f: Tensor,
    /// f at the start of the last step, `(B, M)`; without a step, f at `y0`.
    pub f_before: Tensor,
    /// Record of the refinement.
    pub outcome: Outcome,
}

/// Record of a refinement.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Number of evaluations of f for all candidates together: T + 1, or fewer if every candidate stopped
    /// earlier.
    pub evaluations: usize,
    /// Records of the B × M candidates in row-major order.
    pub candidates: Vec<CandidateOutcome>,
}

/// State of a candidate after a step of [`refine_observed`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stand<'a> {
    /// Index of the candidate among the B × M in row-major order.
    pub candidate: usize,
    /// Coordinates of the candidate, D numbers.
    pub y: &'a [f64],
    /// Score at `y`.
    pub f: f64,
    /// Whether the step was kept; `true` at the start. An undone step leaves `y` unchanged.
    pub is_kept: bool,
}

/// Refines each of the candidates `y0`, shape `(B, M, D)`, by gradient ascent on f, independently of the others
/// (Section 3.3; supplement, Algorithms S1 and S2).
///
/// Algorithm S1 as printed evaluates f twice per step; this function evaluates it once. The value at an accepted
/// point is the PrevValue of the next step, and a rejected step changes neither this value nor the gradient.
/// Gradients are computed only at accepted points
/// ([`EnergyModel::score_and_grad_where`](crate::EnergyModel::score_and_grad_where)).
///
/// The resulting y is always finite. Under [`StepRule::Backtracking`] no candidate ends with a lower f than it
/// had at `y0`. A candidate whose f is not finite at `y0` stays there ([`Status::NonFinite`]). If B or M is 0,
/// the model is not called.
///
/// # Errors
/// [`Error::Setting`](crate::Error::Setting) for bad settings; [`Error::NonFinite`](crate::Error::NonFinite) for
/// a bad `y0`; [`Error::Shape`](crate::Error::Shape) if `y0` or a result of the model has the wrong shape;
/// otherwise the error of the model.
pub fn refine<M: EnergyModel>(
    model: &M,
    features: &M::Features,
    y0: &Tensor,
    ascent: &GradientAscent,
) -> Result<Refined> {
    refine_observed(model, features, y0, ascent, &mut |_| ())
}

/// Refines like [`refine`], and calls `observe` with every candidate at `y0` and after each of its steps.
///
/// # Errors
/// The errors of [`refine`].
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

    // The CPU decides: this is little work next to a pass through a network. In a step y goes to the device, f
    // and its gradient come back, and nothing else is moved.
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
            |place: usize, f: f64| finite[place] && candidates[place].judge(ascent, f) == Decision::Continue;
        let needs_gradient: Option<&dyn Fn(usize, f64) -> bool> =
            if step < ascent.steps { Some(&goes_on) } else { None };
        let (_, points) = evaluate(model, features, &on_device, &y, needs_gradient)?;
        evaluations += 1;
        let proposed = points.into_iter().zip(finite).map(|(point, finite)| finite.then_some(point));
        for (place, (candidate, point)) in candidates.iter_mut().zip(proposed).enumerate() {
            if !candidate.finished {
                let is_kept = candidate.advance(ascent, point);
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

/// Returns the proposed points, and whether each is finite. A non-finite point is replaced by the candidate's
/// present point, because a model need not accept it and every rule rejects it.
fn propose(candidates: &[Candidate], step_lengths: &[f64], dtype: DType) -> Result<(Vec<f64>, Vec<bool>)> {
    let proposed: Vec<f64> =
        candidates.iter().flat_map(|candidate| candidate.propose(step_lengths)).collect();
    // The points are first rounded to the type of y0, in which they can overflow and the model sees them.
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

/// Evaluates f at `y`, whose elements are also given as `values`. Returns f as a tensor `(B, M)` and one point
/// per candidate. If `needs_gradient` is given, the points that it selects have their gradients.
fn evaluate<M: EnergyModel>(
    model: &M,
    features: &M::Features,
    y: &Tensor,
    values: &[f64],
    needs_gradient: Option<&dyn Fn(usize, f64) -> bool>,
) -> Result<(Tensor, Vec<Point>)> {
    let (f, gradients) = match needs_gradient {
        Some(needs_gradient) => {
            let (f, gradient) = checked_score_and_grad(model, features, y, needs_gradient)?;
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
