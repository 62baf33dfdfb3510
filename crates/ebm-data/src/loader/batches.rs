//! Iterators over batches.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use super::block::{Block, BufferPool};
use super::detection::{DetectionRecipe, Sample};
use super::plan::plan;
use super::recipe::{Item, Recipe};
use super::{Loader, LoaderConfig, Planes, Shared};
use crate::error::{Error, Result};
use crate::quarantine::{Defect, SampleError};

/// Samples of one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch<S = Sample> {
    /// Epoch, from 0.
    pub epoch: u64,
    /// Step, counted over all epochs from 0.
    pub step: u64,
    /// Normalised planes `(N, 3, H, W)`. For detection they are padded with zeros at the bottom and on the right.
    pub data: Block,
    /// Shape N, 3, H, W. For detection H and W are multiples of 32.
    pub shape: (usize, usize, usize, usize),
    /// The N samples.
    pub samples: Vec<S>,
}

/// A batch, and the defective samples left out of it.
type Loaded<R> = (Option<Batch<<R as Recipe>::Sample>>, Vec<(usize, Defect)>);

/// Worker that makes the batches of some steps, one after another, in memory of its own.
struct Maker<R: Recipe> {
    shared: Arc<Shared<R>>,
    buffers: Arc<BufferPool>,
    memory: R::Memory,
    /// The epoch of the latest batch, and all batches of that epoch.
    plan: Option<(u64, Vec<Vec<usize>>)>,
}

impl<R: Recipe> Maker<R> {
    fn new(shared: &Arc<Shared<R>>, buffers: &Arc<BufferPool>) -> Self {
        let (shared, buffers) = (Arc::clone(shared), Arc::clone(buffers));
        Self { shared, buffers, memory: R::Memory::default(), plan: None }
    }

    fn make(&mut self, step: u64) -> Result<Loaded<R>> {
        let Shared { dataset, config, key, steps_per_epoch, .. } = &*self.shared;
        let (epoch, place) = (step / steps_per_epoch, (step % steps_per_epoch) as usize);
        let plan = match self.plan.take().filter(|(planned, _)| *planned == epoch) {
            Some((_, plan)) => plan,
            None => plan(&**dataset, config, *key, epoch),
        };
        let mut indices = plan.get(place).cloned().unwrap_or_default();
        self.plan = Some((epoch, plan));
        let augment = key.split("augment").index(epoch);
        let (dataset, recipe) = (&**dataset, &config.recipe);
        let mut defects = Vec::new();
        loop {
            let (height, width) = recipe.input_size(dataset, &indices);
            let image_len = 3 * height * width;
            let mut data = self.buffers.take(indices.len() * image_len);
            let mut samples = Vec::with_capacity(indices.len());
            let mut kept = Vec::with_capacity(indices.len());
            for &index in &indices {
                let place = &mut data.numbers[samples.len() * image_len..][..image_len];
                let mut planes = Planes::new(place, (height, width));
                let key = augment.index(index as u64);
                let item = Item { dataset, index, key, epoch: augment };
                match recipe.prepare(item, &mut planes, &mut self.memory) {
                    Ok(sample) => {
                        samples.push(sample);
                        kept.push(index);
                    }
                    Err(SampleError::Defect(defect)) => defects.push((index, defect)),
                    Err(SampleError::Fatal(error)) => return Err(error),
                }
            }
            if samples.is_empty() {
                return Ok((None, defects));
            }
            if recipe.input_size(dataset, &kept) == (height, width) {
                data.numbers.truncate(samples.len() * image_len);
                let shape = (samples.len(), 3, height, width);
                return Ok((Some(Batch { epoch, step, data, shape, samples }), defects));
            }
            // The size was for an image that is left out, so the others are prepared again.
            indices = kept;
        }
    }
}

/// Thread that makes every n-th batch, with the receiver of its batches.
type Worker<R> = (Receiver<Result<Loaded<R>>>, JoinHandle<()>);

/// Iterator over batches, in the order of their steps. It ends after an error.
///
/// Dropping it stops the worker threads and waits for the batches in progress.
pub struct Batches<R: Recipe = DetectionRecipe> {
    /// Worker `i` makes step `i` after the first, and then every step after one round of the workers. Without
    /// workers the caller's thread makes all steps.
    workers: Vec<Worker<R>>,
    own: Maker<R>,
    steps: Range<u64>,
    first: u64,
}

impl<R: Recipe> Batches<R> {
    pub(super) fn new(shared: &Arc<Shared<R>>, steps: Range<u64>) -> Result<Self> {
        let LoaderConfig { workers: count, prefetch, .. } = shared.config;
        // One more than the batches in progress or ready: the batch that the caller holds.
        let buffers = BufferPool::new(prefetch.saturating_add(1));
        let (own, first) = (Maker::new(shared, &buffers), steps.start);
        let mut batches = Self { workers: Vec::new(), own, steps: steps.clone(), first };
        let count = count.min(prefetch);
        for index in 0..count {
            // Each worker may have its share of the batches ready, less the batch in progress.
            let (send, receive) = sync_channel(prefetch / count - 1);
            let mut maker = Maker::new(shared, &buffers);
            let mut share = (first.saturating_add(index as u64)..steps.end).step_by(count);
            // Sending fails as soon as nobody waits for a batch any more.
            let work = move || while share.next().is_some_and(|step| send.send(maker.make(step)).is_ok()) {};
            let thread = std::thread::Builder::new().name(format!("loader-{index}")).spawn(work);
            let thread = thread.map_err(|error| Error::io("start", Path::new("a loader thread"), error))?;
            batches.workers.push((receive, thread));
        }
        Ok(batches)
    }

    fn load(&mut self, step: u64) -> Result<Loaded<R>> {
        if self.workers.is_empty() {
            return self.own.make(step);
        }
        let (results, _) = &self.workers[((step - self.first) % self.workers.len() as u64) as usize];
        results.recv().unwrap_or_else(|_| {
            let detail = format!("it ended without delivering batch {step}");
            Err(Error::Failure("a loader thread".into(), detail))
        })
    }
}

impl<R: Recipe> Drop for Batches<R> {
    fn drop(&mut self) {
        let (results, threads): (Vec<_>, Vec<_>) = self.workers.drain(..).unzip();
        drop(results);
        for thread in threads {
            // A thread that panicked has printed the reason itself.
            let _ = thread.join();
        }
    }
}

impl<R: Recipe> Iterator for Batches<R> {
    type Item = Result<Batch<R::Sample>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let step = self.steps.next()?;
            let outcome = self.load(step).and_then(|(batch, defects)| {
                self.own.shared.record(defects)?;
                Ok(batch)
            });
            if let Some(outcome) = outcome.transpose() {
                if outcome.is_err() {
                    self.steps = step..step;
                }
                return Some(outcome);
            }
        }
    }
}

/// Batches of a loader by step. The next step's batch is made in advance; any other step restarts the iteration,
/// as after a resume.
pub struct ByStep<R: Recipe = DetectionRecipe> {
    loader: Loader<R>,
    /// The next step, and the iterator that makes its batch.
    running: Option<(usize, Batches<R>)>,
}

impl<R: Recipe> ByStep<R> {
    /// Makes batches with `loader`.
    pub fn new(loader: Loader<R>) -> Self {
        Self { loader, running: None }
    }

    /// Returns the batch of `step`, counted over all epochs from 0.
    ///
    /// # Errors
    /// The errors of the batch; [`Error::Argument`] if the loader has no batch for this step.
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
