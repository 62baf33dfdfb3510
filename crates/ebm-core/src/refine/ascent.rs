//! Settings of a refinement.

use ebm_base::{settings, settings_table};
use serde::{Deserialize, Serialize};

use crate::{Result, check};

settings_table! {
    /// Settings of [`refine`](crate::refine): T steps of gradient ascent with length λ under a [`StepRule`].
    pub struct GradientAscent {
        /// T, the number of steps; 0 only evaluates f. The limit is a hundred times the usual number: a file from
        /// elsewhere could ask for days of them.
        pub steps: usize where 0..=1000,
        /// Step length λ, not negative: one number per coordinate of y, or one for all coordinates.
        pub step_length: Vec<f64> where 0.0..=1e6,
        /// η in (0, 1], the factor on a candidate's step length after a rejected step. Only
        /// [`StepRule::Backtracking`] rejects steps; the other rules require η = 1, which is the default in a
        /// file.
        #[serde(default = "no_decay")]
        pub decay: f64 where 1e-6..=1.0,
        /// Rule that keeps steps and stops the ascent.
        pub rule: StepRule,
    }
}

settings! {
    /// Rule that keeps or rejects the steps of a refinement, separately for each candidate.
    ///
    /// No rule keeps a step to a non-finite y or f.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "snake_case")]
    pub enum StepRule {
        /// Algorithm S1 of the supplement: a step is kept only if it increases f; otherwise λ becomes η λ.
        Backtracking,
        /// Algorithm S2 of the supplement: every step is kept. A candidate stops after a step that changes f by
        /// less than Ω₁ in either direction, or by less than Ω₂ < 0, which is clearly worse.
        EarlyStopping {
            /// Ω₁ ≥ 0; the paper uses 1e-3.
            change_threshold: f64 where 0.0..=1e6,
            /// Ω₂ ≤ 0; the paper uses −1e-2.
            degeneration_tolerance: f64 where -1e6..=0.0,
            /// Whether to return the best y that the candidate visited. Otherwise (the paper's algorithm, the
            /// default) the last y is returned, even if its f is lower than at `y0`.
            #[serde(default)]
            keep_best: bool,
        },
        /// Every step is kept, as in ATOM (supplement, Visual Tracking, Inference).
        Plain,
    }
}

fn no_decay() -> f64 {
    1.0
}

impl GradientAscent {
    /// Checks all settings that do not depend on y.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting) with the name of the first bad setting.
    pub fn check(&self) -> Result<()> {
        let lambda = &self.step_length;
        check::setting(
            "step_length",
            lambda.iter().all(|length| (0.0..f64::INFINITY).contains(length)),
            format!("{lambda:?}"),
            "made of finite numbers that are not negative",
        )?;
        let eta = self.decay;
        check::setting("decay", eta > 0.0 && eta <= 1.0, eta, "in (0, 1]")?;
        check::setting(
            "decay",
            eta == 1.0 || self.rule == StepRule::Backtracking,
            eta,
            "1 unless the rule is backtracking: the other rules reject no step",
        )?;
        if let StepRule::EarlyStopping { change_threshold, degeneration_tolerance, .. } = self.rule {
            check::setting(
                "change_threshold",
                (0.0..f64::INFINITY).contains(&change_threshold),
                change_threshold,
                "finite and not negative",
            )?;
            check::setting(
                "degeneration_tolerance",
                (0.0..f64::INFINITY).contains(&-degeneration_tolerance),
                degeneration_tolerance,
                "finite and not positive",
            )?;
        }
        Ok(())
    }

    /// Returns λ for each of `dim` coordinates, after a check of all settings.
    pub(super) fn step_lengths(&self, dim: usize) -> Result<Vec<f64>> {
        self.check()?;
        let lambda = &self.step_length;
        check::setting(
            "step_length",
            lambda.len() == 1 || lambda.len() == dim,
            format!("{lambda:?}"),
            "one number, or one per coordinate of y",
        )?;
        Ok(if lambda.len() == 1 { vec![lambda[0]; dim] } else { lambda.clone() })
    }
}
