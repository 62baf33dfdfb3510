//! Metadata of the files that are trained here, and checks that it fits their use.

use std::path::Path;

use ebm_core::parametric::Baseline;
use ebm_data::coco::{Category, CocoDataset};
use ebm_ops::boxes::BoxConvention;
use ebm_train::{BaseNetwork, Class, ModelMetadata};
use serde::Serialize;

use crate::config::{
    ChannelOrder, ConfidenceConfig, DetectorConfig, ExperimentConfig, MethodConfig, Settings, TrainingConfig,
};
use crate::{Error, Result};

/// Task of a file with a whole detector.
pub const DETECTION: &str = "detection";
/// Method of a file with FastestDet.
pub const FASTEST_DET: &str = "fastest_det";
/// Task of a file with a branch.
pub const BRANCH: &str = "a branch of a detector";
/// Task of a file with a refiner of other detectors' boxes.
pub const REFINER: &str = "a refiner of boxes";

/// Returns the classes of networks that are trained on `dataset`.
pub fn classes(dataset: &CocoDataset) -> Vec<Class> {
    let class = |c: &Category| Class { label: c.label, id: c.id, name: c.name.clone() };
    dataset.categories.iter().map(class).collect()
}

/// Returns the metadata of a detector's file, as [`model_metadata`].
///
/// # Errors
/// When the configuration cannot be written as TOML.
pub fn detector_metadata(
    config: &ExperimentConfig,
    seed: Option<u64>,
    classes: &[Class],
) -> Result<ModelMetadata> {
    let input = conventions(&config.detector)?;
    Ok(ModelMetadata { input, ..model_metadata(DETECTION, ExperimentConfig::DIRECT, seed, config, classes)? })
}

/// Returns the metadata of the file of a branch that is trained by `method`, a row of `config`, on the detector with
/// this [`digest`](ebm_train::model_file::digest).
///
/// # Errors
/// When the configuration cannot be written as TOML.
pub fn branch_metadata(
    method: &MethodConfig,
    seed: u64,
    config: &ExperimentConfig,
    detector_digest: &str,
    classes: &[Class],
) -> Result<ModelMetadata> {
    Ok(ModelMetadata {
        task: BRANCH.to_owned(),
        method: method.key.clone(),
        base: Some(BaseNetwork { digest: detector_digest.to_owned(), file: None }),
        ..detector_metadata(config, Some(seed), classes)?
    })
}

/// Returns the metadata of a file for `task`, with a network that was trained by `method` on images of `classes`.
/// `seed` is the seed of its training; `None` for weights from elsewhere.
///
/// # Errors
/// When the configuration cannot be written as TOML.
pub fn model_metadata(
    task: &str,
    method: &str,
    seed: Option<u64>,
    config: &impl Settings,
    classes: &[Class],
) -> Result<ModelMetadata> {
    let (task, method, classes) = (task.to_owned(), method.to_owned(), classes.to_vec());
    Ok(ModelMetadata { task, method, seed, config: config.to_toml()?, classes, ..ModelMetadata::default() })
}

/// Checks that the branch at `path` with the metadata `found` fits a detector of `config` with this digest. The
/// parameters, and all settings that features and boxes depend on, must agree; the settings of choosing proposals and
/// suppressing detections may differ.
///
/// # Errors
/// [`Error::Train`] with both values of every difference.
pub fn check_detector(
    found: &ModelMetadata,
    path: &Path,
    config: &ExperimentConfig,
    detector_digest: &str,
) -> Result<()> {
    let base = Some(BaseNetwork { digest: detector_digest.to_owned(), file: None });
    let here = ModelMetadata { config: config.to_toml()?, base, ..found.clone() };
    let matters = |setting: &str| setting == DIGEST || is_of_detector(setting) && !is_free(setting);
    Ok(found.check_same(path, &here, matters)?)
}

/// Checks that the branch at `path` with the metadata `found` equals one that would be trained with `wanted`.
///
/// # Errors
/// [`Error::Train`] with both values of every difference that the branch's parameters depend on.
pub fn check_branch(found: &ModelMetadata, path: &Path, wanted: &ModelMetadata) -> Result<()> {
    let [found, wanted] = [found, wanted].map(|metadata| decisive_metadata(metadata, path));
    let matters = |setting: &str| !setting.starts_with("detector.") || is_of_detector(setting);
    Ok(found?.check_same(path, &wanted?, matters)?)
}

/// Settings that a branch's parameters depend on.
#[derive(Serialize)]
struct Decisive {
    detector: DetectorConfig,
    /// Family of a density.
    density: Option<Baseline>,
    /// Settings of a confidence.
    confidence: Option<ConfidenceConfig>,
    training: Option<TrainingConfig>,
}

/// Returns the configuration in the metadata of the file at `path`.
///
/// # Errors
/// [`Error::Weights`] with the file and the reason if the configuration is invalid.
pub fn stated_configuration(metadata: &ModelMetadata, path: &Path) -> Result<ExperimentConfig> {
    ExperimentConfig::parse("its configuration", &metadata.config)
        .map_err(|error| Error::weights(path, error))
}

/// Returns the metadata with only the [`Decisive`] settings in its configuration.
fn decisive_metadata(metadata: &ModelMetadata, path: &Path) -> Result<ModelMetadata> {
    let config = stated_configuration(metadata, path)?;
    let unknown = |error: Error| Error::weights(path, error);
    let method = config.method(&metadata.method).map_err(unknown)?;
    let (density, confidence) = (method.density.clone(), method.confidence.clone());
    let training = config.training(method);
    let decisive = Decisive { detector: config.detector.clone(), density, confidence, training };
    Ok(ModelMetadata { config: to_toml(&decisive)?, ..metadata.clone() })
}

/// Returns, as TOML, the settings that weights depend on but that their names and shapes do not show. With other values
/// the weights load, and detect badly.
///
/// # Errors
/// When they cannot be written as TOML.
pub(super) fn conventions(config: &DetectorConfig) -> Result<String> {
    #[derive(Serialize)]
    struct Conventions {
        boxes: BoxConvention,
        channels: ChannelOrder,
        scale: f32,
        mean: [f32; 3],
        std: [f32; 3],
        stride_in_1x1: bool,
        norm_eps: f64,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        map_scales: Vec<f64>,
    }
    let DetectorConfig { input, backbone, .. } = config;
    to_toml(&Conventions {
        boxes: config.convention,
        channels: input.channels,
        scale: input.scale,
        mean: input.mean,
        std: input.std,
        stride_in_1x1: backbone.stride_in_1x1,
        norm_eps: backbone.norm_eps,
        map_scales: backbone.map_scales.clone(),
    })
}

fn to_toml(value: &impl Serialize) -> Result<String> {
    toml::to_string(value).map_err(|error| Error::config("metadata", error))
}

const DIGEST: &str = "base_digest";

/// Returns `true` for a setting of the detector that its branches depend on. The type of the maps depends on the device;
/// clipping and the guide of suppression only affect prediction.
fn is_of_detector(setting: &str) -> bool {
    const OTHERS: [&str; 3] =
        ["detector.backbone.maps", "detector.clip_refined", "detector.guided_suppression"];
    setting.starts_with("detector.") && !OTHERS.contains(&setting)
}

/// Returns `true` for a setting of the detector that a branch's predictions do not depend on.
fn is_free(setting: &str) -> bool {
    const FREE: [&str; 9] = [
        "detector.rpn.",
        "detector.roi.foreground",
        "detector.roi.max_detections",
        "detector.roi.min_size",
        "detector.roi.nms",
        "detector.roi.positive_fraction",
        "detector.roi.sample_size",
        "detector.roi.score_threshold",
        "detector.roi.smooth_l1_beta",
    ];
    FREE.iter().any(|free| setting.starts_with(free))
}
