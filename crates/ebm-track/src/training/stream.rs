//! Pairs of crops from a loader, through the backbone.

use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use ebm_base::Key;
use ebm_data::loader::{ByStep, Loader, LoaderConfig};
use ebm_data::sequences::pairs::{PairRecipe, PairSample};
use ebm_data::sequences::sampler::PairSampler;

use super::{PairFeatures, PairSource};
use crate::Result;
use crate::backbone::{Backbone, BackboneFeatures};

/// Features of a loader's pairs of crops.
pub struct StreamPairs {
    batches: ByStep<PairRecipe>,
    backbone: Arc<Backbone>,
    device: Device,
}

impl StreamPairs {
    /// Features of pairs that are drawn by `sampler` with `key` and loaded as `loader` says, by `backbone` on its
    /// `device`.
    ///
    /// # Errors
    /// When there can be no such loader.
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

/// The maps in another type, in the order in memory that they have.
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
