//! g_x: a residual network and the mean of its last map.

use candle_core::Tensor;
use candle_nn::VarBuilder;
use ebm_experiment::config::{Setting, settings};
use ebm_nn::onnx::{Graph, Value};
use ebm_nn::resnet::{Norm, ResNet, ResNetConfig};
use serde::{Deserialize, Serialize};

use super::{Backbone, ImageSize, mean_of_map, mean_of_map_onnx};
use crate::{Error, Result};

/// How the backbone normalises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResNetNorm {
    /// Batch normalisation that is trained: the paper's.
    Train,
    /// Batch normalisation as a fixed affine map, with torchvision's ε.
    Frozen,
    /// None: the convolutions have biases, for weights into which the normalisation was folded.
    Folded,
}

impl Setting for ResNetNorm {}

settings! {
    /// The shape of a [`ResNetBackbone`]: bottleneck blocks, as in ResNet-50.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct ResNetBackboneConfig {
        /// The number of blocks in each stage; at least one.
        pub layers: [usize; 4] where 1..=64,
        /// The channels of the stem.
        pub width: usize where 1..=1024,
        /// How it normalises.
        pub norm: ResNetNorm,
        /// Whether a block's stride is in its first 1×1 convolution (the original ResNet) or in its 3×3
        /// (torchvision).
        #[serde(default)]
        pub stride_in_1x1: bool,
    }
}

impl ResNetBackboneConfig {
    /// ResNet-50, the paper's.
    pub fn resnet50(norm: ResNetNorm) -> Self {
        Self { layers: [3, 4, 6, 3], width: 64, norm, stride_in_1x1: false }
    }

    /// ResNet-50 as it was first published, with the stride in the first 1×1 convolutions.
    pub fn resnet50_msra(norm: ResNetNorm) -> Self {
        Self { stride_in_1x1: true, ..Self::resnet50(norm) }
    }

    /// The length of g_x: 2048 for ResNet-50.
    pub fn num_features(&self) -> usize {
        self.resnet().channels()[3]
    }

    fn resnet(&self) -> ResNetConfig {
        let norm = match self.norm {
            ResNetNorm::Train => Norm::Train,
            ResNetNorm::Frozen => Norm::Frozen { eps: 1e-5 },
            ResNetNorm::Folded => Norm::Folded,
        };
        let Self { layers, width, stride_in_1x1, .. } = *self;
        ResNetConfig { layers, width, stride_in_1x1, ..ResNetConfig::resnet50(norm) }
    }
}

/// The network from an image to g_x, with torchvision's parameter names: its checkpoints load without their
/// `fc`.
#[derive(Clone, Debug)]
pub struct ResNetBackbone {
    resnet: ResNet,
    num_features: usize,
}

impl ResNetBackbone {
    /// The network whose parameters are those of `vb`, directly under it.
    ///
    /// # Errors
    /// [`Error::Config`] for a stage without blocks or a width of 0; else when `vb` refuses a tensor.
    pub fn new(config: &ResNetBackboneConfig, vb: VarBuilder) -> Result<Self> {
        if config.layers.contains(&0) || config.width == 0 {
            let reason = format!(
                "layers {:?} and width {}: each stage needs a block, and the stem a channel",
                config.layers, config.width
            );
            return Err(Error::config("of the trunk", reason));
        }
        Ok(Self { resnet: ResNet::new(&config.resnet(), vb)?, num_features: config.num_features() })
    }
}

impl Backbone for ResNetBackbone {
    fn features(&self, images: &Tensor, train: bool) -> Result<Tensor> {
        ImageSize::ANY.check(images)?;
        let [.., map] = self.resnet.forward(images, train)?;
        if map.is_contiguous() {
            return Ok(map.flatten_from(2)?.mean(2)?);
        }
        // Its channels are innermost in memory: as rows of channels nothing is moved.
        mean_of_map(&map.permute((0, 2, 3, 1))?)
    }

    fn onnx(&self, graph: &mut Graph, images: &Value) -> Result<Value> {
        let maps = self.resnet.onnx(graph, images)?;
        Ok(mean_of_map_onnx(graph, maps.last().unwrap_or(images)))
    }

    fn num_features(&self) -> usize {
        self.num_features
    }

    fn images(&self) -> ImageSize {
        ImageSize::ANY
    }
}
