//! Batches in an order that depends on the seed alone, made ahead by worker threads.

mod block;
mod plan;
mod pool;
mod sample;

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use ebm_seed::Key;

use crate::coco::CocoDataset;
use crate::decode::DecodeLimits;
use crate::error::{Error, Result};
use crate::planes::Planes;
use crate::quarantine::{Defect, Quarantine, check_max_bad_fraction};
use crate::transform::{Transform, padded_size};

use block::Shelf;
use pool::OrderedPool;
use sample::Memory;

pub use block::Block;
pub use sample::{Batch, Sample};

/// How to make batches.
#[derive(Clone, Debug)]
pub struct LoaderConfig {
    /// From pixels to the network's input.
    pub transform: Transform,
    /// Images per batch, at most.
    pub batch_size: usize,
    /// Whether each epoch has an order of its own; otherwise images come in the dataset's order.
    pub shuffle: bool,
    /// Whether to leave out batches that are smaller for want of images.
    pub drop_last: bool,
    /// Whether to keep images taller than wide apart from the others, which saves padding.
    pub group_by_aspect: bool,
    /// The probability of mirroring an image left to right.
    pub flip_probability: f64,
    /// Threads that make batches; with 0 the caller's thread does.
    pub workers: usize,
    /// Batches in the making or ready, at most: the bound of the memory in use. At least 1.
    pub prefetch: usize,
    /// The tolerated fraction of the dataset's images that cannot be decoded.
    pub max_bad_fraction: f64,
    /// Where to list the images that cannot be decoded, one JSON object per line, if there are any.
    pub report: Option<PathBuf>,
    /// How large an image may be.
    pub limits: DecodeLimits,
}

impl LoaderConfig {
    /// For training: shuffled, grouped by aspect, mirrored with probability 0.5; 2 workers, 4 batches ahead, 1
    /// unreadable image in 1000.
    pub fn train(transform: Transform, batch_size: usize) -> Self {
        Self {
            transform,
            batch_size,
            shuffle: true,
            drop_last: false,
            group_by_aspect: true,
            flip_probability: 0.5,
            workers: 2,
            prefetch: 4,
            max_bad_fraction: 1e-3,
            report: None,
            limits: DecodeLimits::default(),
        }
    }

    /// For evaluation: each image once, in order, as it is; otherwise as [`LoaderConfig::train`].
    pub fn eval(transform: Transform, batch_size: usize) -> Self {
        let train = Self::train(transform, batch_size);
        Self { shuffle: false, group_by_aspect: false, flip_probability: 0., ..train }
    }

    fn check(&self) -> Result<()> {
        self.transform.check()?;
        check_max_bad_fraction(self.max_bad_fraction)?;
        let fail = |name, detail: String| Err(Error::Argument { name, detail });
        if self.batch_size == 0 {
            return fail("batch_size", "must be at least 1".to_owned());
        }
        if self.prefetch == 0 {
            return fail("prefetch", "must be at least 1".to_owned());
        }
        if !(0.0..=1.0).contains(&self.flip_probability) {
            return fail("flip_probability", format!("{} is not in 0 to 1", self.flip_probability));
        }
        Ok(())
    }
}

/// Makes batches of a dataset.
///
/// Step `g` (counted over all epochs) is the same batch whatever the number of workers and wherever the
/// iteration began: its images follow from the key, split as `"order" → epoch`, and an image's augmentation from
/// `"augment" → epoch → index`.
///
/// An image that cannot be decoded, or whose size is not the annotated one, is left out of its batch and
/// recorded; a batch without any image left is passed over. Above the tolerated fraction the iteration
/// ends with [`Error::TooManyDefects`].
#[derive(Clone)]
pub struct Loader {
    shared: Arc<Shared>,
}

struct Shared {
    dataset: Arc<CocoDataset>,
    config: LoaderConfig,
    key: Key,
    steps_per_epoch: u64,
    found: Mutex<Found>,
}

/// What decoding has brought to light, each image once.
#[derive(Default)]
struct Found {
    indices: BTreeSet<usize>,
    quarantine: Quarantine,
}

impl Loader {
    /// A loader of `dataset` whose randomness all comes from `key`.
    ///
    /// # Errors
    /// [`Error::Argument`] for a setting outside its domain, or a dataset without a batch.
    pub fn new(dataset: Arc<CocoDataset>, config: LoaderConfig, key: Key) -> Result<Self> {
        config.check()?;
        let steps_per_epoch = plan::plan(&dataset.images, &config, key, 0).len() as u64;
        if steps_per_epoch == 0 {
            let detail = format!("{} images make no batch", dataset.images.len());
            return Err(Error::Argument { name: "dataset", detail });
        }
        let shared = Shared { dataset, config, key, steps_per_epoch, found: Mutex::default() };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The number of batches in each epoch.
    pub fn steps_per_epoch(&self) -> u64 {
        self.shared.steps_per_epoch
    }

    /// The batches of the steps in `range`, counted over all epochs from 0: to resume, start at the first step
    /// not yet done.
    ///
    /// # Errors
    /// [`Error::Io`] if the worker threads cannot be started.
    pub fn batches(&self, range: Range<u64>) -> Result<Batches> {
        let LoaderConfig { workers, prefetch, .. } = self.shared.config;
        // One more than in the making or ready: the one that the caller holds.
        let shelf = Shelf::new(prefetch.saturating_add(1));
        let pool = match workers {
            0 => None,
            _ => {
                let (shared, shelf) = (Arc::clone(&self.shared), Arc::clone(&shelf));
                let load = move |memory: &mut Memory, job: Job| shared.load(job, &shelf, memory);
                Some(OrderedPool::new(workers, load)?)
            }
        };
        let Range { start, end } = range;
        Ok(Batches {
            shared: Arc::clone(&self.shared),
            pool,
            shelf,
            memory: Memory::default(),
            next: start,
            submitted: start,
            end,
            plan: None,
        })
    }

    /// The batches of one epoch.
    ///
    /// # Errors
    /// Those of [`Loader::batches`].
    pub fn epoch(&self, epoch: u64) -> Result<Batches> {
        let steps = self.shared.steps_per_epoch;
        self.batches(epoch.saturating_mul(steps)..epoch.saturating_add(1).saturating_mul(steps))
    }

    /// The images found defective so far, each once, in the order of the steps.
    pub fn quarantine(&self) -> Quarantine {
        self.shared.found.lock().unwrap_or_else(PoisonError::into_inner).quarantine.clone()
    }
}

/// One batch to make.
struct Job {
    epoch: u64,
    step: u64,
    indices: Vec<usize>,
}

/// A batch, and the images left out of it.
type Loaded = (Option<Batch>, Vec<(usize, Defect)>);

impl Shared {
    fn load(&self, job: Job, shelf: &Arc<Shelf>, memory: &mut Memory) -> Result<Loaded> {
        let Job { epoch, step, mut indices } = job;
        let augment = self.key.split("augment").index(epoch);
        let mut defects = Vec::new();
        loop {
            let (height, width) = self.padded(&indices);
            let image_len = 3 * height * width;
            let mut data = shelf.take(indices.len() * image_len);
            let mut samples: Vec<Sample> = Vec::with_capacity(indices.len());
            for &index in &indices {
                let Some(image) = self.dataset.images.get(index) else { continue };
                let place = &mut data.as_mut_slice()[samples.len() * image_len..][..image_len];
                let mut planes = Planes::new(place, (height, width));
                let key = augment.index(index as u64);
                match sample::prepare(image, index, &self.config, key, &mut planes, memory)? {
                    Ok(sample) => samples.push(sample),
                    Err(defect) => defects.push((index, defect)),
                }
            }
            indices = samples.iter().map(|sample| sample.index).collect();
            if samples.is_empty() {
                return Ok((None, defects));
            }
            if self.padded(&indices) == (height, width) {
                data.truncate(samples.len() * image_len);
                let shape = (samples.len(), 3, height, width);
                return Ok((Some(Batch { epoch, step, data, shape, samples }), defects));
            }
            // The room was for an image that is left out: once more, for the others alone.
        }
    }

    /// `(height, width)` of a batch of these images, by their annotated sizes.
    fn padded(&self, indices: &[usize]) -> (usize, usize) {
        let images = indices.iter().filter_map(|&index| self.dataset.images.get(index));
        let transform = &self.config.transform;
        padded_size(images.map(|image| transform.output_size(image.height, image.width)))
    }

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
        let report = self.config.report.as_deref();
        if let Some(path) = report {
            found.quarantine.write_jsonl(path)?;
        }
        let total = self.dataset.images.len();
        found.quarantine.check_fraction(found.indices.len(), total, self.config.max_bad_fraction, report)
    }
}

/// An iterator over batches, in the order of their steps; after an error it ends.
///
/// Dropping it stops the worker threads and waits for the batch that each is making.
pub struct Batches {
    shared: Arc<Shared>,
    pool: Option<OrderedPool<Job, Result<Loaded>>>,
    shelf: Arc<Shelf>,
    /// For batches that the caller's thread makes.
    memory: Memory,
    next: u64,
    submitted: u64,
    end: u64,
    /// The batches of the epoch that jobs are being taken from.
    plan: Option<(u64, Vec<Vec<usize>>)>,
}

impl Batches {
    fn job(&mut self, step: u64) -> Option<Job> {
        let steps = self.shared.steps_per_epoch;
        let epoch = step / steps;
        let plan = match self.plan.take().filter(|(planned, _)| *planned == epoch) {
            Some((_, plan)) => plan,
            None => plan::plan(&self.shared.dataset.images, &self.shared.config, self.shared.key, epoch),
        };
        let indices = plan.get((step % steps) as usize).cloned();
        self.plan = Some((epoch, plan));
        Some(Job { epoch, step, indices: indices? })
    }

    /// The result of the next step; `None` at the end.
    fn load_next(&mut self) -> Option<Result<Loaded>> {
        if self.next >= self.end {
            return None;
        }
        let step = self.next;
        self.next += 1;
        let Some(mut pool) = self.pool.take() else {
            let job = self.job(step)?;
            return Some(self.shared.load(job, &self.shelf, &mut self.memory));
        };
        while self.submitted < self.end && self.submitted - step < self.shared.config.prefetch as u64 {
            let job = self.job(self.submitted)?;
            pool.submit(job);
            self.submitted += 1;
        }
        let result = pool.next().unwrap_or_else(|detail| Err(Error::Worker { step, detail }));
        self.pool = Some(pool);
        Some(result)
    }
}

impl Iterator for Batches {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let outcome = self.load_next()?.and_then(|(batch, defects)| {
                self.shared.record(defects)?;
                Ok(batch)
            });
            match outcome {
                Ok(Some(batch)) => return Some(Ok(batch)),
                Ok(None) => {}
                Err(error) => {
                    self.end = self.next;
                    self.pool = None;
                    return Some(Err(error));
                }
            }
        }
    }
}
