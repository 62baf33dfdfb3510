//! The iteration over batches.

use std::ops::Range;
use std::sync::Arc;

use super::block::{Block, BufferPool};
use super::detection::{DetectionRecipe, Sample};
use super::plan::plan;
use super::pool::OrderedPool;
use super::recipe::Recipe;
use super::{Job, Loaded, Loader, LoaderConfig, Shared};
use crate::error::{Error, Result};

/// Samples of one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch<S = Sample> {
    /// The epoch, from 0.
    pub epoch: u64,
    /// The step, counted over all epochs from 0.
    pub step: u64,
    /// `(N, 3, H, W)`, normalised. For detection padded with zeros at the bottom and on the right.
    pub data: Block,
    /// N, 3, H, W. For detection H and W are multiples of 32.
    pub shape: (usize, usize, usize, usize),
    /// The N samples.
    pub samples: Vec<S>,
}

/// An iterator over batches, in the order of their steps; after an error it ends.
///
/// Dropping it stops the worker threads and waits for the batch that each is making.
pub struct Batches<R: Recipe = DetectionRecipe> {
    shared: Arc<Shared<R>>,
    pool: Option<OrderedPool<Job, Result<Loaded<R>>>>,
    buffers: Arc<BufferPool>,
    /// For batches that the caller's thread makes.
    memory: R::Memory,
    next: u64,
    submitted: u64,
    end: u64,
    /// The batches of the epoch that jobs are being taken from.
    plan: Option<(u64, Vec<Vec<usize>>)>,
}

impl<R: Recipe> Batches<R> {
    pub(super) fn new(shared: Arc<Shared<R>>, range: Range<u64>) -> Result<Self> {
        let LoaderConfig { workers, prefetch, .. } = shared.config;
        // One more than in the making or ready: the one that the caller holds.
        let buffers = BufferPool::new(prefetch.saturating_add(1));
        let pool = match workers {
            0 => None,
            _ => {
                let (shared, buffers) = (Arc::clone(&shared), Arc::clone(&buffers));
                let load = move |memory: &mut R::Memory, job: Job| shared.load(job, &buffers, memory);
                Some(OrderedPool::new(workers, load)?)
            }
        };
        let Range { start, end } = range;
        let memory = R::Memory::default();
        Ok(Self { shared, pool, buffers, memory, next: start, submitted: start, end, plan: None })
    }

    fn job(&mut self, step: u64) -> Option<Job> {
        let steps = self.shared.steps_per_epoch;
        let epoch = step / steps;
        let plan = match self.plan.take().filter(|(planned, _)| *planned == epoch) {
            Some((_, plan)) => plan,
            None => plan(&*self.shared.dataset, &self.shared.config, self.shared.key, epoch),
        };
        let indices = plan.get((step % steps) as usize).cloned();
        self.plan = Some((epoch, plan));
        Some(Job { epoch, step, indices: indices? })
    }

    /// The result of the next step; `None` at the end.
    fn load_next(&mut self) -> Option<Result<Loaded<R>>> {
        if self.next >= self.end {
            return None;
        }
        let step = self.next;
        self.next += 1;
        let Some(mut pool) = self.pool.take() else {
            let job = self.job(step)?;
            return Some(self.shared.load(job, &self.buffers, &mut self.memory));
        };
        while self.submitted < self.end && self.submitted - step < self.shared.config.prefetch as u64 {
            let job = self.job(self.submitted)?;
            pool.submit(job);
            self.submitted += 1;
        }
        let result = pool.next().unwrap_or_else(|| {
            let detail = format!("it ended without delivering batch {step}");
            Err(Error::Failure("a loader thread".into(), detail))
        });
        self.pool = Some(pool);
        Some(result)
    }
}

impl<R: Recipe> Iterator for Batches<R> {
    type Item = Result<Batch<R::Sample>>;

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
