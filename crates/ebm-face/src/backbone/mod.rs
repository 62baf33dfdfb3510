//! Networks from an image to g_x, of which ResNet-50 is the paper's.

mod convnext;
mod dinov2;
mod parameters;
mod resnet;
mod resnet_file;
mod weights;

pub use convnext::{ConvNeXt, ConvNeXtConfig, ConvNeXtSize, ConvNeXtVersion};
pub use dinov2::{Dinov2, Dinov2Config};
pub use resnet::{ResNetBackbone, ResNetBackboneConfig, ResNetNorm};
pub use resnet_file::{ResNetFile, load_resnet, preload_resnet};
pub use weights::preload_backbone;

use std::collections::BTreeSet;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use ebm_experiment::config::settings;
use ebm_nn::params::ParamStore;
use serde::{Deserialize, Serialize};

use crate::{Error, Result, shapes};

/// A network from normalised images to g_x, on which the heads stand.
///
/// Any network serves: a model of `candle_transformers` is wrapped in one that implements this trait, as
/// [`ConvNeXt`] and [`Dinov2`] do. Test the gradients of a new one: candle's layer normalisation of a
/// contiguous tensor and its `softmax_last_dim` pass none, and say nothing.
pub trait Backbone: std::fmt::Debug + Send + Sync {
    /// `images`, (B, 3, H, W) -> g_x (B, C); with `train`, as a training step needs it: in the graph, and
    /// normalised by the batch where the network does that.
    ///
    /// # Errors
    /// [`Error::Images`] when the images are not as [`images`](Self::images) says; [`Error::NotTrainable`]
    /// with `train` when the network is not [trainable](Self::is_trainable).
    fn features(&self, images: &Tensor, train: bool) -> Result<Tensor>;

    /// C, the length of g_x.
    fn num_features(&self) -> usize;

    /// Which images it takes.
    fn images(&self) -> ImageSize;

    /// Whether gradients reach its parameters and the images, all of them and right.
    fn is_trainable(&self) -> bool {
        true
    }
}

/// Which heights and widths a [`Backbone`] takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageSize {
    /// Both are multiples of this.
    pub multiple: usize,
    /// Neither is smaller.
    pub smallest: usize,
    /// Whether they have to be equal.
    pub square: bool,
}

impl ImageSize {
    /// Whether images of this height and width are taken.
    #[must_use]
    pub fn admits(&self, height: usize, width: usize) -> bool {
        let fits = |side: usize| side >= self.smallest && side.is_multiple_of(self.multiple);
        fits(height) && fits(width) && (height == width || !self.square)
    }

    /// # Errors
    /// [`Error::Images`] when `images` are not (B, 3, H, W) with B ≥ 1 and H and W that are taken.
    fn check(&self, images: &Tensor) -> Result<()> {
        match *images.dims() {
            [batch, 3, height, width] if batch > 0 && self.admits(height, width) => Ok(()),
            _ => Err(Error::Images { expected: *self, found: images.dims().to_vec() }),
        }
    }
}

impl std::fmt::Display for ImageSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { multiple, smallest, square } = self;
        write!(f, "(B, 3, H, W) with H and W multiples of {multiple} from {smallest} on")?;
        if *square { write!(f, ", H = W") } else { Ok(()) }
    }
}

settings! {
    /// Which [`Backbone`], told by `kind`.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "kind", rename_all = "lowercase")]
    pub enum BackboneConfig {
        /// A residual network, the paper's.
        Resnet(ResNetBackboneConfig),
        /// A convolutional network of `candle_transformers`.
        Convnext(ConvNeXtConfig),
        /// A vision transformer of `candle_transformers`, for prediction only.
        Dinov2(Dinov2Config),
    }
}

impl BackboneConfig {
    /// The network whose parameters are those of `store` under `prefix` (may be empty), in `dtype` on
    /// `device`. The parameters of a network that is not trainable are frozen in `store`.
    ///
    /// # Errors
    /// [`Error::Config`] when no such network exists; else when `store` refuses a tensor.
    pub fn build(
        &self,
        store: &ParamStore,
        prefix: &str,
        dtype: DType,
        device: &Device,
    ) -> Result<Box<dyn Backbone>> {
        if !self.is_trainable() {
            let names = shapes::record(|vb| self.build_from(vb))?;
            let names: BTreeSet<_> = names.into_keys().map(|name| weights::join(prefix, &name)).collect();
            store.freeze(move |name| names.contains(name));
        }
        let vb = store.var_builder(dtype, device);
        self.build_from(if prefix.is_empty() { vb } else { vb.pp(prefix) })
    }

    /// Whether the network can be trained, see [`Backbone::is_trainable`].
    pub fn is_trainable(&self) -> bool {
        !matches!(self, Self::Dinov2(_))
    }

    fn build_from(&self, vb: VarBuilder) -> Result<Box<dyn Backbone>> {
        Ok(match self {
            Self::Resnet(config) => Box::new(ResNetBackbone::new(config, vb)?),
            Self::Convnext(config) => Box::new(ConvNeXt::new(config, vb)?),
            Self::Dinov2(config) => Box::new(Dinov2::new(config, vb)?),
        })
    }
}
