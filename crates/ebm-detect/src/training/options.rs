//! Options of every training on annotated images, and the images themselves.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use candle_core::Tensor;
use ebm_base::Key;
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::detection_folder::{DetectionFolder, Split};
use ebm_data::loader::{Loader, LoaderConfig};
use ebm_data::quarantine::Tolerance;
use ebm_experiment::Session;
use ebm_nn::params::ParamStore;
use ebm_ops::boxes::BoxConvention;
use ebm_train::ModelMetadata;

use super::{BatchSource, MirroredMaps, StreamSource};
use crate::config::{DetectorConfig, InputConfig};
use crate::evaluation::Annotated;
use crate::feature_cache::{BatchOrder, FeatureCache};
use crate::{Error, Result};

/// Annotated images in files.
#[derive(Clone, Debug, Default)]
pub struct ImageFiles {
    /// Folder in the form of COCO, Pascal VOC or YOLO, which is recognised; its split train is used.
    pub folder: Option<PathBuf>,
    /// Annotation files of COCO, each with the folder of its images; they are used if there is no `folder`.
    pub coco: Vec<(PathBuf, PathBuf)>,
    /// Largest number of images; the first by id are used.
    pub limit: Option<usize>,
    /// Tolerated share of defective samples, and the report that lists them.
    pub tolerance: Tolerance,
}

impl ImageFiles {
    /// Creates a set of the images of the COCO file `annotations`, which are in the folder `images`.
    pub fn coco(annotations: impl Into<PathBuf>, images: impl Into<PathBuf>) -> Self {
        Self { coco: vec![(annotations.into(), images.into())], ..Self::default() }
    }

    /// Returns the name of the annotations in messages.
    pub(crate) fn name(&self) -> String {
        let files = self.coco.iter().map(|(annotations, _)| annotations);
        let names = self.folder.iter().chain(files).map(|path| path.display().to_string());
        names.collect::<Vec<_>>().join(", ")
    }

    /// Reads the images to train on, for a model with this number of `labels`; without one, the order of the
    /// categories gives the labels.
    pub(crate) fn train(&self, labels: Option<usize>) -> Result<CocoDataset> {
        let tolerance = self.tolerance.clone();
        let options = LoadOptions { labels, tolerance, ..LoadOptions::new(Purpose::Train) };
        let mut dataset = match &self.folder {
            Some(folder) => DetectionFolder::open(folder)?.load(Split::Train, &options)?,
            None => {
                let load = |(file, images): &(PathBuf, PathBuf)| CocoDataset::load(file, images, &options);
                let mut datasets = self.coco.iter().map(load);
                let none =
                    || Error::config("images", "give a folder or an annotation file; there is neither");
                let first = datasets.next().ok_or_else(none)??;
                let others = datasets.collect::<ebm_data::Result<Vec<_>>>()?;
                let names = self.coco[1..].iter().map(|(annotations, _)| annotations.clone());
                first.joined(names.zip(others))?
            }
        };
        dataset.images.truncate(self.limit.unwrap_or(usize::MAX));
        Ok(dataset)
    }

    /// Reads the split valid of the folder; returns `None` if there is no such split or no folder.
    fn valid(&self, labels: usize) -> Result<Option<CocoDataset>> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let folder = DetectionFolder::open(folder)?;
        if !folder.splits().contains(&Split::Valid) {
            return Ok(None);
        }
        let tolerance = Tolerance { report: None, ..self.tolerance.clone() };
        let options = LoadOptions { labels: Some(labels), tolerance, ..LoadOptions::new(Purpose::Eval) };
        Ok(Some(folder.load(Split::Valid, &options)?))
    }

    /// Returns the tolerance for reading the images, whose defects are listed in a separate file.
    fn tolerance_of_images(&self) -> Tolerance {
        let beside = |path: &PathBuf| {
            let mut name = path.as_os_str().to_owned();
            name.push(".images");
            PathBuf::from(name)
        };
        Tolerance { report: self.tolerance.report.as_ref().map(beside), ..self.tolerance }
    }
}

/// Options of every training on annotated images.
#[derive(Clone, Debug)]
pub struct TrainingOptions {
    /// Images to train on.
    pub images: ImageFiles,
    /// Annotations of COCO and the folder of their images, to select the best network and the step lengths by; without
    /// them, the split valid of a folder is used if there is one.
    pub validation: Option<(PathBuf, PathBuf)>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Whether the outputs of the frozen layers are computed once per image and kept in memory.
    pub cache: bool,
    /// Number of threads that read images.
    pub workers: usize,
    /// Path of the trained network's file.
    pub file: PathBuf,
}

impl TrainingOptions {
    /// Names of the settings of a training's length.
    pub(crate) const LENGTH: &'static [&'static str] = &["steps", "milestones", "warmup_steps"];

    /// Creates options to train on `images` and write the network to `file`, with seed 0, no validation, no cache, and
    /// two threads.
    pub fn new(images: ImageFiles, file: impl Into<PathBuf>) -> Self {
        Self { images, validation: None, seed: 0, cache: false, workers: 2, file: file.into() }
    }

    /// Reads the validation images, if there are any, for a network with this number of `labels`.
    pub(crate) fn validation(&self, labels: usize) -> Result<Option<Annotated>> {
        let dataset = match &self.validation {
            Some((annotations, images)) => {
                let options = LoadOptions { labels: Some(labels), ..LoadOptions::new(Purpose::Eval) };
                Some(CocoDataset::load(annotations, images, &options)?)
            }
            None => self.images.valid(labels)?,
        };
        Ok(dataset.map(|dataset| Annotated::new("validation images", dataset, self.workers)))
    }

    /// Returns this process's share of the batches: with images from the loader, or with the cached maps that the
    /// frozen `body` computes from every image and its mirror image.
    pub(crate) fn source(
        &self,
        batches: Batches<'_>,
        body: &dyn Fn(&Tensor) -> Result<Vec<Tensor>>,
        session: &mut Session<'_>,
    ) -> Result<Box<dyn BatchSource>> {
        if !self.cache {
            return self.stream(batches, session);
        }
        let loader = self.reading(LoaderConfig::eval(batches.input.transform(), 1));
        Ok(Box::new(MirroredMaps::compute(&batches, &loader, body, session)?))
    }

    /// Returns this process's share of the batches, with images from the loader.
    pub(crate) fn stream(&self, batches: Batches<'_>, session: &Session<'_>) -> Result<Box<dyn BatchSource>> {
        let (part, transform) = (batches.order(session)?.part, batches.input.transform());
        let whole = self.reading(LoaderConfig::train(transform, batches.size));
        let whole = LoaderConfig { drop_last: batches.drop_last, ..whole };
        let loader = if session.group.world() > 1 { whole.part(part) } else { whole };
        let loader = Loader::new(batches.images, loader, batches.key)?;
        Ok(Box::new(StreamSource::new(loader, session.device, batches.convention)))
    }

    /// Computes `maps` of every image, with `batch_size` images per batch, and caches them.
    pub(crate) fn features(
        &self,
        batches: &Batches<'_>,
        batch_size: usize,
        maps: &dyn Fn(&Tensor) -> Result<Vec<Tensor>>,
        Session { device, progress, .. }: &mut Session<'_>,
    ) -> Result<Rc<FeatureCache>> {
        progress.begin("features of the frozen layers", batches.images.images.len());
        let loader = self.reading(LoaderConfig::eval(batches.input.transform(), batch_size));
        let loader = Loader::new(batches.images.clone(), loader, Key::new(0))?;
        let mut cache = FeatureCache::default();
        cache.add(&loader, batches.convention, device, maps, *progress)?;
        progress.end();
        Ok(Rc::new(cache))
    }

    fn reading(&self, loader: LoaderConfig) -> LoaderConfig {
        let tolerance = self.images.tolerance_of_images();
        LoaderConfig { tolerance, ..loader }.with_workers(self.workers)
    }

    /// Writes the parameters of `store` and their `metadata` to the file.
    pub(crate) fn save(&self, store: &ParamStore, metadata: &ModelMetadata) -> Result<()> {
        Ok(metadata.save(&self.file, &store.tensors()?)?)
    }
}

/// Batches of a training.
pub(crate) struct Batches<'a> {
    pub input: &'a InputConfig,
    pub convention: BoxConvention,
    pub images: Arc<CocoDataset>,
    /// Number of images per batch.
    pub size: usize,
    /// Key of the order and of mirroring.
    pub key: Key,
    /// Whether an incomplete last batch of an epoch is left out.
    pub drop_last: bool,
}

impl<'a> Batches<'a> {
    /// Creates batches of `size` images for a detector; the last batch of an epoch may be incomplete.
    pub fn of(config: &'a DetectorConfig, images: Arc<CocoDataset>, size: usize, key: Key) -> Self {
        let (input, convention) = (&config.input, config.convention);
        Self { input, convention, images, size, key, drop_last: false }
    }

    /// Returns the order of this process's share of batches of cached features.
    pub fn order(&self, session: &Session<'_>) -> Result<BatchOrder> {
        let part = session.group.share_of(self.size)?;
        Ok(BatchOrder { batch_size: self.size, part, key: self.key })
    }
}

/// Data of a training and its validation.
pub struct TrainingData<C> {
    pub(super) config: C,
    pub(super) metadata: ModelMetadata,
    /// Training images, until the network takes them.
    pub(super) images: Option<Arc<CocoDataset>>,
    pub(super) held_out: Option<Annotated>,
}

impl<C> TrainingData<C> {
    pub(super) fn images(&mut self) -> Result<Arc<CocoDataset>> {
        self.images.take().ok_or_else(|| Error::config("images", "they are trained on once"))
    }

    pub(super) fn held_out(&self) -> Result<&Annotated> {
        self.held_out.as_ref().ok_or_else(|| Error::config("validation", "nothing is held out"))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn images_are_named_by_their_annotations() {
        let files = ImageFiles::coco("a.json", "images");
        assert_eq!(files.name(), "a.json");
        let report = Some(Path::new("defects.jsonl").to_owned());
        let files = ImageFiles { tolerance: Tolerance { report, ..Tolerance::default() }, ..files };
        assert_eq!(files.tolerance_of_images().report.unwrap(), Path::new("defects.jsonl.images"));
        assert!(ImageFiles::default().train(None).is_err());
    }
}
