//! Backbones, which compute g_x from an image. The paper uses ResNet-50.

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
use ebm_experiment::config::{Setting, settings, settings_table};
use ebm_nn::onnx::{Graph, Value};
use ebm_nn::params::ParamStore;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// A network that computes the features g_x of normalised images, for the heads.
///
/// `ConvNeXt` shows how to wrap a model of `candle_transformers`. Test the gradients of a new backbone: candle's
/// `softmax_last_dim` and its layer normalisation of a contiguous tensor silently pass no gradient.
pub trait Backbone: std::fmt::Debug + Send + Sync {
    /// Computes g_x `(B, C)` of `images` `(B, 3, H, W)`. With `train`, the result is in the graph, and batch
    /// normalisation uses the statistics of the batch.
    ///
    /// # Errors
    /// [`Error::Input`] for images of a shape that the network does not accept.
    fn features(&self, images: &Tensor, train: bool) -> Result<Tensor>;

    /// Computes the output `(B, …)` of the frozen part of the network, which is `images` if nothing is frozen.
    ///
    /// # Errors
    /// As [`features`](Self::features).
    fn frozen_maps(&self, images: &Tensor) -> Result<Tensor> {
        Ok(images.clone())
    }

    /// Computes g_x `(B, C)` from the output of [`frozen_maps`](Self::frozen_maps) `(B, …)`. `train` is as in
    /// [`features`](Self::features).
    ///
    /// # Errors
    /// As [`features`](Self::features).
    fn features_of_maps(&self, maps: &Tensor, train: bool) -> Result<Tensor> {
        self.features(maps, train)
    }

    /// Adds [`features`](Self::features) without training to an ONNX graph.
    ///
    /// # Errors
    /// [`Error::Config`] when the network has no ONNX form.
    fn onnx(&self, _graph: &mut Graph, _images: &Value) -> Result<Value> {
        let reason = "this backbone has no ONNX form; mobilefacenet and resnet have one";
        Err(Error::config("of the trunk", reason))
    }

    /// Returns C, the length of g_x.
    fn num_features(&self) -> usize;
}

/// Checks that `images` are (B, 3, H, W) with B ≥ 1 and sides that are multiples of `multiple`, at least `smallest`.
///
/// # Errors
/// [`Error::Input`] when they are not.
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
    /// Settings of a [`Backbone`], chosen by `kind`.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "kind", rename_all = "snake_case")]
    pub enum BackboneConfig {
        /// Residual network, as in the paper.
        Resnet(ResNetBackboneConfig),
        /// ConvNeXt of `candle_transformers`; needs the feature `transformers`.
        Convnext(ConvNeXtConfig),
        /// MobileFaceNet, a small network that was trained for face recognition.
        Mobilefacenet(MobileFaceNetConfig),
    }
}

settings_table! {
    /// A published ConvNeXt.
    #[derive(Copy, Eq)]
    pub struct ConvNeXtConfig {
        /// Size, which fixes widths and depths.
        pub size: ConvNeXtSize,
    }
}

/// Sizes of the published networks, in ascending order.
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
    /// Builds the network in `dtype` on `device`, with the parameters of `store` under `prefix` (may be empty). The
    /// parameters of its frozen blocks are frozen in `store`.
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

/// The trained part of a backbone. Its inputs are the [maps](Backbone::frozen_maps) of the frozen part.
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

/// Adds the mean over a map to an ONNX graph: (B, C, H, W) -> (B, C).
fn mean_of_map_onnx(graph: &mut Graph, map: &Value) -> Value {
    let mean = graph.node("GlobalAveragePool", &[map], &[]);
    graph.node("Flatten", &[&mean], &[])
}

/// Returns the mean over a map: (B, H, W, C) -> (B, C).
fn mean_of_map(map: &Tensor) -> Result<Tensor> {
    Ok(map.flatten(1, 2)?.mean(1)?)
}
