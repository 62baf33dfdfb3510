//! ResNet-18 up to layer3: the frozen features of classifier and box module.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use ebm_nn::import;
use ebm_nn::norm::BatchNormConfig;
use ebm_nn::params::ParamStore;
use ebm_nn::resnet::{Norm, ResNet, ResNetConfig};
use ebm_seed::Key;

use crate::{Error, Result};

/// The stages of a ResNet that the tracker sees.
const STAGES: usize = 3;

/// The maps of N images of side S that the tracker works on, on the CPU with the channels innermost.
#[derive(Clone, Debug)]
pub struct BackboneFeatures {
    /// (N, 128, S/8, S/8) for ResNet-18.
    pub layer2: Tensor,
    /// (N, 256, S/16, S/16) for ResNet-18.
    pub layer3: Tensor,
}

impl BackboneFeatures {
    /// N.
    ///
    /// # Errors
    /// When layer2 is no map.
    pub fn images(&self) -> Result<usize> {
        Ok(self.layer2.dims4()?.0)
    }

    /// The maps in the order of their strides.
    pub(crate) fn maps(&self) -> [&Tensor; 2] {
        [&self.layer2, &self.layer3]
    }
}

/// A residual network of basic blocks without its last stage, frozen: no gradient reaches it, and its batch
/// normalisation is the affine map of its running statistics.
#[derive(Debug)]
pub struct Backbone {
    config: ResNetConfig,
    network: ResNet,
}

impl Backbone {
    /// The network in the weight file at `path`: safetensors or torch's `.pth`, with torchvision's names.
    ///
    /// Its width and the number of its blocks are told from the file, and its normalisation too: a
    /// `bn1.weight`, or a `conv1.bias` into which it was folded. layer4 and the classifier are left out.
    ///
    /// # Errors
    /// [`Error::Weights`] when a name is missing or surplus or a shape is another; else when the file cannot
    /// be read.
    pub fn load(path: &Path, device: &Device) -> Result<Self> {
        Self::of_tensors(import::load(path, device)?, device)
            .map_err(|reason| Error::Weights { path: path.to_owned(), reason })
    }

    /// The network with the parameters of `store` whose names begin with `prefix` (may be empty), for
    /// instance of one that was trained as a classifier.
    ///
    /// # Errors
    /// [`Error::Config`] when they are not those of a ResNet of basic blocks.
    pub fn of_store(store: &ParamStore, prefix: &str, device: &Device) -> Result<Self> {
        let own = |(name, tensor): (String, Tensor)| Some((name.strip_prefix(prefix)?.to_owned(), tensor));
        Self::of_tensors(store.tensors()?.into_iter().filter_map(own).collect(), device)
            .map_err(|reason| Error::Config { part: "backbone", reason })
    }

    fn of_tensors(
        mut tensors: BTreeMap<String, Tensor>,
        device: &Device,
    ) -> std::result::Result<Self, String> {
        tensors.retain(|name, _| !["fc.", "layer4."].iter().any(|left_out| name.starts_with(left_out)));
        let config = examine(&tensors)?;
        let store = ParamStore::new(Key::new(0));
        store.freeze(|_| true);
        store.preload(tensors);
        let build = || -> Result<Self> {
            let network = ResNet::new(&config, store.var_builder(DType::F32, device))?;
            Ok(Self { config, network })
        };
        let backbone = build().map_err(|error| error.to_string())?;
        let report = store.preload_report();
        if report.is_exact() {
            return Ok(backbone);
        }
        Err(format!("not a residual network of basic blocks with torchvision's names: {report}"))
    }

    /// The channels of layer2 and layer3.
    pub fn channels(&self) -> [usize; 2] {
        let [_, layer2, layer3, _] = self.config.channels();
        [layer2, layer3]
    }

    /// What the file held.
    pub fn config(&self) -> &ResNetConfig {
        &self.config
    }

    /// The maps of images (N, 3, H, W): RGB over 255, less ImageNet's mean, over its deviation.
    ///
    /// # Errors
    /// When `images` has another shape or is not f32.
    pub fn features(&self, images: &Tensor) -> Result<BackboneFeatures> {
        let mut maps = self.network.forward_stages(images, STAGES, false)?;
        match (maps.pop(), maps.pop()) {
            (Some(layer3), Some(layer2)) => Ok(BackboneFeatures { layer2, layer3 }),
            _ => Err(Error::Config { part: "backbone", reason: "it has fewer than three stages".into() }),
        }
    }
}

/// The configuration of the network whose tensors these are.
fn examine(tensors: &BTreeMap<String, Tensor>) -> std::result::Result<ResNetConfig, String> {
    let width = match tensors.get("conv1.weight").map(Tensor::dims) {
        Some([width, 3, 7, 7]) => *width,
        Some(_) | None => return Err("has no conv1.weight (O, 3, 7, 7), with which a ResNet begins".into()),
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
    Ok(config)
}
