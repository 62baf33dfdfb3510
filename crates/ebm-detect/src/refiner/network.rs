//! Network of a refiner: body, pyramid and head, from an image to f of a box.

use candle_core::{DType, Tensor};
use candle_nn::VarBuilder;
use ebm_base::Key;
use ebm_nn::fpn::Fpn;
use ebm_nn::onnx::{Graph, Value};
use ebm_nn::params::ParamStore;
use ebm_train::ModelMetadata;

use crate::body::{self, Body, BodySpec};
use crate::config::{RefinerConfig, RefinerNetworkConfig};
use crate::energy_head::{EnergyHead, HeadSizes};
use crate::pooler::Pooler;
use crate::weights::{REFINER, WeightFile};
use crate::{Error, Result};

/// Network of a refiner; parameter names are as in a detector with a confidence.
pub struct RefinerNetwork {
    body: Body,
    fpn: Fpn,
    head: EnergyHead,
}

impl RefinerNetwork {
    /// Builds the network from the parameters of `vb`.
    pub fn new(config: &RefinerNetworkConfig, vb: &VarBuilder) -> Result<Self> {
        let RefinerNetworkConfig { channels, representation, num_classes: classes, .. } = *config;
        let pooler = Pooler::of_refiner(config);
        let sizes = HeadSizes { channels, representation, classes };
        let spec = BodySpec::of_refiner(config);
        Ok(Self {
            fpn: Fpn::with_outputs(&spec.channels(), channels, config.kernel, vb.pp("backbone.fpn"))?,
            body: Body::new(spec, vb)?,
            head: EnergyHead::over(pooler, sizes, vb.pp("roi_heads"))?,
        })
    }

    /// Creates a network from the file `weights` of a body or of a refiner, and returns it with its parameters. The
    /// body is frozen except for the configured number of stages; all other layers are trained.
    ///
    /// # Errors
    /// [`Error::Weights`] with the names or shapes that differ; when the file cannot be read.
    pub fn with_body(
        config: &RefinerConfig,
        weights: &std::path::Path,
        device: &candle_core::Device,
        key: Key,
    ) -> Result<(Self, ParamStore)> {
        let refuse = |reason: String| Error::weights(weights, reason);
        let store = ParamStore::new(key);
        let (spec, trained) = (BodySpec::of_refiner(&config.network), config.trained_stages);
        let known = ModelMetadata::read(weights)?.is_some_and(|said| said.task == REFINER);
        store.preload(match known {
            true => WeightFile::open(weights, device)?.tensors,
            false => spec.read(weights, device)?,
        });
        store.freeze(move |name| spec.is_frozen(trained, name));
        let network = Self::new(&config.network, &store.var_builder(DType::F32, device))
            .map_err(|error| refuse(format!("its shapes are not those of the refiner's network: {error}")))?;
        let mut report = store.preload_report();
        report.missing.retain(|name| known || body::is_of_body(name));
        if !report.is_exact() {
            return Err(refuse(format!("its names are not those of the refiner's network: {report}")));
        }
        Ok((network, store))
    }

    /// Computes the body's maps of `pixels (N, 3, H, W)`, with the channels innermost.
    pub fn maps(&self, pixels: &Tensor) -> Result<Vec<Tensor>> {
        self.body.maps(pixels, false)
    }

    /// Computes the pyramid, `(N, C, H/stride, W/stride)` for each configured stride, from the body's maps. A ReLU
    /// follows each level, so that a bin's mean is not just a linear function of the body's means.
    pub fn pyramid(&self, maps: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut levels = self.fpn.forward_channels_last(maps)?;
        levels.truncate(maps.len());
        let level = |level: &Tensor| Ok(ebm_ops::nhwc::to_nchw(&ebm_ops::relu(level)?)?);
        levels.iter().map(level).collect()
    }

    /// Adds [`pyramid`](Self::pyramid) of an image's pixels to an ONNX graph.
    pub(super) fn pyramid_onnx(&self, graph: &mut Graph, pixels: &Value) -> Result<Vec<Value>> {
        let maps = self.body.onnx(graph, pixels)?;
        let levels = self.fpn.onnx(graph, &maps)?;
        Ok(levels.iter().map(|level| graph.node("Relu", &[level], &[])).collect())
    }

    /// Returns the head, which computes f of boxes.
    pub fn head(&self) -> &EnergyHead {
        &self.head
    }
}
