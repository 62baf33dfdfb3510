//! Ascent of one candidate: the loop bodies of Algorithms S1 and S2.

use super::{GradientAscent, Stand, StepRule};

/// Reason why the refinement of a candidate ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The candidate made all T steps.
    Completed,
    /// f changed by less than Ω₁ (Algorithm S2).
    Converged,
    /// f fell by more than −Ω₂ (Algorithm S2).
    Degenerated,
    /// f was not finite at `y0`, which is returned unchanged; or, under a rule without backtracking, a step led
    /// to a non-finite y or f and was undone.
    NonFinite,
}

/// Record of the refinement of one candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CandidateOutcome {
    /// Number of steps that were kept.
    pub accepted: usize,
    /// Number of steps that were undone.
    pub rejected: usize,
    /// Final factor on λ, a power of η.
    pub step_scale: f64,
    /// Reason for the end.
    pub status: Status,
}

/// Point with f and the gradient of f.
#[derive(Clone)]
pub(super) struct Point {
    pub(super) y: Vec<f64>,
    pub(super) f: f64,
    pub(super) gradient: Vec<f64>,
}

/// Decision on a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// The step is kept, and the next step starts at its end.
    Continue,
    /// The step is undone, and the next step is shorter; or the candidate had finished.
    Reject,
    /// The step is the last one, and it is kept unless its f is not finite.
    Stop(Status),
}

pub(super) struct Candidate {
    pub(super) at: Point,
    /// f at the start of the last step.
    pub(super) before: f64,
    /// Best point so far, if the rule returns it.
    pub(super) best: Option<Point>,
    pub(super) outcome: CandidateOutcome,
    pub(super) finished: bool,
}

impl Candidate {
    pub(super) fn new(start: Point, rule: StepRule) -> Self {
        let finite = start.f.is_finite();
        let keep_best = matches!(rule, StepRule::EarlyStopping { keep_best: true, .. });
        let status = if finite { Status::Completed } else { Status::NonFinite };
        Self {
            best: keep_best.then(|| start.clone()),
            before: start.f,
            at: start,
            outcome: CandidateOutcome { accepted: 0, rejected: 0, step_scale: 1.0, status },
            finished: !finite,
        }
    }

    /// Returns `y + λ ∇f(x, y)`, or the present y if the candidate has finished.
    pub(super) fn propose(&self, step_lengths: &[f64]) -> Vec<f64> {
        if self.finished {
            return self.at.y.clone();
        }
        let steps = step_lengths.iter().zip(&self.at.gradient);
        let steps = steps.map(|(lambda, slope)| self.outcome.step_scale * lambda * slope);
        self.at.y.iter().zip(steps).map(|(y, step)| y + step).collect()
    }

    /// Returns the decision on a step to a point with the score `f`.
    pub(super) fn judge(&self, ascent: &GradientAscent, f: f64) -> Decision {
        let change = f - self.at.f;
        match ascent.rule {
            _ if self.finished => Decision::Reject,
            StepRule::Backtracking if f.is_finite() && change > 0.0 => Decision::Continue,
            StepRule::Backtracking => Decision::Reject,
            _ if !f.is_finite() => Decision::Stop(Status::NonFinite),
            StepRule::EarlyStopping { change_threshold, .. } if change.abs() < change_threshold => {
                Decision::Stop(Status::Converged)
            }
            StepRule::EarlyStopping { degeneration_tolerance, .. } if change < degeneration_tolerance => {
                Decision::Stop(Status::Degenerated)
            }
            StepRule::EarlyStopping { .. } | StepRule::Plain => Decision::Continue,
        }
    }

    /// Returns the record of the present point for an observer.
    pub(super) fn stand(&self, candidate: usize, is_kept: bool) -> Stand<'_> {
        Stand { candidate, y: &self.at.y, f: self.at.f, is_kept }
    }

    /// Takes or undoes the step to `proposed`, and returns whether it was taken; `None` is a point that is not
    /// finite.
    pub(super) fn advance(&mut self, ascent: &GradientAscent, proposed: Option<Point>) -> bool {
        if self.finished {
            return false;
        }
        self.before = self.at.f;
        let f = proposed.as_ref().map_or(f64::NAN, |point| point.f);
        let decision = self.judge(ascent, f);
        let kept =
            proposed.filter(|_| !matches!(decision, Decision::Reject | Decision::Stop(Status::NonFinite)));
        let is_kept = kept.is_some();
        match kept {
            Some(point) => {
                if self.best.as_ref().is_some_and(|best| point.f > best.f) {
                    self.best = Some(point.clone());
                }
                self.at = point;
                self.outcome.accepted += 1;
            }
            None => {
                self.outcome.rejected += 1;
                self.outcome.step_scale *= ascent.decay;
            }
        }
        if let Decision::Stop(status) = decision {
            self.outcome.status = status;
            self.finished = true;
        }
        is_kept
    }
}
