//! Frozen backbone of the classifier and the box module: the first stages of a network trained on ImageNet.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use ebm_data::transform::Normalise;
use ebm_nn::efficientnet::EfficientNetLite0;
use ebm_nn::import::WeightBytes;
use ebm_nn::onnx::{Graph, Value};
use ebm_nn::params::ParamStore;
use ebm_nn::resnet::{Norm, ResNet, ResNetConfig};
use ebm_ops::nhwc::to_nchw;
use ebm_ops::nn::BatchNormConfig;

use crate::{Error, Result};

/// Number of stages of a ResNet that the tracker computes.
const STAGES: usize = 3;
/// Number of maps of an EfficientNet-Lite0 that the tracker computes. It uses the last two, of strides 8 and 16.
const LITE0_MAPS: usize = 4;
/// Name of the first parameter of an EfficientNet-Lite0, after a prefix.
const LITE0_STEM: &str = "_conv_stem.weight";

/// Maps of N images of side S that the tracker uses. On the CPU, the channels are innermost.
#[derive(Clone, Debug)]
pub struct BackboneFeatures {
    /// Map of stride 8: (N, 128, S/8, S/8) for ResNet-18, (N, 40, S/8, S/8) for EfficientNet-Lite0.
    pub layer2: Tensor,
    /// Map of stride 16: (N, 256, S/16, S/16) for ResNet-18, (N, 112, S/16, S/16) for EfficientNet-Lite0.
    pub layer3: Tensor,
}

impl BackboneFeatures {
    /// Returns the maps in the order of their strides.
    pub(crate) fn maps(&self) -> [&Tensor; 2] {
        [&self.layer2, &self.layer3]
    }
}

/// A frozen network without its last stages: a residual network of basic blocks, or EfficientNet-Lite0 up to its map of
/// stride 16. It gets no gradients, and its batch normalisation uses the running statistics.
#[derive(Debug)]
pub struct Backbone {
    network: Network,
    /// Channels of the two maps.
    channels: [usize; 2],
}

#[derive(Debug)]
enum Network {
    ResNet(ResNet),
    Lite0(EfficientNetLite0),
}

impl Backbone {
    /// Loads the network from the weight file at `path`, which is safetensors or torch's `.pth`. A ResNet has
    /// torchvision's names, an EfficientNet-Lite0 the published ones, with or without a prefix.
    ///
    /// The file determines a ResNet's width, its number of blocks, and its normalisation: `bn1.weight`, or a
    /// `conv1.bias` if the normalisation was folded. Later stages and the classifier are ignored.
    ///
    /// # Errors
    /// [`Error::Weights`] when a name is missing or surplus or a shape differs; else when the file cannot be read.
    pub fn load(path: &Path, device: &Device) -> Result<Self> {
        Self::of_bytes(&WeightBytes::read(path)?, device)
    }

    /// Loads the network from the bytes of a file, like [`load`](Self::load).
    pub(crate) fn of_bytes(file: &WeightBytes, device: &Device) -> Result<Self> {
        let (tensors, _) = file.load(device)?;
        Self::of_tensors(tensors, device).map_err(|reason| Error::weights(&file.path, reason))
    }

    /// Builds the network from the parameters of `store` whose names begin with `prefix` (may be empty), for example
    /// from a network that was trained as a classifier.
    ///
    /// # Errors
    /// [`Error::Config`] when the parameters belong to neither network.
    pub fn of_store(store: &ParamStore, prefix: &str, device: &Device) -> Result<Self> {
        let own = |(name, tensor): (String, Tensor)| Some((name.strip_prefix(prefix)?.to_owned(), tensor));
        Self::of_tensors(store.tensors()?.into_iter().filter_map(own).collect(), device)
            .map_err(|reason| Error::config("of the backbone", reason))
    }

    fn of_tensors(tensors: BTreeMap<String, Tensor>, device: &Device) -> std::result::Result<Self, String> {
        let prefix = tensors.keys().find_map(|name| name.strip_suffix(LITE0_STEM)).map(str::to_owned);
        let lite0 = |store: &ParamStore| {
            let norm = BatchNormConfig { frozen: true, ..EfficientNetLite0::NORM };
            EfficientNetLite0::new(norm, LITE0_MAPS, store.var_builder(DType::F32, device))
                .map(Network::Lite0)
        };
        match prefix {
            Some(prefix) => {
                let [.., layer2, layer3, _] = EfficientNetLite0::CHANNELS;
                let (network, _) = ParamStore::build(&lite0_tensors(tensors, &prefix), lite0)
                    .map_err(|reason| format!("not an EfficientNet-Lite0 as published: {reason}"))?;
                Ok(Self { network, channels: [layer2, layer3] })
            }
            None => {
                let (config, tensors) = resnet_tensors(tensors)?;
                let [_, layer2, layer3, _] = config.channels();
                let resnet = |store: &ParamStore| ResNet::new(&config, store.var_builder(DType::F32, device));
                let (network, _) = ParamStore::build(&tensors, resnet).map_err(|reason| {
                    format!("not a residual network of basic blocks with torchvision's names: {reason}")
                })?;
                Ok(Self { network: Network::ResNet(network), channels: [layer2, layer3] })
            }
        }
    }

    /// Returns the channels of layer2 and layer3.
    pub fn channels(&self) -> [usize; 2] {
        self.channels
    }

    /// Computes the maps of `images` (N, 3, H, W): RGB divided by 255, with ImageNet's mean and standard deviation.
    ///
    /// # Errors
    /// When `images` has another shape or is not f32.
    pub fn features(&self, images: &Tensor) -> Result<BackboneFeatures> {
        let maps = match &self.network {
            Network::ResNet(network) => network.forward_stages(images, STAGES, false)?,
            Network::Lite0(network) => {
                let maps = network.forward_channels_last(&rescaled(images)?, LITE0_MAPS, false)?;
                maps.iter().map(to_nchw).collect::<ebm_nn::Result<_>>()?
            }
        };
        let [layer2, layer3] = last_two(maps)?;
        Ok(BackboneFeatures { layer2, layer3 })
    }

    /// Adds [`features`](Self::features) to an ONNX graph. Returns layer2 and layer3.
    ///
    /// # Errors
    /// When a parameter cannot be read.
    pub fn onnx(&self, graph: &mut Graph, images: &Value) -> Result<[Value; 2]> {
        last_two(match &self.network {
            Network::ResNet(network) => network.onnx(graph, images)?,
            Network::Lite0(network) => {
                let images = rescaled_onnx(graph, images)?;
                network.onnx(graph, &images)?
            }
        })
    }
}

/// Returns the last two of `maps`, of strides 8 and 16.
fn last_two<T>(mut maps: Vec<T>) -> Result<[T; 2]> {
    match (maps.pop(), maps.pop()) {
        (Some(layer3), Some(layer2)) => Ok([layer2, layer3]),
        _ => Err(Error::config("of the backbone", "it has fewer than two maps")),
    }
}

/// Returns factor and shift of each channel, which convert ImageNet's normalisation into EfficientNet-Lite0's,
/// (x − 127) / 128.
fn rescaling() -> [[f64; 2]; 3] {
    let Normalise { mean, std, .. } = Normalise::IMAGENET;
    [0, 1, 2].map(|channel| {
        let [mean, std] = [mean[channel], std[channel]].map(f64::from);
        [std * 255. / 128., (mean * 255. - 127.) / 128.]
    })
}

/// Converts images from ImageNet's normalisation into EfficientNet-Lite0's.
fn rescaled(images: &Tensor) -> Result<Tensor> {
    // Channel by channel, because candle's broadcasting takes ten times as long.
    let channels = rescaling().into_iter().enumerate();
    let channels =
        channels.map(|(channel, [factor, shift])| images.narrow(1, channel, 1)?.affine(factor, shift));
    Ok(Tensor::cat(&channels.collect::<candle_core::Result<Vec<_>>>()?, 1)?)
}

/// Adds [`rescaled`] to an ONNX graph.
fn rescaled_onnx(graph: &mut Graph, images: &Value) -> Result<Value> {
    // Folding this into the first convolution would be wrong: its zero padding stands for rescaled pixels.
    let mut each = |which: usize| {
        let numbers = rescaling().map(|numbers| numbers[which] as f32);
        graph.constant(&Tensor::new(&numbers, &Device::Cpu)?.reshape((1, 3, 1, 1))?)
    };
    let [factor, shift] = [each(0)?, each(1)?];
    let scaled = graph.node("Mul", &[images, &factor], &[]);
    Ok(graph.node("Add", &[&scaled, &shift], &[]))
}

/// Selects the tensors of an EfficientNet-Lite0 that the tracker needs, and removes `prefix` from their names.
fn lite0_tensors(tensors: BTreeMap<String, Tensor>, prefix: &str) -> BTreeMap<String, Tensor> {
    let own = tensors.into_iter().filter_map(|(name, tensor)| {
        let name = name.strip_prefix(prefix)?;
        let needed = !EfficientNetLite0::is_classifier(name)
            && EfficientNetLite0::map_of(name) <= LITE0_MAPS
            && !name.ends_with("num_batches_tracked");
        needed.then(|| (name.to_owned(), tensor))
    });
    own.collect()
}

/// Returns the sizes of the ResNet with these tensors, and the tensors that the tracker needs.
fn resnet_tensors(
    mut tensors: BTreeMap<String, Tensor>,
) -> std::result::Result<(ResNetConfig, BTreeMap<String, Tensor>), String> {
    tensors.retain(|name, _| !["fc.", "layer4."].iter().any(|left_out| name.starts_with(left_out)));
    let width = match tensors.get("conv1.weight").map(Tensor::dims) {
        Some([width, 3, 7, 7]) => *width,
        Some(_) | None => {
            return Err("has neither a conv1.weight (O, 3, 7, 7), with which a ResNet begins, nor the \
                        _conv_stem.weight of an EfficientNet-Lite0"
                .into());
        }
    };
    let norm = match (tensors.contains_key("bn1.weight"), tensors.contains_key("conv1.bias")) {
        (true, _) => Norm::Frozen { eps: BatchNormConfig::TRAIN.eps },
        (false, true) => Norm::Folded,
        (false, false) => {
            return Err("has neither bn1.weight nor conv1.bias: it lacks its normalisation".into());
        }
    };
    let mut config = ResNetConfig { width, ..ResNetConfig::resnet18(norm) }.up_to(STAGES);
    for (stage, blocks) in config.layers.iter_mut().enumerate().take(STAGES) {
        let block = |i: &usize| tensors.contains_key(&format!("layer{}.{i}.conv1.weight", stage + 1));
        *blocks = (0..).take_while(block).count();
        if *blocks == 0 {
            return Err(format!("has no layer{}, which the tracker needs", stage + 1));
        }
    }
    Ok((config, tensors))
}
