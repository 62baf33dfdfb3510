//! A residual network as a backbone. g_x is the mean of its last map.

use candle_core::Tensor;
use candle_nn::VarBuilder;
use ebm_experiment::config::settings_table;
use ebm_nn::onnx::{Graph, Value};
use ebm_nn::resnet::{Norm, ResNet, ResNetConfig};

use super::{Backbone, check_images, mean_of_map, mean_of_map_onnx};
use crate::{Error, Result};

settings_table! {
    /// Sizes of a [`ResNetBackbone`], which has bottleneck blocks like torchvision's ResNet-50.
    pub struct ResNetBackboneConfig {
        /// Number of blocks in each stage, at least one.
        pub layers: [usize; 4] where 1..=64,
        /// Number of channels of the stem.
        pub width: usize where 1..=1024,
    }
}

impl ResNetBackboneConfig {
    /// Returns the sizes of ResNet-50, as in the paper.
    pub fn resnet50() -> Self {
        Self { layers: [3, 4, 6, 3], width: 64 }
    }

    /// Returns the length of g_x, 2048 for ResNet-50.
    pub fn num_features(&self) -> usize {
        self.resnet().channels()[3]
    }

    fn resnet(&self) -> ResNetConfig {
        ResNetConfig { layers: self.layers, width: self.width, ..ResNetConfig::resnet50(Norm::Train) }
    }
}

/// A residual network that computes g_x. Checkpoints of torchvision load, because names are equal; `fc` is ignored.
#[derive(Clone, Debug)]
pub struct ResNetBackbone {
    resnet: ResNet,
    num_features: usize,
}

impl ResNetBackbone {
    /// Builds the network with the parameters of `vb`.
    ///
    /// # Errors
    /// [`Error::Config`] for a stage without blocks; else when the width is 0 or `vb` refuses a tensor.
    pub fn new(config: &ResNetBackboneConfig, vb: VarBuilder) -> Result<Self> {
        if config.layers.contains(&0) {
            return Err(Error::config("of the trunk", format!("layers {:?}: none may be 0", config.layers)));
        }
        Ok(Self { resnet: ResNet::new(&config.resnet(), vb)?, num_features: config.num_features() })
    }
}

impl Backbone for ResNetBackbone {
    fn features(&self, images: &Tensor, train: bool) -> Result<Tensor> {
        check_images(images, 1, 1)?;
        let [.., map] = self.resnet.forward(images, train)?;
        if map.is_contiguous() {
            return Ok(map.flatten_from(2)?.mean(2)?);
        }
        // The channels are innermost in memory, so the permuted map needs no copy.
        mean_of_map(&map.permute((0, 2, 3, 1))?)
    }

    fn onnx(&self, graph: &mut Graph, images: &Value) -> Result<Value> {
        let maps = self.resnet.onnx(graph, images)?;
        Ok(mean_of_map_onnx(graph, maps.last().unwrap_or(images)))
    }

    fn num_features(&self) -> usize {
        self.num_features
    }
}
