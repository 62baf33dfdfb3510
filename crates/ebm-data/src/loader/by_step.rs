//! Batches as a training asks for them: by the number of the step.

use super::{Batch, Batches, DetectionRecipe, Loader, Recipe};
use crate::error::{Error, Result};

/// The batches of a loader by step: the next one is being made meanwhile, any other starts anew, as after a
/// resume.
pub struct ByStep<R: Recipe = DetectionRecipe> {
    loader: Loader<R>,
    /// The step that comes next, and what makes it.
    running: Option<(usize, Batches<R>)>,
}

impl<R: Recipe> ByStep<R> {
    /// The batches of `loader`.
    pub fn new(loader: Loader<R>) -> Self {
        Self { loader, running: None }
    }

    /// The batch of `step`, counted over all epochs from 0.
    ///
    /// # Errors
    /// Those of the batch; [`Error::Argument`] where the loader has none for this step.
    pub fn batch(&mut self, step: usize) -> Result<Batch<R::Sample>> {
        let mut batches = match self.running.take() {
            Some((next, batches)) if next == step => batches,
            _ => self.loader.batches(step as u64..u64::MAX)?,
        };
        let none = || Error::Argument { name: "step", detail: format!("there is no batch for step {step}") };
        let batch = batches.next().ok_or_else(none)??;
        self.running = Some((step + 1, batches));
        Ok(batch)
    }
}
