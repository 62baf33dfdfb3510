//! Pairs of crops from a loader, with features of the backbone.

use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use ebm_base::Key;
use ebm_data::loader::{ByStep, Loader, LoaderConfig};
use ebm_data::sequences::pairs::{PairRecipe, PairSample};
use ebm_data::sequences::sampler::PairSampler;

use super::{PairFeatures, PairSource};
use crate::Result;
use crate::backbone::{Backbone, BackboneFeatures};

/// Features of the pairs of crops of a loader.
pub struct StreamPairs {
    batches: ByStep<PairRecipe>,
    backbone: Arc<Backbone>,
    device: Device,
}

impl StreamPairs {
    /// Computes features by `backbone` on `device`, for pairs that `sampler` draws with `key` and `loader` loads.
    ///
    /// # Errors
    /// When the settings of the loader are invalid.
    pub fn new(
        sampler: &Arc<PairSampler>,
        loader: LoaderConfig<PairRecipe>,
        key: Key,
        backbone: &Arc<Backbone>,
        device: &Device,
    ) -> Result<Self> {
        let batches = ByStep::new(Loader::new(Arc::clone(sampler), loader, key)?);
        Ok(Self { batches, backbone: Arc::clone(backbone), device: device.clone() })
    }
}

impl PairSource for StreamPairs {
    fn batch(&mut self, step: usize) -> Result<PairFeatures> {
        let batch = self.batches.batch(step)?;
        let (n, channels, height, side) = batch.shape;
        // Each pair is two crops, one above the other.
        let both = Tensor::from_slice(&batch.data, (n, channels, height, side), &Device::Cpu)?;
        let features = |start| {
            let crops = both.narrow(2, start, side)?.contiguous()?.to_device(&self.device)?;
            self.backbone.features(&crops)
        };
        let boxes = |of: fn(&PairSample) -> [f32; 4]| {
            let rows: Vec<f32> = batch.samples.iter().flat_map(of).collect();
            Tensor::from_vec(rows, (n, 4), &self.device)
        };
        Ok(PairFeatures {
            reference: features(0)?,
            test: features(side)?,
            reference_boxes: boxes(|sample| sample.reference_box)?,
            test_boxes: boxes(|sample| sample.test_box)?,
        })
    }
}

/// Converts the maps to `dtype` and keeps their order in memory.
pub(crate) fn converted(pairs: &PairFeatures, dtype: DType) -> Result<PairFeatures> {
    let map = |x: &Tensor| -> Result<Tensor> {
        let rows = x.permute((0, 2, 3, 1))?.contiguous()?.to_dtype(dtype)?;
        Ok(rows.permute((0, 3, 1, 2))?)
    };
    let maps = |features: &BackboneFeatures| -> Result<BackboneFeatures> {
        Ok(BackboneFeatures { layer2: map(&features.layer2)?, layer3: map(&features.layer3)? })
    };
    Ok(PairFeatures { reference: maps(&pairs.reference)?, test: maps(&pairs.test)?, ..pairs.clone() })
}
