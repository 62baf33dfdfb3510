//! Backbones from weight files.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{Device, Tensor};
use ebm_nn::efficientnet::EfficientNetLite0;
use ebm_nn::import::{self, WeightBytes};
use ebm_nn::mobilefacenet::MobileFaceNet;
use ebm_nn::params::ParamStore;

use super::BackboneConfig;
use crate::network::TRUNK;
use crate::{Error, Result, shapes};

/// Sets aside the weights at `path`, safetensors or torch's `.pth` with the published names, or the model of a run whose backbone was trained with its head, as the first values of the parameters of the backbone of
/// `config` in `store`, under `prefix` (may be empty): to be called before [`BackboneConfig::build`]. What the backbone
/// does without is left out: the classifier, torch's counters of batches, and MobileFaceNet's
/// embedding. Of a residual network the configuration need not be known: see
/// [`preload_resnet`](crate::preload_resnet).
///
/// # Errors
/// As [`read_backbone`].
pub fn preload_backbone(
    store: &ParamStore,
    prefix: &str,
    config: &BackboneConfig,
    path: &Path,
    device: &Device,
) -> Result<()> {
    let tensors = read_backbone(config, &WeightBytes::read(path)?, device)?;
    store.preload(tensors.into_iter().map(|(name, tensor)| (join(prefix, &name), tensor)).collect());
    Ok(())
}

/// The parameters of the backbone of `config` in such a file, by their names in it.
///
/// # Errors
/// [`Error::Weights`] when another name is missing or surplus or a shape is another; else when the file
/// cannot be read.
pub(crate) fn read_backbone(
    config: &BackboneConfig,
    file: &WeightBytes,
    device: &Device,
) -> Result<BTreeMap<String, Tensor>> {
    let (mut tensors, _) = file.load(device)?;
    let of_run = format!("{TRUNK}.");
    if tensors.keys().any(|name| name.starts_with(&of_run)) {
        tensors = import::rename(tensors, |name| name.strip_prefix(&of_run).map(str::to_owned))?;
    } else if let BackboneConfig::Mobilefacenet(_) = config {
        tensors = import::rename(tensors, |name| Some(MobileFaceNet::parameter(name)))?;
    }
    tensors.retain(|name, _| !is_surplus(config, name));
    let report = shapes::compare(|vb| config.build_from(vb), &tensors)?;
    if !report.is_exact() {
        let reason = format!("the names and shapes are not those of {config:?}: {report}");
        return Err(Error::weights(&file.path, reason));
    }
    Ok(tensors)
}

/// What a published file has besides the backbone.
fn is_surplus(config: &BackboneConfig, name: &str) -> bool {
    match config {
        BackboneConfig::Resnet(_) => name.starts_with("fc.") || name.ends_with("num_batches_tracked"),
        BackboneConfig::Convnext(_) => name.starts_with("head.fc."),
        BackboneConfig::Mobilefacenet(_) => MobileFaceNet::block_of(name) == MobileFaceNet::BLOCKS,
        BackboneConfig::EfficientnetLite0(_) => {
            EfficientNetLite0::is_classifier(name) || name.ends_with("num_batches_tracked")
        }
    }
}

/// A parameter's name under `prefix`.
pub(super) fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}
