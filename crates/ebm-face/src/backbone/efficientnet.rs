//! g_x: EfficientNet-Lite0 and the mean of its last map.

use candle_core::Tensor;
use candle_nn::VarBuilder;
use ebm_experiment::config::settings;
use ebm_nn::efficientnet::EfficientNetLite0;
use ebm_nn::norm::BatchNormConfig;
use ebm_nn::onnx::{Graph, Value};
use serde::{Deserialize, Serialize};

use super::{Backbone, ImageSize, mean_of_map, mean_of_map_onnx};
use crate::Result;

/// Its maps.
const MAPS: usize = EfficientNetLite0::STRIDES.len();

settings! {
    /// How an [`EfficientNetLite0Backbone`] is trained.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct EfficientNetLite0Config {
        /// The last of the five maps, of strides 2 to 32, whose blocks are trained; with all of them the stem is
        /// trained too. What is before them is frozen.
        #[serde(default = "all_maps")]
        pub trained_maps: usize where 0..=5,
        /// Whether batch normalisation stays a fixed affine map in training, with no parameter of it trained.
        #[serde(default)]
        pub frozen_norm: bool,
    }
}

fn all_maps() -> usize {
    MAPS
}

impl EfficientNetLite0Config {
    fn frozen_maps(&self) -> usize {
        MAPS.saturating_sub(self.trained_maps)
    }

    pub(super) fn is_frozen(&self, name: &str) -> bool {
        let before = self.frozen_maps() > 0 && EfficientNetLite0::map_of(name) <= self.frozen_maps();
        before || self.frozen_norm && name.contains("_bn")
    }
}

/// EfficientNet-Lite0 without its classifier: g_x is the mean of the last map. It expects RGB as (x − 127) / 128,
/// and was trained on ImageNet with 224 × 224 pixels.
#[derive(Clone, Debug)]
pub struct EfficientNetLite0Backbone {
    network: EfficientNetLite0,
    frozen_maps: usize,
}

impl EfficientNetLite0Backbone {
    /// The network whose parameters are those of `vb`, directly under it, by their published names.
    ///
    /// # Errors
    /// When `vb` refuses a tensor.
    pub fn new(config: &EfficientNetLite0Config, vb: VarBuilder) -> Result<Self> {
        let norm = BatchNormConfig { frozen: config.frozen_norm, ..EfficientNetLite0::NORM };
        Ok(Self { network: EfficientNetLite0::new(norm, MAPS, vb)?, frozen_maps: config.frozen_maps() })
    }
}

impl Backbone for EfficientNetLite0Backbone {
    fn features(&self, images: &Tensor, train: bool) -> Result<Tensor> {
        self.features_of_maps(&self.frozen_maps(images)?, train)
    }

    fn frozen_maps(&self, images: &Tensor) -> Result<Tensor> {
        ImageSize::ANY.check(images)?;
        if self.frozen_maps == 0 {
            return Ok(images.clone());
        }
        let maps = self.network.forward_channels_last(images, self.frozen_maps, false)?;
        Ok(maps.last().unwrap_or(images).clone())
    }

    fn features_of_maps(&self, maps: &Tensor, train: bool) -> Result<Tensor> {
        let found = match self.frozen_maps {
            0 => self.network.forward_channels_last(maps, MAPS, train)?,
            frozen => self.network.forward_from(maps, frozen + 1..=MAPS, train)?,
        };
        mean_of_map(found.last().unwrap_or(maps))
    }

    fn onnx(&self, graph: &mut Graph, images: &Value) -> Result<Value> {
        let maps = self.network.onnx(graph, images)?;
        Ok(mean_of_map_onnx(graph, maps.last().unwrap_or(images)))
    }

    fn num_features(&self) -> usize {
        EfficientNetLite0::CHANNELS[MAPS - 1]
    }

    fn images(&self) -> ImageSize {
        ImageSize::ANY
    }
}
