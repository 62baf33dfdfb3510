//! Settings of a loader.

use std::ops::Range;

use super::detection::DetectionRecipe;
use crate::error::{Error, Result};
use crate::quarantine::Tolerance;
use crate::transform::Transform;

/// Settings of a [`Loader`](super::Loader).
#[derive(Clone, Debug)]
pub struct LoaderConfig<R = DetectionRecipe> {
    /// Conversion of a sample of the dataset to the network's input.
    pub recipe: R,
    /// Largest number of images per batch.
    pub batch_size: usize,
    /// `true` to draw a new order in each epoch; otherwise images come in the dataset's order.
    pub shuffle: bool,
    /// `true` to leave out batches with fewer than `batch_size` images.
    pub drop_last: bool,
    /// Images of each batch to make, if several processes share each batch. It requires `drop_last`.
    pub part: Option<Range<usize>>,
    /// Number of threads that make batches; with 0 the caller's thread makes them.
    pub workers: usize,
    /// Largest number of batches in progress or ready, at least 1. It bounds the memory in use.
    pub prefetch: usize,
    /// Tolerated fraction of images that cannot be decoded, and the file that lists them.
    pub tolerance: Tolerance,
}

impl<R> LoaderConfig<R> {
    /// Returns settings with each image once per epoch, in a new order in each epoch; 2 workers, 4 batches in
    /// advance, 1 unreadable image in 1000.
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

    /// Returns the settings of [`LoaderConfig::shuffled`] with the dataset's order in every epoch.
    pub fn in_order(recipe: R, batch_size: usize) -> Self {
        Self { shuffle: false, ..Self::shuffled(recipe, batch_size) }
    }

    /// Makes the same batches with `workers` threads, and at least `workers` batches in advance.
    pub fn with_workers(self, workers: usize) -> Self {
        Self { workers, prefetch: self.prefetch.max(workers), ..self }
    }

    /// Makes only the images `part` of each full batch.
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
    /// Returns the settings for training a detector: [`LoaderConfig::shuffled`], grouped by aspect, mirrored with
    /// probability 0.5.
    pub fn train(transform: Transform, batch_size: usize) -> Self {
        let recipe = DetectionRecipe { transform, group_by_aspect: true, flip_probability: 0.5 };
        Self::shuffled(recipe, batch_size)
    }

    /// Returns the settings for evaluating a detector: each image once, in order, never mirrored.
    pub fn eval(transform: Transform, batch_size: usize) -> Self {
        let recipe = DetectionRecipe { transform, group_by_aspect: false, flip_probability: 0. };
        Self::in_order(recipe, batch_size)
    }
}
