//! The residual network as a [`Backbone`].

use candle_core::Tensor;

use super::{Backbone, ImageSize};
use crate::{Error, PackedTrunk, Result, Trunk};

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

    fn pack(&self) -> Result<Option<Box<dyn Backbone>>> {
        Ok(Some(Box::new(self.pack()?)))
    }
}

impl Backbone for PackedTrunk {
    fn features(&self, images: &Tensor, train: bool) -> Result<Tensor> {
        if train {
            return Err(Error::NotTrainable {
                backbone: "packed ResNet",
                reason: "it holds copies of the parameters; train the network that it was packed from",
            });
        }
        ANY_SIZE.check(images)?;
        self.features(images)
    }

    fn num_features(&self) -> usize {
        self.num_features()
    }

    fn images(&self) -> ImageSize {
        ANY_SIZE
    }

    fn is_trainable(&self) -> bool {
        false
    }
}
