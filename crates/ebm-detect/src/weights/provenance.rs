//! What files that were trained here say of themselves, and whether that fits what they are used for.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::Path,
};

use candle_core::{DType, Tensor};
use ebm_data::coco::CocoDataset;
use ebm_nn::import;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use toml::{Table, Value};

use super::{
    conventions::Conventions,
    file::{CONFIGURATION, CONVENTIONS},
};
use crate::{
    config::{ConfidenceConfig, DetectorConfig, ExperimentConfig, TrainingConfig},
    error::{Error, Result},
    method::Method,
};

/// Keys of a file's metadata.
const BRANCH: &str = "branch";
const CLASSES: &str = "classes";

/// Free-form metadata of a safetensors file.
pub type Metadata = BTreeMap<String, String>;

/// A class as the annotations call it that a network was trained on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// The network's label, from 1.
    pub label: usize,
    /// The category's id.
    pub id: u64,
    /// The category's name.
    pub name: String,
}

/// The classes that networks trained on `dataset` know.
pub fn classes(dataset: &CocoDataset) -> Vec<Class> {
    let class = |c: &ebm_data::coco::Category| Class { label: c.label, id: c.id, name: c.name.clone() };
    dataset.categories.iter().map(class).collect()
}

/// The classes that the file at `path` says it was trained on; none where it does not say.
///
/// # Errors
/// When the file can not be read, or says it in another form.
pub fn trained_classes(path: &Path) -> Result<Option<Vec<Class>>> {
    let metadata = metadata(path)?;
    let parse = |text: &String| {
        serde_json::from_str(text).map_err(|error| refusal(path, format!("its metadata {CLASSES}: {error}")))
    };
    metadata.get(CLASSES).map(parse).transpose()
}

/// Refuses annotations whose categories are called otherwise than the classes that the file at `path` was trained on.
///
/// # Errors
/// [`Error::Weights`] with both names, and those of [`trained_classes`].
pub fn check_classes(path: &Path, annotations: &Path, dataset: &CocoDataset) -> Result<()> {
    let Some(trained) = trained_classes(path)? else { return Ok(()) };
    for theirs in classes(dataset) {
        let Some(ours) = trained.iter().find(|class| class.label == theirs.label) else { continue };
        if ours.name != theirs.name {
            return Err(refusal(
                path,
                format!(
                    "it was trained to find {:?} (id {}) where {} has {:?} (id {}); take annotations with its categories",
                    ours.name,
                    ours.id,
                    annotations.display(),
                    theirs.name,
                    theirs.id
                ),
            ));
        }
    }
    Ok(())
}

/// What a detector's file says of itself: its conventions, its classes and, where it has an embedded one, the name of its configuration.
///
/// # Errors
/// When that can not be written as text.
pub fn detector_metadata(
    config: &DetectorConfig,
    configuration: Option<&str>,
    classes: &[Class],
) -> Result<Metadata> {
    let mut metadata = classes_metadata(classes)?;
    metadata.insert(CONVENTIONS.to_owned(), to_toml(&Conventions::of(config))?);
    metadata.extend(configuration.map(|name| (CONFIGURATION.to_owned(), name.to_owned())));
    Ok(metadata)
}

/// What a branch was trained as: all that its numbers depend on but the images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// The method.
    pub method: Method,
    /// The root seed.
    pub seed: u64,
    /// The [`digest`] of the detector's parameters.
    pub detector_digest: String,
    /// The detector's settings.
    pub detector: DetectorConfig,
    /// A confidence's settings.
    pub confidence: Option<ConfidenceConfig>,
    /// A density's training.
    pub training: Option<TrainingConfig>,
}

impl Provenance {
    /// Of a branch that is trained as `config` says.
    pub fn new(method: Method, seed: u64, config: &ExperimentConfig, detector_digest: &str) -> Self {
        let confidence = config.confidence(method).cloned();
        let training = confidence.is_none().then(|| config.training(method).cloned()).flatten();
        let (detector, detector_digest) = (config.detector.clone(), detector_digest.to_owned());
        Self { method, seed, detector_digest, detector, confidence, training }
    }

    /// What the branch at `path` says of itself; none where it says nothing.
    ///
    /// # Errors
    /// When the file can not be read, or says it in another form.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        let metadata = metadata(path)?;
        let parse = |text: &String| {
            toml::from_str(text).map_err(|error| refusal(path, format!("its metadata {BRANCH}: {error}")))
        };
        metadata.get(BRANCH).map(parse).transpose()
    }

    /// For the branch's file.
    ///
    /// # Errors
    /// When that can not be written as text.
    pub fn metadata(&self, classes: &[Class]) -> Result<Metadata> {
        let mut metadata = classes_metadata(classes)?;
        metadata.insert(BRANCH.to_owned(), to_toml(self)?);
        Ok(metadata)
    }

    /// Refuses the branch at `path`, which says this of itself, for the same method with another detector: other parameters or another
    /// way from images to features and boxes. How proposals are chosen and detections are suppressed may differ.
    ///
    /// # Errors
    /// [`Error::Weights`] with both values of each setting that differs.
    pub fn check_detector(&self, path: &Path, config: &DetectorConfig, digest: &str) -> Result<()> {
        let mine = Self { detector: config.clone(), detector_digest: digest.to_owned(), ..self.clone() };
        self.refuse_other(path, &mine, |setting| !FREE.iter().any(|free| setting.starts_with(free)))
    }

    /// Refuses the branch at `path`, which says this of itself, in the place of one that would be trained as `wanted`.
    ///
    /// # Errors
    /// [`Error::Weights`] with both values of each setting that differs.
    pub fn check_same(&self, path: &Path, wanted: &Self) -> Result<()> {
        self.refuse_other(path, wanted, |_| true)
    }

    fn refuse_other(&self, path: &Path, wanted: &Self, matters: impl Fn(&str) -> bool) -> Result<()> {
        let [ours, theirs] = [settings(self)?, settings(wanted)?];
        let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
        let word = |value: Option<&String>| value.map_or("none", |value| value.as_str()).to_owned();
        let differences: Vec<String> = (names.into_iter())
            .filter(|name| ours.get(*name) != theirs.get(*name) && matters(name) && *name != PRECISION)
            .map(|name| format!("{name} = {} (here: {})", word(ours.get(name)), word(theirs.get(name))))
            .collect();
        if differences.is_empty() {
            return Ok(());
        }
        let remedy = "give the settings that it was trained with, or train another";
        Err(refusal(path, format!("the branch was trained with {}; {remedy}", differences.join(", "))))
    }
}

/// The type of the maps belongs to the device that computes, not to the branch.
const PRECISION: &str = "detector.backbone.maps";

/// What of a detector's settings a branch does not depend on when it predicts.
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

/// SHA-256 of the parameters of a network in single precision, by name: the same whatever file they came in.
///
/// # Errors
/// When a parameter can not be read.
pub fn digest(parameters: &BTreeMap<String, Tensor>) -> Result<String> {
    let mut sum = Sha256::new();
    for (name, tensor) in parameters {
        sum.update(format!("{name} {:?}\n", tensor.dims()));
        for value in tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()? {
            sum.update(value.to_le_bytes());
        }
    }
    Ok(sum.finalize().iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    }))
}

/// Each setting by its dotted name.
fn settings(provenance: &Provenance) -> Result<BTreeMap<String, String>> {
    fn walk(prefix: &str, table: &Table, found: &mut BTreeMap<String, String>) {
        for (key, value) in table {
            let name = format!("{prefix}{key}");
            match value {
                Value::Table(table) => walk(&format!("{name}."), table, found),
                value => {
                    found.insert(name, value.to_string());
                }
            }
        }
    }
    let mut found = BTreeMap::new();
    let table = Table::try_from(provenance).map_err(|error| unwritable(&error))?;
    walk("", &table, &mut found);
    Ok(found)
}

fn classes_metadata(classes: &[Class]) -> Result<Metadata> {
    if classes.is_empty() {
        return Ok(Metadata::new());
    }
    let text = serde_json::to_string(classes).map_err(|error| unwritable(&error))?;
    Ok(Metadata::from([(CLASSES.to_owned(), text)]))
}

fn to_toml(value: &impl Serialize) -> Result<String> {
    toml::to_string(value).map_err(|error| unwritable(&error))
}

/// The metadata of a safetensors file; files of other forms have none.
fn metadata(path: &Path) -> Result<Metadata> {
    if path.extension().is_some_and(|extension| extension == "safetensors") {
        return Ok(import::metadata(path)?);
    }
    Ok(Metadata::new())
}

fn refusal(path: &Path, reason: String) -> Error {
    Error::Weights { path: path.to_owned(), reason }
}

fn unwritable(error: &dyn std::fmt::Display) -> Error {
    Error::Config { name: "metadata".into(), reason: error.to_string() }
}
