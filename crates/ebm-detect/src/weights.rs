//! Networks built from weight files, and weight files written from networks.

use std::{collections::BTreeMap, path::Path};

use candle_core::{DType, Device, Tensor};
use ebm_nn::{
    import::{self, LoadPolicy},
    params::ParamStore,
};
use ebm_seed::Key;

use crate::{
    config::DetectorConfig,
    energy_head::EnergyHead,
    error::{Error, Result},
    faster_rcnn::FasterRcnn,
};

const BRANCH: [&str; 2] = ["roi_heads.energy_head.", "roi_heads.energy_predictor."];

/// The detector with the parameters in `path` (safetensors, or a `.pth` with torchvision's names), all frozen.
///
/// # Errors
/// [`Error::Weights`] when the file's names or shapes are not the architecture's: nothing is drawn in their place.
pub fn load_detector(config: &DetectorConfig, path: &Path, device: &Device) -> Result<FasterRcnn> {
    let store = ParamStore::new(Key::new(0));
    store.freeze(|_| true);
    let detector = FasterRcnn::new(config, store.var_builder(DType::F32, device))?;
    load_exactly(&store, path, device)?;
    Ok(detector)
}

/// All tensors of a weight file by name, in single precision.
pub fn read(path: &Path, device: &Device) -> Result<BTreeMap<String, Tensor>> {
    let mut tensors = import::load(path, device)?;
    for tensor in tensors.values_mut().filter(|t| matches!(t.dtype(), DType::F16 | DType::BF16 | DType::F64))
    {
        *tensor = tensor.to_dtype(DType::F32)?;
    }
    // torch counts batches in its batch norm; nothing here depends on it.
    tensors.retain(|name, _| !name.ends_with("num_batches_tracked"));
    Ok(tensors)
}

/// The confidence branch saved at `path`, frozen.
pub fn load_head(config: &DetectorConfig, path: &Path, device: &Device) -> Result<EnergyHead> {
    let store = ParamStore::new(Key::new(0));
    store.freeze(|_| true);
    let head = EnergyHead::new(config, store.var_builder(DType::F32, device).pp("roi_heads"))?;
    load_exactly(&store, path, device)?;
    Ok(head)
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
        Some((format!("{}{layer}", BRANCH[0]), tensor.clone()))
    });
    store.preload(trunk.collect());
    let head = EnergyHead::new(config, store.var_builder(DType::F32, device).pp("roi_heads"))?;
    Ok((head, store))
}

/// Writes all parameters of `store` to a safetensors file, in half precision where `half` says so; the file appears
/// whole or not at all.
pub fn save(store: &ParamStore, path: &Path, half: bool) -> Result<()> {
    let mut tensors = store.tensors()?;
    if half {
        for tensor in tensors.values_mut().filter(|t| t.dtype() == DType::F32) {
            *tensor = tensor.to_dtype(DType::F16)?;
        }
    }
    Ok(import::save_safetensors(path, &tensors)?)
}

/// Fills `store` from the file at `path`; every name and shape must agree.
pub(crate) fn load_exactly(store: &ParamStore, path: &Path, device: &Device) -> Result<()> {
    let report = store.load(&read(path, device)?, LoadPolicy::LENIENT)?;
    if report.is_exact() {
        return Ok(());
    }
    Err(Error::Weights {
        path: path.to_owned(),
        reason: format!("the weights are of another architecture than the configuration's: {report}"),
    })
}

/// Sets aside the ResNet at `path` as the detector's body, frozen; call it before the detector is built.
///
/// Takes torchvision's names, with or without the classifier `fc`, and the fixed-point files of [`import`].
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
