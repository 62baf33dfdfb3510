//! Batches in an order that depends only on the seed, made in advance by worker threads.
//!
//! A [`Recipe`] prepares the samples of one kind of dataset; [`Loader`] does the rest for all kinds. Without type
//! parameters the types here are for detection, with the images of a [`CocoDataset`](crate::coco::CocoDataset).
//! For faces see [`crate::faces::loader`].

mod batches;
mod block;
mod config;
mod detection;
mod plan;
pub(crate) mod recipe;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use ebm_base::Key;

use crate::error::{Error, Result};
use crate::quarantine::{Defect, Quarantine};

pub use crate::planes::Planes;
pub use batches::{Batch, Batches, ByStep};
pub use block::Block;
pub use config::LoaderConfig;
pub(crate) use detection::check_range;
pub use detection::{DetectionRecipe, Sample};
pub use recipe::{Item, Recipe};

/// Loader of batches of a dataset.
///
/// The batch of step `g` (counted over all epochs) depends neither on the number of workers nor on the first step
/// of the iteration. Its images follow from the key, split as `"order" → epoch`, and an image's augmentation from
/// `"augment" → epoch → index`.
///
/// An image that cannot be decoded, or whose size is not the annotated one, is left out of its batch and recorded. A
/// batch without images is skipped. Above the tolerated fraction the iteration ends with [`Error::TooManyDefects`].
pub struct Loader<R: Recipe = DetectionRecipe> {
    shared: Arc<Shared<R>>,
}

struct Shared<R: Recipe> {
    dataset: Arc<R::Dataset>,
    config: LoaderConfig<R>,
    key: Key,
    steps_per_epoch: u64,
    found: Mutex<Found>,
}

/// Defective samples found while decoding, each once.
#[derive(Default)]
struct Found {
    indices: BTreeSet<usize>,
    quarantine: Quarantine,
}

impl<R: Recipe> Loader<R> {
    /// Makes a loader of `dataset`. All its randomness comes from `key`.
    ///
    /// # Errors
    /// [`Error::Argument`] for a setting outside its domain, or a dataset too small for one batch.
    pub fn new(dataset: Arc<R::Dataset>, config: LoaderConfig<R>, key: Key) -> Result<Self> {
        config.check()?;
        config.recipe.check(&dataset)?;
        let steps_per_epoch = plan::plan(&*dataset, &config, key, 0).len() as u64;
        if steps_per_epoch == 0 {
            let detail = format!("{} images make no batch", R::count(&dataset));
            return Err(Error::Argument { name: "dataset", detail });
        }
        let shared = Shared { dataset, config, key, steps_per_epoch, found: Mutex::default() };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Returns the number of batches in each epoch.
    pub fn steps_per_epoch(&self) -> u64 {
        self.shared.steps_per_epoch
    }

    /// Returns the batches of the steps in `range`, counted over all epochs from 0. To resume, start at the first
    /// step that is not done.
    ///
    /// # Errors
    /// [`Error::Io`] if the worker threads cannot be started.
    pub fn batches(&self, range: Range<u64>) -> Result<Batches<R>> {
        Batches::new(&self.shared, range)
    }

    /// Returns the batches of one epoch.
    ///
    /// # Errors
    /// The errors of [`Loader::batches`].
    pub fn epoch(&self, epoch: u64) -> Result<Batches<R>> {
        let steps = self.shared.steps_per_epoch;
        self.batches(epoch.saturating_mul(steps)..epoch.saturating_add(1).saturating_mul(steps))
    }

    /// Returns the defective images found so far, each once, in the order of the steps.
    pub fn quarantine(&self) -> Quarantine {
        self.shared.found.lock().unwrap_or_else(PoisonError::into_inner).quarantine.clone()
    }
}

impl<R: Recipe> Shared<R> {
    /// Records defects. It is called in the order of the steps, so that an error always comes at the same step.
    fn record(&self, defects: Vec<(usize, Defect)>) -> Result<()> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let before = found.indices.len();
        for (index, defect) in defects {
            if found.indices.insert(index) {
                found.quarantine.defects.push(defect);
            }
        }
        if found.indices.len() == before {
            return Ok(());
        }
        let tolerance = &self.config.tolerance;
        tolerance.list(&found.quarantine)?;
        tolerance.check_left(&found.quarantine, found.indices.len(), R::count(&self.dataset))
    }
}
