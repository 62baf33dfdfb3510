//! The residual network as a [`Backbone`].

use candle_core::Tensor;

use super::{Backbone, ImageSize};
use crate::{Result, Trunk};

const ANY_SIZE: ImageSize = ImageSize { multiple: 1, smallest: 1, square: false };

impl Backbone for Trunk {
    fn features(&self, images: &Tensor, train: bool) -> Result<Tensor> {
        ANY_SIZE.check(images)?;
        self.features(images, train)
    }

    fn num_features(&self) -> usize {
        self.num_features()
    }

    fn images(&self) -> ImageSize {
        ANY_SIZE
    }
}
