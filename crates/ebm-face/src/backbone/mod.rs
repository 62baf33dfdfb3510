//! Networks from an image to g_x, of which ResNet-50 is the paper's.

#[cfg(feature = "transformers")]
mod convnext;
mod map_grid;
mod mobilefacenet;
mod resnet;
mod weights;

#[cfg(feature = "transformers")]
pub use convnext::ConvNeXt;
pub(crate) use map_grid::MapGrid;
pub use mobilefacenet::{MobileFaceNetBackbone, MobileFaceNetConfig};
pub use resnet::{ResNetBackbone, ResNetBackboneConfig};
pub(crate) use weights::open;
pub use weights::preload_backbone;

use candle_core::{DType, Device, Tensor};
use ebm_experiment::config::{Setting, settings};
use ebm_nn::onnx::{Graph, Value};
use ebm_nn::params::ParamStore;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

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
    /// [`Error::Input`] for images of a shape that the network does not take.
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
        let reason = "this backbone has no ONNX form; mobilefacenet and resnet have one";
        Err(Error::config("of the trunk", reason))
    }

    /// C, the length of g_x.
    fn num_features(&self) -> usize;
}

/// # Errors
/// [`Error::Input`] when `images` are not (B, 3, H, W) with B ≥ 1 and sides that are multiples of `multiple` and not
/// below `smallest`.
fn check_images(images: &Tensor, multiple: usize, smallest: usize) -> Result<()> {
    let fits = |side: usize| side >= smallest && side.is_multiple_of(multiple);
    match *images.dims() {
        [batch, 3, height, width] if batch > 0 && fits(height) && fits(width) => Ok(()),
        ref dims => {
            let taken = format!("(B, 3, H, W) with H and W multiples of {multiple} from {smallest} on");
            let reason = format!("{dims:?} where the backbone takes {taken}; resize or pad them");
            Err(Error::input("the images", reason))
        }
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
    }
}

settings! {
    /// A published ConvNeXt.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct ConvNeXtConfig {
        /// The widths and depths.
        pub size: ConvNeXtSize,
    }
}

/// The sizes of published networks, from the smallest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "names of published networks")]
pub enum ConvNeXtSize {
    Atto,
    Tiny,
    Small,
    Base,
    Large,
}

impl Setting for ConvNeXtSize {}

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
        if let Self::Mobilefacenet(config) = *self {
            let below = weights::join(prefix, "");
            store.freeze(move |name| name.strip_prefix(&below).is_some_and(|name| config.is_frozen(name)));
        }
        let vb = store.var_builder(dtype, device);
        let vb = if prefix.is_empty() { vb } else { vb.pp(prefix) };
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
        })
    }
}

/// The trained part of a backbone, whose images are the [maps](Backbone::frozen_maps) of the frozen part.
#[derive(Debug)]
pub(crate) struct TrainedPart(pub Box<dyn Backbone>);

impl Backbone for TrainedPart {
    fn features(&self, maps: &Tensor, train: bool) -> Result<Tensor> {
        self.0.features_of_maps(maps, train)
    }

    fn num_features(&self) -> usize {
        self.0.num_features()
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
