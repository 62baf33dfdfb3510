//! Real images: people, nuclei, or a user's own folder of the same form.

use std::path::{Path, PathBuf};

use ebm_data::coco::{CocoDataset, Purpose};
use ebm_train::Progress;

use super::{
    base::BaseOptions,
    frozen::Splits,
    setup::{Setup, Split, StudyOptions, load_dataset},
};
use crate::{
    config::{DetectorConfig, ExperimentConfig},
    error::{Error, Result},
};

/// What to run and where.
#[derive(Clone, Debug)]
pub struct RealOptions {
    /// The detector.
    pub base: BaseOptions,
    /// The folder: `images/`, and annotations in COCO's form. What `train*.json` hold is trained on, step
    /// lengths are chosen on `val.json`, results are measured on `test.json`.
    pub data: PathBuf,
    /// What every scale is told.
    pub study: StudyOptions,
}

/// Root of all seeds of the detector: the same for every run, so that results compare.
const DETECTOR_SEED: u64 = 2020;

/// Reads the splits and makes the detector. Its features of all training images are kept in memory.
///
/// # Errors
/// When data can not be read, the detector's weights are not of the configured architecture, or its training
/// fails.
pub fn real(config: &ExperimentConfig, options: &RealOptions, progress: &mut dyn Progress) -> Result<Setup> {
    let study = &options.study;
    let images = options.data.join("images");
    let open = |name: &str| {
        let annotations = options.data.join(format!("{name}.json"));
        Split::open(name, annotations, &images, 1, &config.detector)
    };
    progress.begin("reading annotations", 3);
    let train = training_images(&options.data, &images, &config.detector)?;
    progress.advance(1, "train");
    let validation = open("val")?;
    progress.advance(2, "val");
    let test = open("test")?;
    progress.end();

    let weights = options.base.open(config, || Ok(train.clone()), DETECTOR_SEED, study, progress)?;
    // Photographs have many sizes; each is padded as it is in prediction.
    Setup::frozen(config, weights, Splits { train, validation, test }, 1, study)
}

/// The images of all `train*.json` in `folder`.
fn training_images(folder: &Path, images: &Path, detector: &DetectorConfig) -> Result<CocoDataset> {
    let refuse = |reason: String| Error::Config { name: folder.display().to_string(), reason };
    let entries = std::fs::read_dir(folder).map_err(|error| refuse(format!("cannot be listed: {error}")))?;
    let is_training = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("train") && name.ends_with(".json")
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_training).collect();
    files.sort();
    let load = |path: PathBuf| Ok((path.clone(), load_dataset(&path, images, Purpose::Train, detector)?));
    let mut datasets = files.into_iter().map(load).collect::<Result<Vec<_>>>()?.into_iter();
    let (_, first) = datasets.next().ok_or_else(|| refuse("it has no train*.json".to_owned()))?;
    Ok(first.joined(datasets)?)
}
