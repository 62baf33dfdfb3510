//! Pairs from a loader, through the backbone.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use ebm_data::loader::{Batch, ByStep, Loader};
use ebm_data::sequences::pairs::{PairRecipe, PairSample};

use super::source::{PairFeatures, PairSource};
use crate::backbone::{Backbone, BackboneFeatures};
use crate::{Error, Result};

/// Crops of B pairs and the targets in them.
#[derive(Clone, Debug)]
pub struct PairCrops {
    /// `(B, 3, S, S)`, normalised.
    pub reference: Tensor,
    /// `(B, 3, S, S)`, normalised.
    pub test: Tensor,
    /// `(B, 4)`: x, y, w, h in pixels of the crop.
    pub reference_boxes: Tensor,
    /// `(B, 4)`.
    pub test_boxes: Tensor,
    /// Of each pair, what it was drawn from.
    pub samples: Vec<PairSample>,
}

impl PairCrops {
    /// A loader's batch on `device`.
    ///
    /// # Errors
    /// When a tensor operation fails.
    pub fn new(batch: Batch<PairSample>, device: &Device) -> Result<Self> {
        let (n, channels, height, side) = batch.shape;
        let both = Tensor::from_slice(&batch.data, (n, channels, height, side), &Device::Cpu)?;
        let half = |start| Ok::<_, Error>(both.narrow(2, start, side)?.contiguous()?.to_device(device)?);
        let boxes = |of: fn(&PairSample) -> [f32; 4]| {
            let rows: Vec<f32> = batch.samples.iter().flat_map(of).collect();
            Tensor::from_vec(rows, (n, 4), device)
        };
        Ok(Self {
            reference: half(0)?,
            test: half(side)?,
            reference_boxes: boxes(|sample| sample.reference_box)?,
            test_boxes: boxes(|sample| sample.test_box)?,
            samples: batch.samples,
        })
    }
}

/// The batches of a loader, in order.
pub struct CropStream {
    batches: ByStep<PairRecipe>,
    device: Device,
}

impl CropStream {
    /// Batches of `loader`, uploaded to `device`.
    pub fn new(loader: Loader<PairRecipe>, device: Device) -> Self {
        Self { batches: ByStep::new(loader), device }
    }

    /// The batch of `step`.
    ///
    /// # Errors
    /// When the loader has none.
    pub fn batch(&mut self, step: usize) -> Result<PairCrops> {
        PairCrops::new(self.batches.batch(step)?, &self.device)
    }
}

/// A stream's crops through the backbone.
pub struct StreamPairs {
    crops: CropStream,
    backbone: Arc<Backbone>,
}

impl StreamPairs {
    /// Features of the crops of `crops`.
    pub fn new(crops: CropStream, backbone: Arc<Backbone>) -> Self {
        Self { crops, backbone }
    }
}

impl PairSource for StreamPairs {
    fn batch(&mut self, step: usize) -> Result<PairFeatures> {
        let crops = self.crops.batch(step)?;
        Ok(PairFeatures {
            reference: self.backbone.features(&crops.reference)?,
            test: self.backbone.features(&crops.test)?,
            reference_boxes: crops.reference_boxes,
            test_boxes: crops.test_boxes,
        })
    }
}

/// The first batches of a source, computed once, kept in half precision and given again and again: several
/// trainings share them.
#[derive(Clone)]
pub struct KeptPairs {
    kept: Rc<RefCell<Kept>>,
}

struct Kept {
    source: Box<dyn PairSource>,
    batches: Vec<PairFeatures>,
    most: usize,
}

impl KeptPairs {
    /// Keeps the first `most` batches of `source`, at least one.
    pub fn new(source: Box<dyn PairSource>, most: usize) -> Self {
        let kept = Kept { source, batches: Vec::new(), most: most.max(1) };
        Self { kept: Rc::new(RefCell::new(kept)) }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.kept.borrow().most
    }

    /// Never: at least one batch is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl PairSource for KeptPairs {
    fn batch(&mut self, step: usize) -> Result<PairFeatures> {
        let mut kept = self.kept.borrow_mut();
        let place = step % kept.most;
        while kept.batches.len() <= place {
            let next = kept.batches.len();
            let batch = kept.source.batch(next)?;
            kept.batches.push(converted(&batch, DType::F16)?);
        }
        converted(&kept.batches[place], DType::F32)
    }
}

/// The maps in another type, in the order in memory that they have.
pub(super) fn converted(pairs: &PairFeatures, dtype: DType) -> Result<PairFeatures> {
    let map = |x: &Tensor| -> Result<Tensor> {
        let rows = x.permute((0, 2, 3, 1))?.contiguous()?.to_dtype(dtype)?;
        Ok(rows.permute((0, 3, 1, 2))?)
    };
    let maps = |features: &BackboneFeatures| -> Result<BackboneFeatures> {
        Ok(BackboneFeatures { layer2: map(&features.layer2)?, layer3: map(&features.layer3)? })
    };
    Ok(PairFeatures {
        reference: maps(&pairs.reference)?,
        test: maps(&pairs.test)?,
        reference_boxes: pairs.reference_boxes.clone(),
        test_boxes: pairs.test_boxes.clone(),
    })
}
