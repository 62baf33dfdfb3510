//! Networks from an image to g_x, of which ResNet-50 is the paper's.

#[cfg(feature = "transformers")]
mod convnext;
mod efficientnet;
mod map_grid;
mod mobilefacenet;
#[cfg(feature = "transformers")]
mod parameters;
mod resnet;
mod resnet_file;
mod transformers;
mod weights;

#[cfg(feature = "transformers")]
pub use convnext::ConvNeXt;
pub use efficientnet::{EfficientNetLite0Backbone, EfficientNetLite0Config};
pub(crate) use map_grid::MapGrid;
pub use mobilefacenet::{MobileFaceNetBackbone, MobileFaceNetConfig};
pub use resnet::{ResNetBackbone, ResNetBackboneConfig, ResNetNorm};
pub(crate) use resnet_file::resnet_of;
pub use resnet_file::{ResNetFile, load_resnet, preload_resnet};
pub use transformers::{ConvNeXtConfig, ConvNeXtSize, ConvNeXtVersion};
pub use weights::preload_backbone;
pub(crate) use weights::read_backbone;

use std::collections::BTreeSet;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use ebm_experiment::config::settings;
use ebm_nn::onnx::{Graph, Value};
use ebm_nn::params::ParamStore;
use serde::{Deserialize, Serialize};

use crate::{Error, Result, shapes};

/// A network from normalised images to g_x, on which the heads stand.
///
/// Any network serves: a model of `candle_transformers` is wrapped in one that implements this trait, as
/// `ConvNeXt` does, with the feature `transformers`. Test the gradients of a new one: candle's layer normalisation of a
/// contiguous tensor and its `softmax_last_dim` pass none, and say nothing.
pub trait Backbone: std::fmt::Debug + Send + Sync {
    /// `images`, (B, 3, H, W) -> g_x (B, C); with `train`, as a training step needs it: in the graph, and
    /// normalised by the batch where the network does that.
    ///
    /// # Errors
    /// [`Error::Input`] when the images are not as [`images`](Self::images) says.
    fn features(&self, images: &Tensor, train: bool) -> Result<Tensor>;

    /// What the frozen part of the network makes of `images`, (B, …), which no training changes: the images
    /// themselves where nothing is frozen.
    ///
    /// # Errors
    /// As [`features`](Self::features).
    fn frozen_maps(&self, images: &Tensor) -> Result<Tensor> {
        Ok(images.clone())
    }

    /// The rest: [`frozen_maps`](Self::frozen_maps) (B, …) -> g_x (B, C), as [`features`](Self::features) says.
    ///
    /// # Errors
    /// As there.
    fn features_of_maps(&self, maps: &Tensor, train: bool) -> Result<Tensor> {
        self.features(maps, train)
    }

    /// [`features`](Self::features) without training as operators, for other runtimes.
    ///
    /// # Errors
    /// [`Error::Config`] where the network has no such form.
    fn onnx(&self, _graph: &mut Graph, _images: &Value) -> Result<Value> {
        let reason = "this backbone has no ONNX form; mobilefacenet, efficientnet_lite0 and resnet have one";
        Err(Error::config("of the trunk", reason))
    }

    /// C, the length of g_x.
    fn num_features(&self) -> usize;

    /// Which images it takes.
    fn images(&self) -> ImageSize;
}

/// Which heights and widths a [`Backbone`] takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageSize {
    /// Both are multiples of this.
    pub multiple: usize,
    /// Neither is smaller.
    pub smallest: usize,
}

impl ImageSize {
    /// Any height and width.
    pub const ANY: Self = Self { multiple: 1, smallest: 1 };

    /// Whether images of this height and width are taken.
    #[must_use]
    pub fn admits(&self, height: usize, width: usize) -> bool {
        let fits = |side: usize| side >= self.smallest && side.is_multiple_of(self.multiple);
        fits(height) && fits(width)
    }

    /// # Errors
    /// [`Error::Input`] when `images` are not (B, 3, H, W) with B ≥ 1 and H and W that are taken.
    fn check(&self, images: &Tensor) -> Result<()> {
        match *images.dims() {
            [batch, 3, height, width] if batch > 0 && self.admits(height, width) => Ok(()),
            _ => Err(Error::input(
                "the images",
                format!("{:?} where the backbone takes {self}; resize or pad them", images.dims()),
            )),
        }
    }
}

impl std::fmt::Display for ImageSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { multiple, smallest } = self;
        write!(f, "(B, 3, H, W) with H and W multiples of {multiple} from {smallest} on")
    }
}

settings! {
    /// Which [`Backbone`], told by `kind`.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "kind", rename_all = "snake_case")]
    pub enum BackboneConfig {
        /// A residual network, the paper's.
        Resnet(ResNetBackboneConfig),
        /// A convolutional network of `candle_transformers`; needs the feature `transformers`.
        Convnext(ConvNeXtConfig),
        /// A small network that was trained to know faces again.
        Mobilefacenet(MobileFaceNetConfig),
        /// A small network that was trained on ImageNet.
        EfficientnetLite0(EfficientNetLite0Config),
    }
}

impl BackboneConfig {
    /// The network whose parameters are those of `store` under `prefix` (may be empty), in `dtype` on
    /// `device`. The parameters that the configuration says are frozen in `store`.
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
        let names = shapes::record(|vb| self.build_from(vb))?.into_keys();
        let frozen = names.filter(|name| self.is_frozen(name)).map(|name| weights::join(prefix, &name));
        let frozen: BTreeSet<_> = frozen.collect();
        if !frozen.is_empty() {
            store.freeze(move |name| frozen.contains(name));
        }
        let vb = store.var_builder(dtype, device);
        self.build_from(if prefix.is_empty() { vb } else { vb.pp(prefix) })
    }

    /// Whether the parameter of this name is never trained.
    fn is_frozen(&self, name: &str) -> bool {
        match self {
            Self::Resnet(_) | Self::Convnext(_) => false,
            Self::Mobilefacenet(config) => config.is_frozen(name),
            Self::EfficientnetLite0(config) => config.is_frozen(name),
        }
    }

    fn build_from(&self, vb: VarBuilder) -> Result<Box<dyn Backbone>> {
        Ok(match self {
            Self::Resnet(config) => Box::new(ResNetBackbone::new(config, vb)?),
            #[cfg(feature = "transformers")]
            Self::Convnext(config) => Box::new(ConvNeXt::new(config, vb)?),
            #[cfg(not(feature = "transformers"))]
            Self::Convnext(_) => {
                let reason = "convnext is not in this program; build it with --features transformers";
                return Err(Error::config("of the trunk", reason));
            }
            Self::Mobilefacenet(config) => Box::new(MobileFaceNetBackbone::new(config, &vb)?),
            Self::EfficientnetLite0(config) => Box::new(EfficientNetLite0Backbone::new(config, vb)?),
        })
    }
}

/// The trained part of a backbone, whose images are the [maps](Backbone::frozen_maps) of the frozen part.
#[derive(Debug)]
pub(crate) struct OnMaps(pub Box<dyn Backbone>);

impl Backbone for OnMaps {
    fn features(&self, maps: &Tensor, train: bool) -> Result<Tensor> {
        self.0.features_of_maps(maps, train)
    }

    fn num_features(&self) -> usize {
        self.0.num_features()
    }

    fn images(&self) -> ImageSize {
        self.0.images()
    }
}

/// (B, C, H, W) -> (B, C), as operators.
fn mean_of_map_onnx(graph: &mut Graph, map: &Value) -> Value {
    let mean = graph.node("GlobalAveragePool", &[map], &[]);
    graph.node("Flatten", &[&mean], &[])
}

/// (B, H, W, C) -> (B, C).
fn mean_of_map(map: &Tensor) -> Result<Tensor> {
    Ok(map.flatten(1, 2)?.mean(1)?)
}
