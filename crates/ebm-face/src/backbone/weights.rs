//! Loading of backbones from weight files.

use std::path::Path;

use candle_core::{DType, Device};
use ebm_nn::import::{self, WeightBytes};
use ebm_nn::mobilefacenet::MobileFaceNet;
use ebm_nn::params::ParamStore;

use super::{Backbone, BackboneConfig};
use crate::network::TRUNK;
use crate::{Error, Result};

/// Preloads the weights at `path` as the initial values of the backbone of `config` in `store`, under `prefix` (may be
/// empty). Call this before [`BackboneConfig::build`].
///
/// The file is safetensors or torch's `.pth` with the published names, or the model of a run whose backbone was trained
/// with its head. The classifier, torch's batch counters and MobileFaceNet's embedding are ignored.
///
/// # Errors
/// [`Error::Weights`] when a name is missing or surplus or a shape differs; else when the file cannot be read.
pub fn preload_backbone(
    store: &ParamStore,
    prefix: &str,
    config: &BackboneConfig,
    path: &Path,
    device: &Device,
) -> Result<()> {
    let tensors = open(config, &WeightBytes::read(path)?, device)?.0.tensors()?;
    store.preload(tensors.into_iter().map(|(name, tensor)| (join(prefix, &name), tensor)).collect());
    Ok(())
}

/// Opens a weight file of the backbone of `config`. Returns its parameters by published name, and the frozen network.
///
/// # Errors
/// As [`preload_backbone`].
pub(crate) fn open(
    config: &BackboneConfig,
    file: &WeightBytes,
    device: &Device,
) -> Result<(ParamStore, Box<dyn Backbone>)> {
    let (mut tensors, _) = file.load(device)?;
    let of_run = join(TRUNK, "");
    if tensors.keys().any(|name| name.starts_with(&of_run)) {
        tensors = import::rename(tensors, |name| name.strip_prefix(&of_run).map(str::to_owned))?;
    } else if let BackboneConfig::Mobilefacenet(_) = config {
        tensors = import::rename(tensors, |name| Some(MobileFaceNet::parameter(name)))?;
    }
    tensors.retain(|name, _| !is_surplus(config, name));
    let built = ParamStore::build(&tensors, |store| config.build(store, "", DType::F32, device));
    let (network, store) = built.map_err(|reason| {
        Error::weights(&file.path, format!("the names and shapes are not those of {config:?}: {reason}"))
    })?;
    Ok((store, network))
}

/// Returns `true` for the parameters of a published file that the backbone does not use.
fn is_surplus(config: &BackboneConfig, name: &str) -> bool {
    match config {
        BackboneConfig::Resnet(_) => name.starts_with("fc.") || name.ends_with("num_batches_tracked"),
        BackboneConfig::Convnext(_) => name.starts_with("head.fc."),
        BackboneConfig::Mobilefacenet(_) => MobileFaceNet::block_of(name) == MobileFaceNet::BLOCKS,
    }
}

/// Returns a parameter's name under `prefix`, which may be empty.
pub(super) fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}
