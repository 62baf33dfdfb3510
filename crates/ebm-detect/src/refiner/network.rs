//! From an image to f of a box: body, pyramid, head.

use candle_core::{DType, Tensor};
use candle_nn::VarBuilder;
use ebm_base::Key;
use ebm_nn::{
    fpn::Fpn,
    onnx::{Graph, Value},
    params::ParamStore,
};
use ebm_train::ModelMetadata;

use crate::{
    Error, Result,
    body::{self, Body, BodyForm},
    config::{RefinerConfig, RefinerNetworkConfig},
    energy_head::{EnergyHead, HeadSizes},
    pooler::Pooler,
    weights::{REFINER, WeightFile},
};

/// The network of a refiner; parameter names are those of a detector with a confidence.
pub struct RefinerNetwork {
    body: Body,
    fpn: Fpn,
    head: EnergyHead,
}

impl RefinerNetwork {
    /// The network whose parameters are those of `vb`.
    pub fn new(config: &RefinerNetworkConfig, vb: &VarBuilder) -> Result<Self> {
        let RefinerNetworkConfig { channels, representation, num_classes: classes, .. } = *config;
        let pooler = Pooler::of_refiner(config);
        let sizes = HeadSizes { channels, representation, classes };
        let form = BodyForm::of_refiner(config);
        Ok(Self {
            fpn: Fpn::with_outputs(&form.channels(), channels, config.kernel, vb.pp("backbone.fpn"))?,
            body: Body::new(form, vb)?,
            head: EnergyHead::over(pooler, sizes, vb.pp("roi_heads"))?,
        })
    }

    /// A new network with the body in the file `weights`, or the whole network of the refiner in it, and its
    /// parameters: all are trained but those of the body, of which the configuration says how many.
    ///
    /// # Errors
    /// [`Error::Weights`] with the names or shapes that differ; else when the file is not readable.
    pub fn with_body(
        config: &RefinerConfig,
        weights: &std::path::Path,
        device: &candle_core::Device,
        key: Key,
    ) -> Result<(Self, ParamStore)> {
        let refuse = |reason: String| Error::weights(weights, reason);
        let store = ParamStore::new(key);
        let (form, trained) = (BodyForm::of_refiner(&config.network), config.trained_stages);
        let known = ModelMetadata::read(weights)?.is_some_and(|said| said.task == REFINER);
        store.preload(match known {
            true => WeightFile::open(weights, device)?.tensors,
            false => form.read(weights, device)?,
        });
        store.freeze(move |name| form.is_frozen(trained, name));
        let network = Self::new(&config.network, &store.var_builder(DType::F32, device))
            .map_err(|error| refuse(format!("its shapes are not those of the refiner's network: {error}")))?;
        let mut report = store.preload_report();
        report.missing.retain(|name| known || body::is_of_body(name));
        if !report.is_exact() {
            return Err(refuse(format!("its names are not those of the refiner's network: {report}")));
        }
        Ok((network, store))
    }

    /// What the body makes of `pixels (N, 3, H, W)`, with the channels innermost.
    pub fn maps(&self, pixels: &Tensor) -> Result<Vec<Tensor>> {
        self.body.maps(pixels, false)
    }

    /// The pyramid, `(N, C, H/stride, W/stride)` of each configured stride, from the body's maps; ReLU is
    /// behind it, so that a bin's mean tells more than the mean of what it is made of.
    pub fn pyramid(&self, maps: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut levels = self.fpn.forward_channels_last(maps)?;
        levels.truncate(maps.len());
        let level = |level: &Tensor| Ok(ebm_ops::nhwc::to_nchw(&ebm_ops::relu(level)?)?);
        levels.iter().map(level).collect()
    }

    /// [`pyramid`](Self::pyramid) of an image's pixels, as operators.
    pub(super) fn pyramid_onnx(&self, graph: &mut Graph, pixels: &Value) -> Result<Vec<Value>> {
        let maps = self.body.onnx(graph, pixels)?;
        let levels = self.fpn.onnx(graph, &maps)?;
        Ok(levels.iter().map(|level| graph.node("Relu", &[level], &[])).collect())
    }

    /// f of pooled boxes.
    pub fn head(&self) -> &EnergyHead {
        &self.head
    }
}
