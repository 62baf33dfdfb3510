//! What a refiner sees of an image: the maps of a network that was trained on ImageNet.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{Device, Tensor};
use candle_nn::VarBuilder;
use ebm_nn::efficientnet::EfficientNetLite0;
use ebm_nn::norm::BatchNormConfig;
use ebm_nn::resnet::{Norm, ResNet, ResNetConfig};

use crate::{
    config::{BodyKind, RefinerNetworkConfig},
    error::Result,
    weights,
};

/// The names of its parameters begin so, as those of a detector's.
const PREFIX: &str = "backbone.body";

/// A body, of any [`BodyKind`].
pub struct Body {
    network: Network,
    /// Maps that are computed, and those of them that the pyramid takes.
    maps: usize,
    taken: usize,
}

enum Network {
    ResNet(ResNet),
    EfficientNet(EfficientNetLite0),
}

impl Body {
    /// The body whose parameters are those of `vb`, no larger than the pyramid's strides need.
    pub fn new(config: &RefinerNetworkConfig, vb: &VarBuilder) -> Result<Self> {
        let (maps, vb) = (maps(config), vb.pp(PREFIX));
        let network = match config.body {
            BodyKind::EfficientnetLite0 => {
                let norm = BatchNormConfig::frozen(EfficientNetLite0::NORM.eps);
                Network::EfficientNet(EfficientNetLite0::new(norm, maps, vb)?)
            }
            BodyKind::Resnet18 | BodyKind::Resnet50 => {
                Network::ResNet(ResNet::new(&resnet(config).up_to(maps), vb)?)
            }
        };
        Ok(Self { network, maps, taken: config.strides.len() })
    }

    /// `(N, 3, H, W)` → its maps of the configured strides, finest first, with the channels innermost:
    /// `(N, H/stride, W/stride, C)`.
    pub fn maps(&self, pixels: &Tensor) -> Result<Vec<Tensor>> {
        let mut maps = match &self.network {
            Network::ResNet(network) => network.forward_channels_last(pixels, self.maps, false)?,
            Network::EfficientNet(network) => network.forward_channels_last(pixels, self.maps, false)?,
        };
        Ok(maps.split_off(self.maps - self.taken))
    }
}

fn resnet(config: &RefinerNetworkConfig) -> ResNetConfig {
    let network = match config.body {
        BodyKind::Resnet50 => ResNetConfig::resnet50_msra(Norm::Folded),
        _ => ResNetConfig::resnet18(Norm::Folded),
    };
    ResNetConfig { width: config.width, ..network }
}

/// Maps up to the coarsest stride.
fn maps(config: &RefinerNetworkConfig) -> usize {
    let coarsest = config.strides.last().copied().unwrap_or(1);
    config.body.strides().iter().take_while(|stride| **stride <= coarsest).count()
}

/// Channels of the maps that the pyramid takes.
pub fn channels(config: &RefinerNetworkConfig) -> Vec<usize> {
    let all = match config.body {
        BodyKind::EfficientnetLite0 => EfficientNetLite0::CHANNELS.to_vec(),
        BodyKind::Resnet18 | BodyKind::Resnet50 => resnet(config).channels().to_vec(),
    };
    let maps = maps(config);
    all[maps - config.strides.len()..maps].to_vec()
}

/// Whether the parameter of this name is a body's.
pub(crate) fn is_of_body(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Whether the parameter of this name is the body's and not among those of its last `trained` maps; what
/// comes before the first map counts as one more.
pub fn is_frozen(config: &RefinerNetworkConfig, trained: usize, name: &str) -> bool {
    let Some(name) = name.strip_prefix(PREFIX) else { return false };
    let name = name.trim_start_matches('.');
    name.contains("_bn") || map_of(config.body, name) + trained <= maps(config)
}

/// The map, from 1, that is the first to need the parameter; 0 where all do.
fn map_of(body: BodyKind, name: &str) -> usize {
    /// The last block of each map.
    const BLOCKS: [usize; 4] = [0, 2, 4, 10];
    let number = |prefix: &str| name.strip_prefix(prefix)?.split('.').next()?.parse::<usize>().ok();
    match body {
        BodyKind::Resnet18 | BodyKind::Resnet50 => number("layer").unwrap_or(0),
        BodyKind::EfficientnetLite0 => {
            number("_blocks.").map_or(0, |block| 1 + BLOCKS.iter().filter(|last| **last < block).count())
        }
    }
}

/// The file's tensors that are `config`'s body's, by the names that they have here; of what its network has
/// beyond the maps that the pyramid needs, none.
pub fn read(config: &RefinerNetworkConfig, path: &Path, device: &Device) -> Result<BTreeMap<String, Tensor>> {
    let is_classifier = |name: &str| match config.body {
        BodyKind::EfficientnetLite0 => EfficientNetLite0::is_classifier(name),
        BodyKind::Resnet18 | BodyKind::Resnet50 => name.starts_with("fc."),
    };
    let wanted = |name: &str| !is_classifier(name) && map_of(config.body, name) <= maps(config);
    let tensors = weights::read(path, device)?.into_iter().filter(|(name, _)| wanted(name));
    Ok(tensors.map(|(name, tensor)| (format!("{PREFIX}.{name}"), tensor)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{RefinerConfig, Settings};
    use candle_core::DType;
    use ebm_nn::params::ParamStore;
    use ebm_seed::Key;

    #[test]
    fn maps_have_the_configured_strides_and_need_no_more_than_they_say() {
        let pixels = Tensor::zeros((1, 3, 64, 96), DType::F32, &Device::Cpu).unwrap();
        for body in [BodyKind::Resnet18, BodyKind::EfficientnetLite0] {
            let mut config = RefinerConfig::embedded("refiner").unwrap().network;
            (config.body, config.width, config.strides) = (body, 4, vec![8, 16]);
            let store = ParamStore::new(Key::new(0));
            let network = Body::new(&config, &store.var_builder(DType::F32, &Device::Cpu)).unwrap();
            let maps = network.maps(&pixels).unwrap();
            for ((map, stride), channels) in maps.iter().zip(&config.strides).zip(channels(&config)) {
                assert_eq!(map.dims(), [1, 64 / stride, 96 / stride, channels]);
            }
            let last = |trained: usize| {
                let names = store.names().into_iter().filter(|name| !name.contains("_bn"));
                names.filter(|name| !is_frozen(&config, trained, name)).collect::<Vec<_>>()
            };
            assert!(last(0).is_empty());
            let first = if body == BodyKind::Resnet18 { "layer3.0" } else { "_blocks.10" };
            assert!(last(1)[0].starts_with(&format!("{PREFIX}.{first}")), "{:?}", last(1));
            assert!(last(9).iter().any(|name| name.contains("conv1") || name.contains("_conv_stem")));
        }
    }
}
