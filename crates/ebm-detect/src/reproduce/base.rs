//! The detector whose features all branches share: read from its file, or trained here first.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use candle_core::{DType, Tensor};
use ebm_data::{
    coco::CocoDataset,
    loader::{Loader, LoaderConfig},
};
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_train::{BaseNetwork, ModelMetadata, Progress, RunSpec, keep_base, model_file, train_run};

use super::setup::StudyOptions;
use crate::{
    Result, body,
    config::{ExperimentConfig, Settings},
    faster_rcnn::FasterRcnn,
    training::{BatchSource, DetectorTask, MapOrder, MirroredMaps, StreamSource},
    weights::{Body, WeightFile, classes, detector_metadata},
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
    /// Weights of its body, which stay as they are; without them all of it is trained.
    pub body: Option<PathBuf>,
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
            let mut metadata = detector_metadata(config, Some(seed), &classes(&dataset))?;
            let mut tensors = self.train(config, dataset, seed, study, progress)?.tensors()?;
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
        dataset: CocoDataset,
        seed: u64,
        study: &StudyOptions,
        progress: &mut dyn Progress,
    ) -> Result<ParamStore> {
        let key = Key::new(seed).split("detector");
        let (store, dataset) = (ParamStore::new(key.split("init")), Arc::new(dataset));
        let (transform, convention) = (config.detector.input.transform(), config.detector.convention.into());
        let (batch_size, data) = (config.base.batch_size, key.split("data"));
        let (detector, source): (_, Box<dyn BatchSource>) = match &self.body {
            None => {
                config.detector.backbone.check_trained()?;
                let detector =
                    FasterRcnn::new(&config.detector, store.var_builder(DType::F32, &study.device))?;
                let loader = LoaderConfig::train(transform, batch_size).with_workers(study.workers);
                let loader = Loader::new(dataset, LoaderConfig { drop_last: true, ..loader }, data)?;
                (detector, Box::new(StreamSource::new(loader, study.device.clone(), convention)))
            }
            Some(path) => {
                let body = Body { path, partial: false };
                let (detector, _) = body.detector(&config.detector, &store, &study.device)?;
                let loader = LoaderConfig::eval(transform, 1).with_workers(study.workers);
                let maps = |pixels: &Tensor| detector.body(pixels, false);
                let order = MapOrder { batch_size, part: 0..batch_size, key: data };
                let device = &study.device;
                let source =
                    MirroredMaps::compute(&dataset, &loader, convention, &maps, order, device, progress)?;
                (detector, Box::new(source))
            }
        };
        let mut task = DetectorTask::new(detector, store.clone(), source, &config.base, key.split("train"));
        let (text, steps) = (config.to_toml()?, config.base.steps);
        let spec = RunSpec::new(&study.run, "detector", &text, steps, seed);
        train_run(&RunSpec { resume: study.resume, ..spec }, &mut task, progress)?;
        Ok(store)
    }
}
