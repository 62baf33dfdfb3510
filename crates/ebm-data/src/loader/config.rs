//! How to make batches.

use std::ops::Range;

use super::detection::DetectionRecipe;
use crate::error::{Error, Result};
use crate::quarantine::Tolerance;
use crate::transform::Transform;

/// How to make batches.
#[derive(Clone, Debug)]
pub struct LoaderConfig<R = DetectionRecipe> {
    /// From a sample of the dataset to the network's input.
    pub recipe: R,
    /// Images per batch, at most.
    pub batch_size: usize,
    /// Whether each epoch has an order of its own; otherwise images come in the dataset's order.
    pub shuffle: bool,
    /// Whether to leave out batches that are smaller for want of images.
    pub drop_last: bool,
    /// Which of a batch's images to make, where several processes share each batch; then `drop_last` is
    /// required.
    pub part: Option<Range<usize>>,
    /// Threads that make batches; with 0 the caller's thread does.
    pub workers: usize,
    /// Batches in the making or ready, at most: the bound of the memory in use. At least 1.
    pub prefetch: usize,
    /// How many of the dataset's images may not be decodable, and where these are listed.
    pub tolerance: Tolerance,
}

impl<R> LoaderConfig<R> {
    /// Each image once per epoch, in an order of the epoch's own; 2 workers, 4 batches ahead, 1 unreadable
    /// image in 1000.
    pub fn shuffled(recipe: R, batch_size: usize) -> Self {
        Self {
            recipe,
            batch_size,
            shuffle: true,
            drop_last: false,
            part: None,
            workers: 2,
            prefetch: 4,
            tolerance: Tolerance::default(),
        }
    }

    /// Each image once per epoch, in the dataset's order; otherwise as [`LoaderConfig::shuffled`].
    pub fn in_order(recipe: R, batch_size: usize) -> Self {
        Self { shuffle: false, ..Self::shuffled(recipe, batch_size) }
    }

    /// The same batches, made by so many threads, and at least as many batches ahead.
    pub fn with_workers(self, workers: usize) -> Self {
        Self { workers, prefetch: self.prefetch.max(workers), ..self }
    }

    /// The same full batches, of each of which only the images `part` are made.
    pub fn part(self, part: Range<usize>) -> Self {
        Self { drop_last: true, part: Some(part), ..self }
    }

    pub(super) fn check(&self) -> Result<()> {
        if let Some(part) = &self.part
            && (part.is_empty() || part.end > self.batch_size || !self.drop_last)
        {
            let detail =
                format!("{part:?} is no part of each of the batches, which hold {} images", self.batch_size);
            return Err(Error::Argument { name: "part", detail });
        }
        self.tolerance.validate()?;
        for (name, number) in [("batch_size", self.batch_size), ("prefetch", self.prefetch)] {
            if number == 0 {
                return Err(Error::Argument { name, detail: "must be at least 1".to_owned() });
            }
        }
        Ok(())
    }
}

impl LoaderConfig {
    /// For training a detector: shuffled, grouped by aspect, mirrored with probability 0.5; otherwise as
    /// [`LoaderConfig::shuffled`].
    pub fn train(transform: Transform, batch_size: usize) -> Self {
        let recipe = DetectionRecipe { transform, group_by_aspect: true, flip_probability: 0.5 };
        Self::shuffled(recipe, batch_size)
    }

    /// For evaluating a detector: each image once, in order, as it is; otherwise as [`LoaderConfig::train`].
    pub fn eval(transform: Transform, batch_size: usize) -> Self {
        let recipe = DetectionRecipe { transform, group_by_aspect: false, flip_probability: 0. };
        Self::in_order(recipe, batch_size)
    }
}
