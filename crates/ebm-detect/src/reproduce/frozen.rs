//! What branches are trained on where the frozen detector's features of all images fit into memory.

use std::{cell::OnceCell, rc::Rc, sync::Arc};

use candle_core::Device;
use ebm_data::coco::CocoDataset;
use ebm_seed::Key;
use ebm_train::Progress;

use super::setup::{Source, eval_loader};
use crate::{
    config::{ExperimentConfig, MethodConfig},
    error::Result,
    faster_rcnn::FasterRcnn,
    feature_cache::FeatureCache,
    foreground::ForegroundCache,
    training::{BranchSource, CachedSource, ForegroundSource},
};

/// The images that branches are trained on. The detector is frozen, so that its features are computed once,
/// when the first branch needs them.
pub(super) struct FrozenFeatures {
    /// The settings.
    pub config: ExperimentConfig,
    /// What sees the images.
    pub detector: Rc<FasterRcnn>,
    /// The images.
    pub dataset: Arc<CocoDataset>,
    /// Where it computes.
    pub device: Device,
    /// Threads that read images.
    pub workers: usize,
    /// Images that the detector is run on at a time, padded to the largest of them.
    pub batch: usize,
}

impl FrozenFeatures {
    /// Batches of every method.
    pub fn into_source(self) -> Source {
        let (features, foreground) = (OnceCell::new(), OnceCell::new());
        Box::new(move |method: &MethodConfig, batch_size: usize, key: Key, progress: &mut dyn Progress| {
            let features = once(&features, || self.features(progress))?;
            if method.density.is_none() {
                return Ok(BranchSource::Images(Box::new(CachedSource::new(features, batch_size, key)?)));
            }
            let compute = || ForegroundCache::new(&self.detector, &features, progress);
            let foreground = once(&foreground, compute)?;
            Ok(BranchSource::Foreground(ForegroundSource::new(foreground, batch_size, key)))
        })
    }

    /// P2 … P6 of every image.
    fn features(&self, progress: &mut dyn Progress) -> Result<FeatureCache> {
        FeatureCache::compute(
            &eval_loader(&self.dataset, &self.config, self.batch, self.workers)?,
            self.config.detector.convention.into(),
            &self.device,
            &|images| self.detector.features(&images.pixels, false),
            "features of the training images",
            self.dataset.images.len(),
            progress,
        )
    }
}

/// What is in the cell, computed where nothing is.
fn once<T>(cell: &OnceCell<Rc<T>>, compute: impl FnOnce() -> Result<T>) -> Result<Rc<T>> {
    if let Some(known) = cell.get() {
        return Ok(known.clone());
    }
    let new = Rc::new(compute()?);
    Ok(cell.get_or_init(|| new).clone())
}
