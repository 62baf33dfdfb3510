//! Residual networks from weight files.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use ebm_nn::import::WeightBytes;
use ebm_nn::params::ParamStore;

use super::{ResNetBackbone, ResNetBackboneConfig, ResNetNorm, weights::join};
use crate::{Error, Result, shapes};

/// What a file's names and shapes do not tell about a backbone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResNetFile {
    /// Whether batch normalisation stays a fixed affine map in training, [`ResNetNorm::Frozen`].
    pub frozen_norm: bool,
    /// [`ResNetBackboneConfig::stride_in_1x1`]. `None`: as the file's metadata say (see [`load_resnet`]);
    /// where they do not, as torchvision has it, which is refused for folded weights: these come from
    /// anywhere.
    pub stride_in_1x1: Option<bool>,
}

/// The network in the weight file at `path`, outside any graph: for prediction.
///
/// The file is safetensors, 8-bit fixed point included ([`load`](ebm_nn::import::load)), or torch's `.pth`, with
/// torchvision's names. Its configuration is told from the file: the blocks and the width from the names and
/// shapes, batch normalisation from a `bn1.weight`, folded normalisation from a `conv1.bias` without one, the
/// place of the stride from the metadata: `stride_in_1x1`, `true` or `false`, or an `arch` that speaks of a
/// stride in the first 1×1 convolutions. The classifier `fc` and torch's counters of batches are left out.
///
/// # Errors
/// [`Error::Weights`] when a name is missing or surplus or a shape is another, or when the file does not say
/// where the stride is and has to; else when the file cannot be read.
pub fn load_resnet(
    path: &Path,
    file: ResNetFile,
    device: &Device,
) -> Result<(ResNetBackboneConfig, ResNetBackbone)> {
    resnet_of(&WeightBytes::read(path)?, file, device)
}

/// [`load_resnet`] of a file's bytes.
pub(crate) fn resnet_of(
    bytes: &WeightBytes,
    file: ResNetFile,
    device: &Device,
) -> Result<(ResNetBackboneConfig, ResNetBackbone)> {
    let (config, tensors) = read(bytes, file, device)?;
    let vb = VarBuilder::from_tensors(tensors.into_iter().collect(), DType::F32, device);
    let trunk = ResNetBackbone::new(&config, vb)?;
    Ok((config, trunk))
}

/// Sets aside the weights at `path`, read as by [`load_resnet`], as the first values of a backbone's
/// parameters in `store`, under `prefix` (may be empty). Then `ResNetBackbone::new` with the returned
/// configuration takes them; what is not frozen in `store` is trained, as in the paper.
///
/// # Errors
/// As [`load_resnet`].
pub fn preload_resnet(
    store: &ParamStore,
    prefix: &str,
    path: &Path,
    file: ResNetFile,
    device: &Device,
) -> Result<ResNetBackboneConfig> {
    let (config, tensors) = read(&WeightBytes::read(path)?, file, device)?;
    store.preload(tensors.into_iter().map(|(name, tensor)| (join(prefix, &name), tensor)).collect());
    Ok(config)
}

/// The configuration of the backbone in `bytes` and exactly its tensors.
fn read(
    bytes: &WeightBytes,
    file: ResNetFile,
    device: &Device,
) -> Result<(ResNetBackboneConfig, BTreeMap<String, Tensor>)> {
    let (path, (mut tensors, said)) = (bytes.path.as_path(), bytes.load(device)?);
    tensors.retain(|name, _| !name.starts_with("fc.") && !name.ends_with("num_batches_tracked"));
    let config = examine(path, file, &tensors, &said)?;
    let report = shapes::compare(|vb| ResNetBackbone::new(&config, vb), &tensors)?;
    if report.is_exact() {
        return Ok((config, tensors));
    }
    let reason =
        format!("not a residual network of bottlenecks with torchvision's names, {config:?}: {report}");
    Err(Error::weights(path, reason))
}

fn examine(
    path: &Path,
    file: ResNetFile,
    tensors: &BTreeMap<String, Tensor>,
    said: &BTreeMap<String, String>,
) -> Result<ResNetBackboneConfig> {
    let refuse = |reason: &str| Error::weights(path, reason);
    let width = match tensors.get("conv1.weight").map(Tensor::dims) {
        Some([width, 3, 7, 7]) => *width,
        Some(_) | None => return Err(refuse("has no conv1.weight (O, 3, 7, 7), with which a ResNet begins")),
    };
    let blocks = |stage: usize| {
        let block = |i: &usize| tensors.contains_key(&format!("layer{stage}.{i}.conv1.weight"));
        (0..).take_while(block).count()
    };
    let layers = [1, 2, 3, 4].map(blocks);
    if layers.contains(&0) {
        return Err(refuse("has not all of layer1 to layer4, which a trunk needs"));
    }
    let norm = match (tensors.contains_key("bn1.weight"), tensors.contains_key("conv1.bias")) {
        (true, _) if file.frozen_norm => ResNetNorm::Frozen,
        (true, _) => ResNetNorm::Train,
        (false, true) => ResNetNorm::Folded,
        (false, false) => {
            return Err(refuse("has neither bn1.weight nor conv1.bias: it lacks its normalisation"));
        }
    };
    let stride_in_1x1 = match (file.stride_in_1x1, noted_stride(path, said)?, norm) {
        (Some(given), _, _) => given,
        (None, Some(noted), _) => noted,
        (None, None, ResNetNorm::Train | ResNetNorm::Frozen) => false,
        (None, None, ResNetNorm::Folded) => {
            return Err(refuse(
                "folded weights whose metadata do not say where the stride is; say so as stride_in_1x1",
            ));
        }
    };
    Ok(ResNetBackboneConfig { layers, width, norm, stride_in_1x1 })
}

/// What the metadata say about the stride, if there are any.
fn noted_stride(path: &Path, metadata: &BTreeMap<String, String>) -> Result<Option<bool>> {
    match metadata.get("stride_in_1x1").map(String::as_str) {
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(other) => {
            let reason = format!("the metadata's stride_in_1x1 is {other:?}, neither true nor false");
            Err(Error::weights(path, reason))
        }
        None => Ok(metadata.get("arch").is_some_and(|arch| arch.contains("first 1x1")).then_some(true)),
    }
}
