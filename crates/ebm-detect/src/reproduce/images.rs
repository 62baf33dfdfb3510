//! The images of a study: generated scenes, a folder of real images, or COCO.

use std::{
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use ebm_base::Key;
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_eval::GroundTruth;
use ebm_synth::scenes::{self, GeneratedSet, SceneConfig};
use ebm_train::Progress;

use super::base::SEED;
use crate::{
    Error, Result,
    annotated::Annotated,
    config::{DetectorConfig, ExperimentConfig},
    feature_cache::FeatureCache,
};

/// Where the images of a study are.
#[derive(Clone, Debug)]
pub enum StudyImages {
    /// Scenes are generated in this folder, and found again next time.
    Scenes(PathBuf),
    /// Real images are in `images/` of this folder, with annotations in COCO's form: what `train*.json` hold is
    /// trained on, step lengths are chosen on `val.json`, results are measured on `test.json`.
    Folder(PathBuf),
    /// COCO 2017: `train2017/`, `val2017/` and `annotations/` in this folder. Both step lengths and results are of
    /// val2017.
    Coco(PathBuf),
}

/// The images of a study, read.
pub(super) struct Opened {
    /// The detector is trained on all of them.
    pub train: CocoDataset,
    /// The branches are trained on so many of them, the first.
    pub heads: usize,
    /// Frozen features are computed of so many images at a time and kept; none where they are computed for every
    /// batch.
    pub at_once: Option<usize>,
    pub validation: Rc<Annotated>,
    pub test: Rc<Annotated>,
}

/// Scenes that are run at a time.
const SCENES: usize = 10;

impl StudyImages {
    /// What is not there and cannot be generated.
    pub fn missing(&self) -> Vec<PathBuf> {
        let needed = match self {
            Self::Scenes(_) => vec![],
            Self::Folder(folder) => vec![folder.clone()],
            Self::Coco(folder) => ["train", "val"].map(|name| coco(folder, name)).concat(),
        };
        needed.into_iter().filter(|path| !path.exists()).collect()
    }

    /// Reads the annotations. A study `from_scratch` trains the detector too, for which it needs more scenes.
    ///
    /// # Errors
    /// When images cannot be made or read.
    pub(super) fn open(
        &self,
        config: &ExperimentConfig,
        from_scratch: bool,
        workers: usize,
        progress: &mut dyn Progress,
    ) -> Result<Opened> {
        let detector = &config.detector;
        let split = |name: &str, annotations: PathBuf, images: &Path, at_once| -> Result<Rc<Annotated>> {
            let dataset = Arc::new(load_dataset(&annotations, images, Purpose::Eval, detector)?);
            let (name, truth) = (name.to_owned(), GroundTruth::read(&annotations)?);
            Ok(Rc::new(Annotated { name, dataset, truth, at_once, workers }))
        };
        progress.begin("reading annotations", 3);
        let opened = match self {
            Self::Scenes(folder) => {
                let sizes = config.scenes()?;
                let generated = |name: &str, count: usize| -> Result<GeneratedSet> {
                    let key = Key::new(SEED).split("scenes").split(name);
                    Ok(scenes::generate(&folder.join(name), &SceneConfig::default(), count, key)?)
                };
                let scenes = |name: &str, count: usize| {
                    let set = generated(name, count)?;
                    split(name, set.annotations, &set.images, SCENES)
                };
                let count = if from_scratch { sizes.base } else { sizes.heads };
                let set = generated(&format!("train-{count}"), count)?;
                progress.advance(1, "train");
                Opened {
                    train: load_dataset(&set.annotations, &set.images, Purpose::Train, detector)?,
                    heads: sizes.heads,
                    at_once: Some(FeatureCache::AT_ONCE),
                    validation: scenes("validation", sizes.validation)?,
                    test: scenes("test", sizes.test)?,
                }
            }
            Self::Folder(folder) => {
                let images = folder.join("images");
                let train = training_images(folder, &images, detector)?;
                progress.advance(1, "train");
                let split = |name: &str| split(name, folder.join(format!("{name}.json")), &images, 1);
                // Photographs have many sizes; each is padded as it is in prediction.
                let (validation, test) = (split("val")?, split("test")?);
                Opened { train, heads: usize::MAX, at_once: Some(1), validation, test }
            }
            Self::Coco(folder) => {
                let [annotations, images] = coco(folder, "train");
                let train = load_dataset(&annotations, &images, Purpose::Train, detector)?;
                progress.advance(1, "train");
                let [annotations, images] = coco(folder, "val");
                let test = split("val2017", annotations, &images, 1)?;
                Opened { train, heads: usize::MAX, at_once: None, validation: test.clone(), test }
            }
        };
        progress.end();
        Ok(opened)
    }
}

/// Annotations and images of a split of COCO 2017, `train` or `val`.
fn coco(folder: &Path, name: &str) -> [PathBuf; 2] {
    [folder.join(format!("annotations/instances_{name}2017.json")), folder.join(format!("{name}2017"))]
}

/// The annotated images, with the detector's labels.
fn load_dataset(
    annotations: &Path,
    images: &Path,
    purpose: Purpose,
    detector: &DetectorConfig,
) -> Result<CocoDataset> {
    let options = LoadOptions { labels: Some(detector.labels()), ..LoadOptions::new(purpose) };
    Ok(CocoDataset::load(annotations, images, &options)?)
}

/// The images of all `train*.json` in `folder`.
fn training_images(folder: &Path, images: &Path, detector: &DetectorConfig) -> Result<CocoDataset> {
    let refuse = |reason: String| Error::input(folder.display(), reason);
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
