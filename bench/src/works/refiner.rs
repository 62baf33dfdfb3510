//! Training step of a box refiner.

use anyhow::{Result, anyhow, bail};
use candle_core::Tensor;
use ebm_base::Key;
use ebm_core::AnyObjective;
use ebm_detect::config::{RefinerConfig, Settings};
use ebm_detect::training::{BatchSource, RefinerTask};
use ebm_detect::{CachedBatch, ImageBatch, Objects, RefinerNetwork};
use ebm_train::TrainTask;

use super::prediction::boxes;
use super::resnet::images;
use super::{Place, Run};
use crate::work::{Images, Size};

/// Source with the same images and objects in every step.
struct FixedBatch {
    pixels: Tensor,
    size: Size,
    objects: Vec<Objects>,
}

impl BatchSource for FixedBatch {
    fn batch(&mut self, _step: usize) -> ebm_detect::Result<CachedBatch> {
        let sizes = vec![(self.size.height, self.size.width); self.objects.len()];
        let images = ImageBatch { pixels: self.pixels.clone(), sizes };
        Ok(CachedBatch { maps: Vec::new(), images, objects: self.objects.clone() })
    }
}

/// Prepares the gradients in pyramid and head, without the optimiser.
pub fn step(place: &Place<'_>, batch: usize, objects: usize, samples: usize, size: Size) -> Result<Run> {
    let mut config = RefinerConfig::embedded("refiner")?;
    config.objects = objects;
    let AnyObjective::MlIs(objective) = &mut config.objective else {
        bail!("the refiner's configuration has another objective than Eq. 4");
    };
    objective.num_samples = samples;
    let pixels = images(place, Images { batch, size })?;
    place.store.freeze(|name| name.starts_with("backbone.body"));
    let network = RefinerNetwork::new(&config.network, &place.var_builder())?;
    let (boxes, _) = boxes(batch * objects, size, 2);
    let of_image = |boxes: &[_]| boxes.iter().map(|&bbox| (bbox, 0)).collect();
    let objects = boxes.chunks_exact(objects).map(of_image).collect();
    let source = Box::new(FixedBatch { pixels, size, objects });
    let mut task = RefinerTask::new(network, place.store.clone(), source, &config, Key::new(0))?;
    Ok(Box::new(move || Ok(Box::new(task.step(0).map_err(|error| anyhow!(error))?))))
}
