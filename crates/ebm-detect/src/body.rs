//! Feature extractor of a detector or refiner: the maps of a network that was trained on ImageNet.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use candle_core::{Device, Tensor};
use candle_nn::VarBuilder;
use ebm_nn::efficientnet::EfficientNetLite0;
use ebm_nn::onnx::{Graph, Value};
use ebm_nn::resnet::{Norm, ResNet, ResNetConfig};
use ebm_ops::nn::BatchNormConfig;

use crate::Result;
use crate::config::{BackboneConfig, BodyKind, DetectorBody, RefinerNetworkConfig};
use crate::weights::WeightFile;

/// Prefix of the names of a body's parameters.
pub(crate) const PREFIX: &str = "backbone.body";

/// Description of a body: its network, and the maps that it outputs.
#[derive(Clone, Debug)]
pub(crate) struct BodySpec {
    architecture: Architecture,
    /// Range of the network's maps that are output; later maps are not computed.
    outputs: Range<usize>,
    /// Factor of each output map; empty for no scaling.
    scales: Vec<f64>,
}

#[derive(Clone, Debug)]
enum Architecture {
    ResNet(ResNetConfig),
    EfficientNetLite0,
}

impl BodySpec {
    /// Returns the body of a detector, with maps of strides 4 to 32.
    pub fn of_detector(config: &BackboneConfig) -> Result<Self> {
        let (architecture, outputs) = match config.body {
            DetectorBody::Resnet => (Architecture::ResNet(config.resnet()?), 0..4),
            DetectorBody::EfficientnetLite0 => (Architecture::EfficientNetLite0, 1..5),
        };
        Ok(Self { architecture, outputs, scales: config.map_scales.clone() })
    }

    /// Returns the body of a refiner, without the stages that its pyramid's strides do not need.
    pub fn of_refiner(config: &RefinerNetworkConfig) -> Self {
        let resnet = |network| Architecture::ResNet(ResNetConfig { width: config.width, ..network });
        let architecture = match config.body {
            BodyKind::EfficientnetLite0 => Architecture::EfficientNetLite0,
            BodyKind::Resnet18 => resnet(ResNetConfig::resnet18(Norm::Folded)),
            BodyKind::Resnet50 => resnet(ResNetConfig::resnet50_msra(Norm::Folded)),
        };
        let coarsest = config.strides.last().copied().unwrap_or(1);
        let maps = config.body.strides().iter().take_while(|stride| **stride <= coarsest).count();
        Self { architecture, outputs: maps - config.strides.len()..maps, scales: config.map_scales.clone() }
    }

    /// Returns the number of channels of each output map.
    pub fn channels(&self) -> Vec<usize> {
        let all = match &self.architecture {
            Architecture::ResNet(config) => config.channels().to_vec(),
            Architecture::EfficientNetLite0 => EfficientNetLite0::CHANNELS.to_vec(),
        };
        all[self.outputs.clone()].to_vec()
    }

    /// Returns `true` if the parameter `name` belongs to the body, but not to its last `trained` stages. The layers
    /// before the first map count as a stage. EfficientNet's normalisation is always frozen.
    pub fn is_frozen(&self, trained: usize, name: &str) -> bool {
        let Some(name) = name.strip_prefix(PREFIX) else { return false };
        let name = name.trim_start_matches('.');
        name.contains("_bn") || self.map_of(name) + trained <= self.outputs.end
    }

    /// Returns the first map, counted from 1, that depends on the parameter `name`; 0 if all maps do.
    fn map_of(&self, name: &str) -> usize {
        let number = |prefix: &str| name.strip_prefix(prefix)?.split('.').next()?.parse::<usize>().ok();
        match self.architecture {
            Architecture::ResNet(_) => number("layer").unwrap_or(0),
            Architecture::EfficientNetLite0 => EfficientNetLite0::map_of(name),
        }
    }

    /// Reads the body's tensors from the file of a body, or of a detector or refiner that contains one. Layers after
    /// the last output map are left out.
    pub fn read(&self, path: &Path, device: &Device) -> Result<BTreeMap<String, Tensor>> {
        let is_classifier = |name: &str| match self.architecture {
            Architecture::ResNet(_) => name.starts_with("fc."),
            Architecture::EfficientNetLite0 => EfficientNetLite0::is_classifier(name),
        };
        let wanted = |name: &str| !is_classifier(name) && self.map_of(name) <= self.outputs.end;
        let tensors = WeightFile::open(path, device)?.tensors;
        let is_whole = tensors.keys().any(|name| is_of_body(name));
        let own = |name: &str| match is_whole {
            true => name.strip_prefix(PREFIX)?.strip_prefix('.').map(str::to_owned),
            false => Some(name.to_owned()),
        };
        let tensors = tensors.into_iter().filter_map(|(name, tensor)| Some((own(&name)?, tensor)));
        let tensors = tensors.filter(|(name, _)| wanted(name));
        Ok(tensors.map(|(name, tensor)| (format!("{PREFIX}.{name}"), tensor)).collect())
    }
}

/// Returns `true` if the parameter `name` belongs to a body.
pub(crate) fn is_of_body(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Returns the parameters of a network that belong to its body.
pub(crate) fn tensors_of(parameters: &BTreeMap<String, Tensor>) -> BTreeMap<String, Tensor> {
    let own = parameters.iter().filter(|(name, _)| is_of_body(name));
    own.map(|(name, tensor)| (name.clone(), tensor.clone())).collect()
}

/// Feature extractor with its parameters.
pub(crate) struct Body {
    network: Network,
    spec: BodySpec,
}

enum Network {
    ResNet(ResNet),
    EfficientNet(EfficientNetLite0),
}

impl Body {
    /// Builds the body from the parameters of `vb`.
    pub fn new(spec: BodySpec, vb: &VarBuilder) -> Result<Self> {
        let (maps, vb) = (spec.outputs.end, vb.pp(PREFIX));
        let network = match &spec.architecture {
            Architecture::EfficientNetLite0 => {
                let norm = BatchNormConfig::frozen(EfficientNetLite0::NORM.eps);
                Network::EfficientNet(EfficientNetLite0::new(norm, maps, vb)?)
            }
            Architecture::ResNet(config) => Network::ResNet(ResNet::new(&config.up_to(maps), vb)?),
        };
        Ok(Self { network, spec })
    }

    /// Computes the output maps of `pixels (N, 3, H, W)`, finest first, with the channels innermost:
    /// `(N, H/stride, W/stride, C)`. With `train`, normalisation that is not frozen uses and records the
    /// batch's statistics.
    pub fn maps(&self, pixels: &Tensor, train: bool) -> Result<Vec<Tensor>> {
        let BodySpec { outputs, scales, .. } = &self.spec;
        let mut maps = match &self.network {
            Network::ResNet(network) => network.forward_channels_last(pixels, outputs.end, train)?,
            Network::EfficientNet(network) => network.forward_channels_last(pixels, outputs.end, train)?,
        };
        let mut maps = maps.split_off(outputs.start);
        for (map, scale) in maps.iter_mut().zip(scales).filter(|(_, scale)| **scale != 1.0) {
            *map = (&*map * *scale)?;
        }
        Ok(maps)
    }

    /// Adds [`maps`](Self::maps) to an ONNX graph, as maps `(N, C, H, W)`.
    pub fn onnx(&self, graph: &mut Graph, pixels: &Value) -> Result<Vec<Value>> {
        let BodySpec { outputs, scales, .. } = &self.spec;
        let mut maps = match &self.network {
            Network::ResNet(network) => network.onnx(graph, pixels)?,
            Network::EfficientNet(network) => network.onnx(graph, pixels)?,
        };
        let mut maps = maps.split_off(outputs.start);
        for (map, scale) in maps.iter_mut().zip(scales).filter(|(_, scale)| **scale != 1.0) {
            let scale = graph.number(*scale as f32);
            *map = graph.node("Mul", &[map, &scale], &[]);
        }
        Ok(maps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ExperimentConfig, RefinerConfig, Settings};
    use candle_core::DType;
    use ebm_base::Key;
    use ebm_nn::params::ParamStore;

    /// Computes the maps of 64 × 96 pixels, and returns the names of the parameters used.
    fn maps(spec: &BodySpec) -> (Vec<Tensor>, Vec<String>) {
        let pixels = Tensor::ones((1, 3, 64, 96), DType::F32, &Device::Cpu).unwrap();
        let store = ParamStore::new(Key::new(0));
        let body = Body::new(spec.clone(), &store.var_builder(DType::F32, &Device::Cpu)).unwrap();
        (body.maps(&pixels, false).unwrap(), store.names())
    }

    #[test]
    fn maps_have_the_configured_strides_and_need_no_more_than_they_say() {
        for body in [BodyKind::Resnet18, BodyKind::EfficientnetLite0] {
            let mut config = RefinerConfig::embedded("refiner").unwrap().network;
            (config.body, config.width, config.strides) = (body, 4, vec![8, 16]);
            let spec = BodySpec::of_refiner(&config);
            let (maps, names) = maps(&spec);
            for ((map, stride), channels) in maps.iter().zip(&config.strides).zip(spec.channels()) {
                assert_eq!(map.dims(), [1, 64 / stride, 96 / stride, channels]);
            }
            let last = |trained: usize| {
                let names = names.iter().filter(|name| !name.contains("_bn"));
                names.filter(|name| !spec.is_frozen(trained, name)).collect::<Vec<_>>()
            };
            assert!(last(0).is_empty());
            let first = if body == BodyKind::Resnet18 { "layer3.0" } else { "_blocks.10" };
            assert!(last(1)[0].starts_with(&format!("{PREFIX}.{first}")), "{:?}", last(1));
            assert!(last(9).iter().any(|name| name.contains("conv1") || name.contains("_conv_stem")));
        }
    }

    #[test]
    fn a_detector_sees_four_maps_each_times_its_scale() {
        let mut config = ExperimentConfig::embedded("mini").unwrap().detector.backbone;
        for body in [DetectorBody::Resnet, DetectorBody::EfficientnetLite0] {
            (config.body, config.map_scales) = (body, vec![]);
            let spec = BodySpec::of_detector(&config).unwrap();
            let (plain, _) = maps(&spec);
            config.map_scales = vec![1.0, 2.0, 3.0, 4.0];
            let (scaled, _) = maps(&BodySpec::of_detector(&config).unwrap());
            for (i, (stride, channels)) in [4, 8, 16, 32].into_iter().zip(spec.channels()).enumerate() {
                assert_eq!(plain[i].dims(), [1, 64 / stride, 96 / stride, channels]);
                let [plain, scaled] =
                    [&plain[i], &scaled[i]].map(|map| map.flatten_all().unwrap().to_vec1::<f32>().unwrap());
                let factor = (i + 1) as f32;
                assert!(plain.iter().zip(&scaled).all(|(a, b)| (factor * a - b).abs() <= 1e-5 * b.abs()));
                assert!(plain.iter().any(|value| *value != 0.0));
            }
        }
    }
}
