//! Batches in an order that depends on the seed alone, made ahead by worker threads.
//!
//! A [`Recipe`] says how a sample of one kind of dataset is prepared; [`Loader`] does the rest for all kinds.
//! Without type parameters the names here speak of detection, the images of a
//! [`CocoDataset`](crate::coco::CocoDataset); for faces see [`crate::faces::loader`].

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

/// Makes batches of a dataset.
///
/// Step `g` (counted over all epochs) is the same batch whatever the number of workers and wherever the
/// iteration began: its images follow from the key, split as `"order" → epoch`, and an image's augmentation
/// from `"augment" → epoch → index`.
///
/// An image that cannot be decoded, or whose size is not the annotated one, is left out of its batch and
/// recorded; a batch without any image left is passed over. Above the tolerated fraction the iteration
/// ends with [`Error::TooManyDefects`].
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

/// What decoding has brought to light, each sample once.
#[derive(Default)]
struct Found {
    indices: BTreeSet<usize>,
    quarantine: Quarantine,
}

impl<R: Recipe> Loader<R> {
    /// A loader of `dataset` whose randomness all comes from `key`.
    ///
    /// # Errors
    /// [`Error::Argument`] for a setting outside its domain, or a dataset without a batch.
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

    /// The number of batches in each epoch.
    pub fn steps_per_epoch(&self) -> u64 {
        self.shared.steps_per_epoch
    }

    /// The batches of the steps in `range`, counted over all epochs from 0: to resume, start at the first
    /// step not yet done.
    ///
    /// # Errors
    /// [`Error::Io`] if the worker threads cannot be started.
    pub fn batches(&self, range: Range<u64>) -> Result<Batches<R>> {
        Batches::new(&self.shared, range)
    }

    /// The batches of one epoch.
    ///
    /// # Errors
    /// Those of [`Loader::batches`].
    pub fn epoch(&self, epoch: u64) -> Result<Batches<R>> {
        let steps = self.shared.steps_per_epoch;
        self.batches(epoch.saturating_mul(steps)..epoch.saturating_add(1).saturating_mul(steps))
    }

    /// The images found defective so far, each once, in the order of the steps.
    pub fn quarantine(&self) -> Quarantine {
        self.shared.found.lock().unwrap_or_else(PoisonError::into_inner).quarantine.clone()
    }
}

impl<R: Recipe> Shared<R> {
    /// Records what was left out; called in the order of the steps, so that an error has a fixed place.
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
