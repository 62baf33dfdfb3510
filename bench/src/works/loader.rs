//! Loader of images.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use ebm_base::Key;
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::files::write_atomic;
use ebm_data::loader::{Loader, LoaderConfig};
use ebm_data::transform::{Normalise, Resample, ResizeRule, Transform};
use serde::Serialize;

use super::Run;
use crate::pictures::{ANNOTATIONS, IMAGES, STATISTICS};

/// Statistics of an epoch, with which the peer compares its own.
#[derive(Debug, Serialize)]
pub struct EpochStatistics {
    /// Shape of a batch.
    shape: [usize; 4],
    /// Mean of each channel over all images.
    means: [f64; 3],
}

/// Prepares an epoch of the `pictures` in order: decoded, resized with Pillow's filter, normalised, in batches. Writes
/// the epoch's statistics beside the pictures.
pub fn epoch(pictures: &Path, batch_size: usize, short_side: usize, workers: usize) -> Result<Run> {
    let options = LoadOptions::new(Purpose::Eval);
    let dataset = CocoDataset::load(&pictures.join(ANNOTATIONS), &pictures.join(IMAGES), &options)?;
    // The work's sides are multiples of 32, so that images are not padded.
    let resize = ResizeRule { short_side, max_side: 2 * short_side };
    let transform = Transform { resize, resample: Resample::Pillow, normalise: Normalise::IMAGENET };
    let config = LoaderConfig::eval(transform, batch_size).with_workers(workers);
    let loader = Loader::new(Arc::new(dataset), config, Key::new(0))?;
    write_atomic(&pictures.join(STATISTICS), &serde_json::to_vec(&epoch_statistics(&loader)?)?)?;
    Ok(Box::new(move || {
        let mut images = 0;
        for batch in loader.epoch(0)? {
            images += batch?.samples.len();
        }
        Ok(Box::new(images))
    }))
}

fn epoch_statistics(loader: &Loader) -> Result<EpochStatistics> {
    let mut statistics = EpochStatistics { shape: [0; 4], means: [0.0; 3] };
    let mut images = 0;
    for batch in loader.epoch(0)? {
        let batch = batch?;
        let (count, channels, height, width) = batch.shape;
        statistics.shape = [count, channels, height, width];
        images += count;
        for (plane, numbers) in batch.data.chunks_exact(height * width).enumerate() {
            let sum: f64 = numbers.iter().copied().map(f64::from).sum();
            statistics.means[plane % channels] += sum / numbers.len() as f64;
        }
    }
    statistics.means = statistics.means.map(|sum| sum / images as f64);
    Ok(statistics)
}
