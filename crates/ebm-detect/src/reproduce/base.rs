//! The detector whose features all branches share: read from its file, or trained here first.

use std::{path::PathBuf, sync::Arc};

use candle_core::DType;
use ebm_data::{
    coco::CocoDataset,
    loader::{Loader, LoaderConfig},
};
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_train::{Progress, RunSpec, train_run};

use super::setup::StudyOptions;
use crate::{
    config::{ExperimentConfig, Settings},
    error::Result,
    faster_rcnn::FasterRcnn,
    training::{DetectorTask, StreamSource},
    weights::{WeightFile, classes, detector_metadata, save},
};

/// Where the detector comes from.
#[derive(Clone, Debug)]
pub struct BaseOptions {
    /// Train it instead of reading `weights`.
    pub from_scratch: bool,
    /// Then write it to `weights`.
    pub keep: bool,
    /// The detector's weights.
    pub weights: PathBuf,
}

impl BaseOptions {
    /// The detector's file. Also what was just trained is read: everybody measures the stored, half-precision
    /// weights.
    pub(super) fn open(
        &self,
        config: &ExperimentConfig,
        dataset: impl FnOnce() -> Result<CocoDataset>,
        seed: u64,
        study: &StudyOptions,
        progress: &mut dyn Progress,
    ) -> Result<WeightFile> {
        let path = match (self.from_scratch, self.keep) {
            (true, false) => study.run.join("detector.safetensors"),
            _ => self.weights.clone(),
        };
        if self.from_scratch {
            let dataset = dataset()?;
            let metadata = detector_metadata(config, Some(seed), &classes(&dataset))?;
            let store = Self::train(config, dataset, seed, study, progress)?;
            save(&store, &path, true, &metadata)?;
        }
        WeightFile::open(&path, &study.device)
    }

    fn train(
        config: &ExperimentConfig,
        dataset: CocoDataset,
        seed: u64,
        study: &StudyOptions,
        progress: &mut dyn Progress,
    ) -> Result<ParamStore> {
        let key = Key::new(seed).split("detector");
        let store = ParamStore::new(key.split("init"));
        let detector = FasterRcnn::new(&config.detector, store.var_builder(DType::F32, &study.device))?;
        let loader = LoaderConfig::train(config.detector.input.transform(), config.base.batch_size);
        let loader = LoaderConfig { drop_last: true, ..loader.with_workers(study.workers) };
        let loader = Loader::new(Arc::new(dataset), loader, key.split("data"))?;
        let source = StreamSource::new(loader, study.device.clone(), config.detector.convention.into());
        let mut task = DetectorTask::new(detector, store.clone(), source, &config.base, key.split("train"));
        let (text, steps) = (config.to_toml()?, config.base.steps);
        let spec = RunSpec::new((&study.run, "detector"), &text, steps, seed);
        train_run(&RunSpec { resume: study.resume, ..spec }, &mut task, progress)?;
        Ok(store)
    }
}
