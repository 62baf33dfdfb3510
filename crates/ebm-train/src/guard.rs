//! Guard against non-finite values: a NaN or infinite loss or gradient never reaches the parameters.

use crate::error::{Error, Result};

/// Number of steps for which a skipped update is counted.
const WINDOW: usize = 100;
/// Number of skipped updates within [`WINDOW`] steps that is an error.
const LIMIT: usize = 3;

/// Record of recent steps at which the loss or the gradient norm was not finite. The third such step within 100
/// is an error, because more skipping would hide that training has diverged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NonFiniteGuard {
    hits: Vec<usize>,
}

impl NonFiniteGuard {
    /// Makes a guard that remembers `hits` (ascending steps), as a resumed run needs it.
    pub fn new(hits: Vec<usize>) -> Self {
        Self { hits }
    }

    /// Returns the remembered steps, ascending.
    pub fn hits(&self) -> &[usize] {
        &self.hits
    }

    /// Returns whether the update of a step may be applied: its loss and its gradient's norm are finite. Steps
    /// must not decrease from call to call.
    ///
    /// # Errors
    /// [`Error::NonFinite`] at the third hit within 100 steps.
    pub fn check(&mut self, step: usize, loss: f64, grad_norm: f64) -> Result<bool> {
        self.hits.retain(|&hit| hit + WINDOW > step);
        if loss.is_finite() && grad_norm.is_finite() {
            return Ok(true);
        }
        self.hits.push(step);
        if self.hits.len() >= LIMIT {
            let reason = format!(
                "loss {loss}, gradient norm {grad_norm}: not finite at steps {:?}; lower the learning rate, clip \
                 gradients or look at these batches",
                self.hits
            );
            return Err(Error::NonFinite(step, reason));
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_non_finite_value_is_a_hit() {
        for (loss, grad_norm) in
            [(f64::NAN, 1.0), (f64::INFINITY, 1.0), (1.0, f64::NAN), (1.0, f64::NEG_INFINITY)]
        {
            let mut guard = NonFiniteGuard::default();
            assert!(!guard.check(5, loss, grad_norm).unwrap());
            assert_eq!(guard.hits(), [5]);
        }
        assert!(NonFiniteGuard::default().check(5, f64::MAX, 0.0).unwrap());
    }

    #[test]
    fn the_third_hit_within_a_hundred_steps_is_an_error() {
        for (third, fails) in [(109, true), (110, false)] {
            let mut guard = NonFiniteGuard::default();
            for step in 0..third {
                let loss = if step == 10 || step == 50 { f64::NAN } else { 1.0 };
                guard.check(step, loss, 1.0).unwrap();
            }
            match guard.check(third, f64::NAN, 1.0) {
                Err(Error::NonFinite(step, reason)) => {
                    assert!(fails && step == third);
                    assert!(reason.contains(&format!("at steps [10, 50, {third}]")), "{reason}");
                }
                other => assert!(!fails && !other.unwrap()),
            }
        }
    }

    #[test]
    fn a_resumed_guard_remembers() {
        let mut guard = NonFiniteGuard::new(vec![10, 50]);
        assert!(guard.check(60, f64::NAN, 1.0).is_err());
    }
}
