//! Networks built from weight files, and weight files written from networks.

mod conventions;
mod convert;
mod detectron;
mod family;
mod file;
mod metadata;

use std::{collections::BTreeMap, path::Path};

use candle_core::{DType, Device, Tensor};
use ebm_nn::{import::LoadPolicy, params::ParamStore};
use ebm_seed::Key;
use ebm_train::ModelMetadata;

pub use conventions::Conventions;
pub use convert::{Conversion, ConvertOptions, convert};
pub use family::Family;
pub use metadata::{
    BRANCH, DETECTION, branch_metadata, check_branch, check_detector, classes, detector_metadata,
};

use crate::{
    config::{DetectorConfig, ExperimentConfig, Settings},
    energy_head::EnergyHead,
    error::{Error, Result},
    faster_rcnn::FasterRcnn,
};
use file::WeightFile;

/// The detector with the parameters in `path`, all frozen: a file that [`convert`] wrote, or one with the names of any
/// [`Family`] of detectors.
///
/// # Errors
/// [`Error::Weights`](crate::Error::Weights) when the file's names or shapes are not the architecture's (nothing is
/// drawn in their place), or when it is of another convention than `config`.
pub fn load_detector(config: &DetectorConfig, path: &Path, device: &Device) -> Result<FasterRcnn> {
    let file = WeightFile::open(path, device)?;
    file.check(path, config)?;
    let store = ParamStore::new(Key::new(0));
    store.freeze(|_| true);
    let detector = FasterRcnn::new(config, store.var_builder(DType::F32, device))?;
    fill(&store, &file, path, config)?;
    Ok(detector)
}

/// All tensors of a weight file in single precision, by our names where it has a [`Family`]'s.
///
/// # Errors
/// When the file cannot be read.
pub fn read(path: &Path, device: &Device) -> Result<BTreeMap<String, Tensor>> {
    Ok(WeightFile::open(path, device)?.tensors)
}

/// The configuration of the detector at `path`: the one that the file holds, or else that of its [`Family`]'s published detectors.
///
/// # Errors
/// [`Error::Weights`] for a file that tells neither, as one that was trained here before files held their configuration; else when
/// the file cannot be read.
pub fn configuration(path: &Path) -> Result<ExperimentConfig> {
    let file = WeightFile::open(path, &Device::Cpu)?;
    if let Some(metadata) = &file.metadata {
        metadata.check_task(path, &[DETECTION])?;
        return Ok(ExperimentConfig::parse(&path.display().to_string(), &metadata.config)?);
    }
    let unknown = || Error::Weights {
        path: path.to_owned(),
        reason: "it does not say with which configuration it was trained; give it with --config".to_owned(),
    };
    Ok(ExperimentConfig::embedded(file.published().ok_or_else(unknown)?)?)
}

/// A new, trainable confidence branch: fc6 and fc7 start from the detector's box head, as in the paper.
pub fn new_head(
    config: &DetectorConfig,
    detector: &BTreeMap<String, Tensor>,
    device: &Device,
    key: Key,
) -> Result<(EnergyHead, ParamStore)> {
    let store = ParamStore::new(key);
    let trunk = detector.iter().filter_map(|(name, tensor)| {
        let layer = name.strip_prefix("roi_heads.box_head.")?;
        Some((format!("roi_heads.energy_head.{layer}"), tensor.clone()))
    });
    store.preload(trunk.collect());
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

/// Fills `store` from the file at `path`; every name and shape must agree.
pub(crate) fn load_exactly(
    store: &ParamStore,
    path: &Path,
    config: &DetectorConfig,
    device: &Device,
) -> Result<()> {
    fill(store, &WeightFile::open(path, device)?, path, config)
}

/// Fills `store`, a network of `config`, from `file`; every name and shape must agree.
fn fill(store: &ParamStore, file: &WeightFile, path: &Path, config: &DetectorConfig) -> Result<()> {
    file.check_exact(path, &store.load(&file.tensors, LoadPolicy::LENIENT)?, Some(config))
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
