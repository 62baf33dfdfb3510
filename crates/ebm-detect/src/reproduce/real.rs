//! Real images in a folder with the splits train, valid and test: people, nuclei, or a user's own.

use std::{path::PathBuf, rc::Rc, sync::Arc};

use ebm_data::{
    coco::{LoadOptions, Purpose},
    detection_folder::{DetectionFolder, Split as Part},
};
use ebm_train::Progress;

use super::{
    base::BaseOptions,
    frozen::FrozenFeatures,
    setup::{Setup, Split, StudyOptions},
};
use crate::{config::ExperimentConfig, error::Result, weights::classes};

/// What to run and where.
#[derive(Clone, Debug)]
pub struct RealOptions {
    /// The detector.
    pub base: BaseOptions,
    /// The folder, of any form of [`DetectionFolder`]: it is trained on the split train, step lengths are
    /// chosen on valid, and results are measured on test.
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
    let (study, folder) = (&options.study, DetectionFolder::open(&options.data, None)?);
    let labels = Some(config.detector.labels());
    let load = |part, purpose| -> Result<_> {
        let options = LoadOptions { labels, ..LoadOptions::new(purpose) };
        Ok(folder.load(part, &options)?)
    };
    progress.begin("reading annotations", 3);
    let train = load(Part::Train, Purpose::Train)?;
    progress.advance(1, "train");
    let validation = Split::of_images("valid", &options.data, load(Part::Valid, Purpose::Eval)?);
    progress.advance(2, "valid");
    let test = Split::of_images("test", &options.data, load(Part::Test, Purpose::Eval)?);
    progress.end();

    let weights = options.base.open(config, || Ok(train.clone()), DETECTOR_SEED, study, progress)?;
    let detector = Rc::new(weights.detector(&config.detector)?);
    let classes = classes(&train);
    let features = FrozenFeatures {
        config: config.clone(),
        detector: detector.clone(),
        dataset: Arc::new(train),
        device: study.device.clone(),
        workers: study.workers,
        // Photographs have many sizes; each is padded as it is in prediction.
        batch: 1,
    };
    Ok(Setup {
        config: config.clone(),
        detector,
        digest: weights.digest()?,
        weights: weights.into_tensors(),
        classes,
        source: features.into_source(),
        validation: Rc::new(validation),
        test: Rc::new(test),
        study: study.clone(),
    })
}
