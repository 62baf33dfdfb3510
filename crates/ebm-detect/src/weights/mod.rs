//! Networks built from weight files, and weight files written from networks.

mod conventions;
mod convert;
mod detectron;
mod family;
mod file;
mod fit;
mod metadata;

use std::{collections::BTreeMap, path::Path};

use candle_core::{DType, Device, Tensor};
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_train::ModelMetadata;

pub use conventions::Conventions;
pub use convert::{Conversion, ConvertOptions, convert};
pub use family::Family;
pub use file::WeightFile;
pub use metadata::{
    BRANCH, DETECTION, branch_metadata, check_branch, check_detector, classes, detector_metadata,
};

use crate::{
    config::{DetectorConfig, ExperimentConfig},
    energy_head::EnergyHead,
    error::Result,
    faster_rcnn::FasterRcnn,
};

/// The detector with the parameters in `path`, all frozen: a file that [`convert`] wrote, or one with the names of any
/// [`Family`] of detectors.
///
/// # Errors
/// [`Error::Weights`](crate::Error::Weights) when the file's names or shapes are not the architecture's (nothing is
/// drawn in their place), or when it is of another convention than `config`.
pub fn load_detector(config: &DetectorConfig, path: &Path, device: &Device) -> Result<FasterRcnn> {
    WeightFile::open(path, device)?.detector(config)
}

/// All tensors of a weight file in single precision, by our names where it has a [`Family`]'s.
///
/// # Errors
/// When the file cannot be read.
pub fn read(path: &Path, device: &Device) -> Result<BTreeMap<String, Tensor>> {
    Ok(WeightFile::open(path, device)?.into_tensors())
}

/// [`WeightFile::configuration`] of the file at `path`.
///
/// # Errors
/// As there; else when the file cannot be read.
pub fn configuration(path: &Path) -> Result<ExperimentConfig> {
    WeightFile::open(path, &Device::Cpu)?.configuration()
}

/// A new, trainable confidence branch: fc6 and fc7 start from the detector's box head, as in the paper.
pub fn new_head(
    config: &DetectorConfig,
    detector: &BTreeMap<String, Tensor>,
    device: &Device,
    key: Key,
) -> Result<(EnergyHead, ParamStore)> {
    let store = ParamStore::new(key);
    let mlp = detector.iter().filter_map(|(name, tensor)| {
        let layer = name.strip_prefix("roi_heads.box_head.")?;
        Some((format!("roi_heads.energy_head.{layer}"), tensor.clone()))
    });
    store.preload(mlp.collect());
    let head = EnergyHead::new(config, store.var_builder(DType::F32, device).pp("roi_heads"))?;
    Ok((head, store))
}

/// Writes all parameters of `store` to a safetensors file with what it says of itself, in half precision where `half` says so; the file
/// appears whole or not at all.
///
/// # Errors
/// When the file cannot be written.
pub fn save(store: &ParamStore, path: &Path, half: bool, metadata: &ModelMetadata) -> Result<()> {
    let mut tensors = store.tensors()?;
    if half {
        for tensor in tensors.values_mut().filter(|t| t.dtype() == DType::F32) {
            *tensor = tensor.to_dtype(DType::F16)?;
        }
    }
    Ok(metadata.save(path, &tensors)?)
}

/// Sets aside the ResNet at `path` as the detector's body, frozen; call it before the detector is built.
///
/// Takes torchvision's names, with or without the classifier `fc`, and the fixed-point files of [`ebm_nn::import`].
///
/// # Errors
/// When the file is not readable.
pub fn preload_backbone(store: &ParamStore, path: &Path, device: &Device) -> Result<()> {
    let tensors = read(path, device)?;
    let body = tensors.into_iter().filter(|(name, _)| !name.starts_with("fc."));
    store.preload(body.map(|(name, tensor)| (format!("backbone.body.{name}"), tensor)).collect());
    store.freeze(|name| name.starts_with("backbone.body."));
    Ok(())
}
