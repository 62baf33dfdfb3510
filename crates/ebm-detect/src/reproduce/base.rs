//! The detector whose features all branches share: read from its file, or trained here first.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use candle_core::Tensor;
use ebm_base::Key;
use ebm_data::coco::CocoDataset;
use ebm_experiment::Session;
use ebm_train::{
    BaseNetwork, GradientTask, Group, ModelMetadata, Progress, RunSpec, keep_base, model_file, train_run,
};

use super::setup::StudyOptions;
use crate::{
    Result, body,
    config::{ExperimentConfig, Settings},
    training::{DetectorTraining, TrainingOptions},
    weights::{WeightFile, classes, detector_metadata},
};

/// Root of all seeds of scenes and detectors: the same for every run, so that results compare.
pub(super) const SEED: u64 = 2020;

/// Where the detector comes from.
#[derive(Clone, Debug)]
pub struct BaseOptions {
    /// Train it instead of reading `weights`.
    pub from_scratch: bool,
    /// Then write it to `weights`.
    pub keep: bool,
    /// The detector's weights.
    pub weights: PathBuf,
    /// Weights of its body, which stay as they are; without them all of it is trained.
    pub body: Option<PathBuf>,
}

impl BaseOptions {
    /// The detector's file. Also what was just trained on `dataset` is read: everybody measures the stored,
    /// half-precision weights.
    pub(super) fn open(
        &self,
        config: &ExperimentConfig,
        dataset: &CocoDataset,
        study: &StudyOptions,
        progress: &mut dyn Progress,
    ) -> Result<WeightFile> {
        let path = match (self.from_scratch, self.keep) {
            (true, false) => study.run.join("detector.safetensors"),
            _ => self.weights.clone(),
        };
        if self.from_scratch {
            let mut metadata = detector_metadata(config, Some(SEED), &classes(dataset))?;
            let mut tensors = self.train(config, dataset, study, progress)?;
            // The body of a model of ours is not written a second time.
            if let Some(file) =
                self.body.as_ref().filter(|file| ModelMetadata::read(file).is_ok_and(|it| it.is_some()))
            {
                let digest = model_file::digest(&body::tensors_of(&tensors))?;
                let folder = path.parent().unwrap_or(Path::new(""));
                metadata.base = Some(BaseNetwork { digest, file: Some(keep_base(file, folder, "body")?) });
                tensors.retain(|name, _| !body::is_of_body(name));
            }
            ebm_nn::import::halve(&mut tensors)?;
            metadata.save(&path, &tensors)?;
        }
        WeightFile::open(&path, &study.device)
    }

    fn train(
        &self,
        config: &ExperimentConfig,
        dataset: &CocoDataset,
        study: &StudyOptions,
        progress: &mut dyn Progress,
    ) -> Result<BTreeMap<String, Tensor>> {
        let options = TrainingOptions { cache: self.body.is_some(), ..study.training() };
        let (config, body) = (config.clone(), self.body.clone());
        let training = DetectorTraining { config, own_classes: false, body, partial_body: false, options };
        let (config, key) = (&training.config, Key::new(SEED).split("detector"));
        let mut session = Session { group: &Group::alone(), device: &study.device, progress };
        let mut task = training.task(config, Arc::new(dataset.clone()), key, true, &mut session)?;
        let (text, steps) = (config.to_toml()?, config.base.steps);
        let spec = RunSpec::new(&study.run, "detector", &text, steps, SEED);
        train_run(&RunSpec { resume: study.resume, ..spec }, &mut task, session.progress)?;
        Ok(task.store().tensors()?)
    }
}
