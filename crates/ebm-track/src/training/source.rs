//! Where pairs come from.

use candle_core::Tensor;

use crate::{BackboneFeatures, Result};

/// The backbone's features of B pairs of crops with one target each.
#[derive(Clone, Debug)]
pub struct PairFeatures {
    /// Of the reference crops.
    pub reference: BackboneFeatures,
    /// Of the test crops.
    pub test: BackboneFeatures,
    /// The target in the reference crops, `(B, 4)`: x, y, w, h in pixels of the crop.
    pub reference_boxes: Tensor,
    /// The target in the test crops, as there.
    pub test_boxes: Tensor,
}

/// A sequence of batches; the batch of a step depends on that step alone.
pub trait PairSource {
    /// The batch of `step`.
    ///
    /// # Errors
    /// When an image or its features can not be had.
    fn batch(&mut self, step: usize) -> Result<PairFeatures>;
}

impl<S: PairSource + ?Sized> PairSource for Box<S> {
    fn batch(&mut self, step: usize) -> Result<PairFeatures> {
        (**self).batch(step)
    }
}
