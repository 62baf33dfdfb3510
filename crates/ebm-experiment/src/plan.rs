//! What an experiment would do, with proof that its steps work.

use ebm_train::{Error as TrainError, Progress, TrainTask};

use crate::Result;

/// Steps of each network that a plan takes.
const STEPS: usize = 2;

/// What an experiment would do.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// A fact a line.
    pub lines: Vec<String>,
    /// The first steps of each network.
    pub steps: Vec<PlannedSteps>,
}

/// The first steps of a network.
#[derive(Clone, Debug)]
pub struct PlannedSteps {
    /// Its method's key.
    pub key: String,
    /// What tables call it.
    pub title: String,
    /// The loss of each.
    pub losses: Vec<f64>,
}

impl Plan {
    /// Adds a fact.
    pub fn line(&mut self, text: impl Into<String>) {
        self.lines.push(text.into());
    }

    /// Takes two steps of `task` as a stage of `progress`.
    ///
    /// # Errors
    /// When a step fails.
    pub fn take_steps<T: TrainTask>(
        &mut self,
        key: &str,
        title: &str,
        task: &mut T,
        progress: &mut dyn Progress,
    ) -> Result<()> {
        progress.begin(&format!("two steps of {title}"), STEPS);
        let mut losses = Vec::new();
        for step in 0..STEPS {
            let failed = |source| TrainError::Task { step, source };
            let (report, update) = task.step(step).map_err(failed)?;
            task.apply(step, update).map_err(failed)?;
            losses.push(report.loss);
            progress.advance(step + 1, &format!("loss {:.4}", report.loss));
        }
        progress.end();
        self.steps.push(PlannedSteps { key: key.to_owned(), title: title.to_owned(), losses });
        Ok(())
    }
}
