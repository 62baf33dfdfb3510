//! Images and detector of a study. The images are generated scenes, a folder of real images, or COCO. The detector,
//! whose features all branches share, is read from its file or trained first.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use candle_core::Tensor;
use ebm_base::Key;
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_eval::GroundTruth;
use ebm_experiment::Session;
use ebm_synth::scenes::{self, SceneConfig};
use ebm_train::{
    BaseNetwork, GradientTask, Group, ModelMetadata, Progress, RunSpec, keep_base, model_file, train_run,
};

use super::setup::StudyOptions;
use crate::config::{ExperimentConfig, Settings};
use crate::evaluation::Annotated;
use crate::feature_cache::FeatureCache;
use crate::training::{DetectorTraining, ImageFiles, TrainingOptions};
use crate::weights::{WeightFile, classes, detector_metadata};
use crate::{Error, Result, body};

/// Source of the images of a study.
#[derive(Clone, Debug)]
pub enum StudyImages {
    /// Scenes generated in this folder, which later runs reuse.
    Scenes(PathBuf),
    /// Real images in `images/` of this folder, with annotations in COCO's form: `train*.json` for training,
    /// `val.json` for the choice of step lengths, `test.json` for results.
    Folder(PathBuf),
    /// COCO 2017: `train2017/`, `val2017/` and `annotations/` in this folder. Step lengths are chosen and results
    /// measured on val2017.
    Coco(PathBuf),
}

/// Images of a study with their annotations.
pub(super) struct LoadedImages {
    /// Training images of the detector.
    pub train: Arc<CocoDataset>,
    /// Number of these, from the first, that the branches are trained on.
    pub heads: usize,
    /// Number of images per batch when frozen features are computed for the cache; `None` for no cache.
    pub batch_size: Option<usize>,
    pub validation: Rc<Annotated>,
    pub test: Rc<Annotated>,
}

/// Number of scenes per batch of an evaluation.
const SCENES: usize = 10;

/// Annotation file of COCO, and the folder of its images.
type Files = (PathBuf, PathBuf);

impl StudyImages {
    /// Returns the paths that are missing and cannot be generated.
    pub fn missing(&self) -> Vec<PathBuf> {
        let needed = match self {
            Self::Scenes(_) => vec![],
            Self::Folder(folder) => vec![folder.clone()],
            Self::Coco(folder) => {
                ["train", "val"].into_iter().flat_map(|name| <[_; 2]>::from(coco(folder, name))).collect()
            }
        };
        needed.into_iter().filter(|path| !path.exists()).collect()
    }

    /// Reads the annotations. A study `from_scratch` also trains the detector, which needs more scenes.
    pub(super) fn open(
        &self,
        config: &ExperimentConfig,
        from_scratch: bool,
        workers: usize,
        progress: &mut dyn Progress,
    ) -> Result<LoadedImages> {
        let labels = Some(config.detector.labels());
        let train = |coco: Vec<Files>| -> Result<Arc<CocoDataset>> {
            Ok(Arc::new(ImageFiles { coco, ..ImageFiles::default() }.train(labels)?))
        };
        let split = |name: &str, (annotations, images): Files, batch_size| -> Result<Rc<Annotated>> {
            let options = LoadOptions { labels, ..LoadOptions::new(Purpose::Eval) };
            let dataset = Arc::new(CocoDataset::load(&annotations, &images, &options)?);
            let (name, truth) = (name.to_owned(), GroundTruth::read(&annotations)?);
            Ok(Rc::new(Annotated { name, dataset, truth, batch_size, workers }))
        };
        progress.begin("reading annotations", 3);
        let opened = match self {
            Self::Scenes(folder) => {
                let sizes = config.scenes()?;
                let scenes = |name: &str, count: usize| -> Result<Files> {
                    let key = Key::new(SEED).split("scenes").split(name);
                    let set = scenes::generate(&folder.join(name), &SceneConfig::default(), count, key)?;
                    Ok((set.annotations, set.images))
                };
                let count = if from_scratch { sizes.base } else { sizes.heads };
                LoadedImages {
                    train: train(vec![scenes(&format!("train-{count}"), count)?])?,
                    heads: sizes.heads,
                    batch_size: Some(FeatureCache::BATCH_SIZE),
                    validation: split("validation", scenes("validation", sizes.validation)?, SCENES)?,
                    test: split("test", scenes("test", sizes.test)?, SCENES)?,
                }
            }
            Self::Folder(folder) => {
                let split =
                    |name: &str| split(name, (folder.join(format!("{name}.json")), folder.join("images")), 1);
                LoadedImages {
                    train: train(training_files(folder)?)?,
                    heads: usize::MAX,
                    // Photographs differ in size; a batch of one image is padded as in prediction.
                    batch_size: Some(1),
                    validation: split("val")?,
                    test: split("test")?,
                }
            }
            Self::Coco(folder) => {
                let train = train(vec![coco(folder, "train")])?;
                let test = split("val2017", coco(folder, "val"), 1)?;
                LoadedImages { train, heads: usize::MAX, batch_size: None, validation: test.clone(), test }
            }
        };
        progress.end();
        Ok(opened)
    }
}

/// Returns annotations and images of a split of COCO 2017, `train` or `val`.
fn coco(folder: &Path, name: &str) -> Files {
    (folder.join(format!("annotations/instances_{name}2017.json")), folder.join(format!("{name}2017")))
}

/// Returns all `train*.json` in `folder`, with its folder of images.
fn training_files(folder: &Path) -> Result<Vec<Files>> {
    let refuse = |reason: String| Error::input(folder.display(), reason);
    let entries = std::fs::read_dir(folder).map_err(|error| refuse(format!("cannot be listed: {error}")))?;
    let is_training = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("train") && name.ends_with(".json")
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_training).collect();
    files.sort();
    if files.is_empty() {
        return Err(refuse("it has no train*.json; put the training annotations there".to_owned()));
    }
    Ok(files.into_iter().map(|file| (file, folder.join("images"))).collect())
}

/// Root seed of scenes and detectors, the same in every run so that results are comparable.
const SEED: u64 = 2020;

/// Source of the detector.
#[derive(Clone, Debug)]
pub struct BaseOptions {
    /// Whether to train the detector instead of reading `weights`.
    pub from_scratch: bool,
    /// Whether to write the trained detector to `weights`.
    pub keep: bool,
    /// Path of the detector's weights.
    pub weights: PathBuf,
    /// Path of weights of the body, which are frozen then; `None` to train the body too.
    pub body: Option<PathBuf>,
}

impl BaseOptions {
    /// Opens the detector's file, after training the detector on `dataset` if it is made from scratch. A detector that
    /// was just trained is read back, so that all results are of the stored half-precision weights.
    pub(super) fn open(
        &self,
        config: &ExperimentConfig,
        dataset: &Arc<CocoDataset>,
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
            // A body from a file with metadata is referred to, not written a second time.
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
        dataset: &Arc<CocoDataset>,
        study: &StudyOptions,
        progress: &mut dyn Progress,
    ) -> Result<BTreeMap<String, Tensor>> {
        let options = TrainingOptions { cache: self.body.is_some(), ..study.training() };
        let (config, body) = (config.clone(), self.body.clone());
        let training = DetectorTraining { config, own_classes: false, body, partial_body: false, options };
        let (config, key) = (&training.config, Key::new(SEED).split("detector"));
        let mut session = Session { group: &Group::alone(), device: &study.device, progress };
        let mut task = training.task(config, dataset.clone(), key, true, &mut session)?;
        let (text, steps) = (config.to_toml()?, config.base.steps);
        let spec = RunSpec::new(&study.run, "detector", &text, steps, SEED);
        train_run(&RunSpec { resume: study.resume, ..spec }, &mut task, session.progress)?;
        Ok(task.store().tensors()?)
    }
}
