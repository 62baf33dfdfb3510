//! Setup of a study: a frozen detector, and images for training, for the choice of settings, and for measurement.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use candle_core::{Device, Tensor};
use ebm_base::Key;
use ebm_eval::write_results;
use ebm_experiment::Session;
use ebm_train::{GradientTask, Group, ModelFile, ModelMetadata, Progress, RunSpec, train_run};

use super::images::{BaseOptions, LoadedImages, StudyImages};
use crate::branch::Branch;
use crate::config::{ExperimentConfig, MethodConfig, Settings};
use crate::energy_head::EnergyHead;
use crate::evaluation::{Annotated, Evaluation, Found, Placement};
use crate::faster_rcnn::FasterRcnn;
use crate::feature_cache::FeatureCache;
use crate::inference::BoxAscent;
use crate::training::{BatchSource, Batches, BranchTask, CachedSource, ImageFiles, TrainingOptions};
use crate::weights::{BRANCH, WeightFile, branch_metadata, check_branch, classes};
use crate::{Error, Result};

/// Options of a study at every scale.
#[derive(Clone, Debug)]
pub struct StudyOptions {
    /// Folder of checkpoints, metrics and detections.
    pub run: PathBuf,
    /// Trained branches to use instead of training.
    pub heads: Option<TrainedHeads>,
    /// Whether to resume the trainings in `run`.
    pub resume: bool,
    /// Device of the networks.
    pub device: Device,
    /// Number of threads that read images.
    pub workers: usize,
}

impl StudyOptions {
    /// Returns the options of the study's trainings.
    pub(super) fn training(&self) -> TrainingOptions {
        TrainingOptions { workers: self.workers, ..TrainingOptions::new(ImageFiles::default(), &self.run) }
    }
}

/// Branches that were trained before.
#[derive(Clone, Debug)]
pub struct TrainedHeads {
    /// Directory with `<method>-<seed>/<method>.safetensors`, or with
    /// `ablation-<row>-<seed>/ebm.safetensors` for Table 1.
    pub path: PathBuf,
    /// Whether to train missing branches; otherwise they are an error.
    pub train_missing: bool,
}

/// Trained branch.
pub(super) struct Trained {
    pub method: MethodConfig,
    pub seed: u64,
    pub branch: Branch,
    /// Settings of gradient ascent; `None` for a method that does not refine boxes.
    pub ascent: Option<BoxAscent>,
    /// Factor of the configured step lengths that was chosen; `None` if none was chosen.
    pub step_factor: Option<f64>,
    /// Path of the branch's weights.
    pub file: PathBuf,
}

impl Trained {
    /// Returns the confidence and the settings of gradient ascent; `None` for a method that does not refine boxes.
    pub fn climbing(&self) -> Option<(&EnergyHead, &BoxAscent)> {
        match (&self.branch, &self.ascent) {
            (Branch::Confidence(head), Some(ascent)) => Some((head, ascent)),
            _ => None,
        }
    }
}

/// Detector, images and options that the studies share.
pub struct Setup {
    pub(super) config: ExperimentConfig,
    pub(super) detector: Rc<FasterRcnn>,
    /// Parameters of the detector, which confidences start from.
    weights: BTreeMap<String, Tensor>,
    /// Digest of these parameters ([`digest`](ebm_train::model_file::digest)).
    digest: String,
    /// Images, with only the training images that branches are trained on.
    pub(super) images: LoadedImages,
    /// Features of the training images, computed when a branch first needs them.
    features: OnceCell<Rc<FeatureCache>>,
    pub(super) study: StudyOptions,
}

/// Branch that a study needs.
#[derive(Clone)]
pub(super) struct BranchSpec {
    pub method: MethodConfig,
    pub seed: u64,
    /// Name of its directory.
    pub name: String,
}

impl BranchSpec {
    /// Creates the description of a row's branch with a seed.
    pub fn new(method: &MethodConfig, seed: u64) -> Self {
        Self { method: method.clone(), seed, name: format!("{}-{seed}", method.key) }
    }

    /// Returns the branches of all `methods` that are trained, each with seeds 0 … `seeds` − 1.
    pub fn all(methods: &[MethodConfig], seeds: u64) -> Vec<Self> {
        let trained = methods.iter().filter(|method| method.is_trained());
        trained.flat_map(|method| (0..seeds).map(move |seed| Self::new(method, seed))).collect()
    }

    /// Returns the path of the branch's file in the directory `runs`.
    fn file(&self, runs: &Path) -> PathBuf {
        runs.join(&self.name).join(format!("{}.safetensors", self.method.key))
    }
}

impl Setup {
    /// Opens the images, after generating missing scenes, and the detector, after training it if `base` requests it.
    ///
    /// # Errors
    /// When data cannot be generated or read, the detector's weights have another architecture than the
    /// configuration, or its training fails.
    pub fn open(
        config: &ExperimentConfig,
        images: &StudyImages,
        base: &BaseOptions,
        study: &StudyOptions,
        progress: &mut dyn Progress,
    ) -> Result<Self> {
        let mut images = images.open(config, base.from_scratch, study.workers, progress)?;
        let weights = base.open(config, &images.train, study, progress)?;
        Arc::make_mut(&mut images.train).images.truncate(images.heads);
        Ok(Self {
            config: config.clone(),
            detector: Rc::new(weights.detector(&config.detector)?),
            digest: weights.digest()?,
            weights: weights.tensors,
            images,
            features: OnceCell::new(),
            study: study.clone(),
        })
    }

    /// Returns the images that results are measured on.
    pub fn test(&self) -> &Annotated {
        &self.images.test
    }

    /// Returns the batches of the training images. Cached features are computed at the first call.
    fn source(
        &self,
        batch_size: usize,
        key: Key,
        progress: &mut dyn Progress,
    ) -> Result<Box<dyn BatchSource>> {
        let options = self.study.training();
        let mut session = Session { group: &Group::alone(), device: &self.study.device, progress };
        let batches = Batches::of(&self.config.detector, self.images.train.clone(), batch_size, key);
        let Some(size) = self.images.batch_size else { return options.stream(batches, &session) };
        let maps = |pixels: &Tensor| self.detector.features(pixels, false);
        let features = match self.features.get() {
            Some(known) => known.clone(),
            None => {
                let new = options.features(&batches, size, &maps, &mut session)?;
                self.features.get_or_init(|| new).clone()
            }
        };
        Ok(Box::new(CachedSource::new(features, batches.order(&session)?)?))
    }

    /// Returns remarks for a report: the images of the results, the split of COCO of the `published` figures, and the
    /// images that step lengths were chosen on.
    pub fn remarks(&self, published: &str) -> Vec<String> {
        let (images, chosen) = (self.images.test.dataset.images.len(), self.config.step_factors.len() > 1);
        remarks(&self.images.test.name, images, &self.images.validation.name, published, chosen)
    }

    /// Returns the remark for a report on a search for settings: the images that it was made on.
    pub fn search_remark(&self) -> String {
        let (test, validation) = (&self.images.test.name, &self.images.validation.name);
        if test == validation {
            return format!(
                "The search was made on {test}, on which results are measured too: its best is no result."
            );
        }
        format!("The search was made on {validation}, results are measured on {test}.")
    }

    /// Returns the metadata that a branch of the study must have.
    fn metadata(&self, BranchSpec { method, seed, .. }: &BranchSpec) -> Result<ModelMetadata> {
        let classes = classes(&self.images.train);
        branch_metadata(method, *seed, &self.config.with_method(method), &self.digest, &classes)
    }

    /// Checks all trained branches that a study uses, before anything is computed.
    ///
    /// # Errors
    /// [`Error::Weights`] with all missing files, unless they may be trained; [`Error::Train`] for a branch that was
    /// trained with other settings, with both values.
    pub(super) fn check_heads(&self, wanted: &[BranchSpec]) -> Result<()> {
        let Some(heads) = &self.study.heads else { return Ok(()) };
        let mut missing = Vec::new();
        for wanted in wanted {
            let path = wanted.file(&heads.path);
            if !path.is_file() {
                missing.push(path.display().to_string());
                continue;
            }
            let found = ModelMetadata::require(&path, &[BRANCH])?;
            check_branch(&found, &path, &self.metadata(wanted)?)?;
            found.check_classes(&path, &self.images.test.name, &classes(&self.images.test.dataset))?;
        }
        if missing.is_empty() || heads.train_missing {
            return Ok(());
        }
        let reason = format!(
            "trained branches are missing: {}; put them there, name fewer methods or seeds, or have them trained with --train-missing",
            missing.join(", ")
        );
        Err(Error::weights(&heads.path, reason))
    }

    /// Trains a branch, or loads it if it was trained before; see [`check_heads`](Self::check_heads).
    pub(super) fn train(&self, wanted: &BranchSpec, progress: &mut dyn Progress) -> Result<Trained> {
        let (BranchSpec { method, seed, name }, detector) = (wanted, &self.config.detector);
        let trained = |path: &Path| -> Result<Trained> {
            let file = WeightFile::open(path, &self.study.device)?;
            let branch = Branch::load(method.density.as_ref(), detector, &file)?;
            let (method, ascent, file) = (method.clone(), method.ascent(), path.to_owned());
            Ok(Trained { method, seed: *seed, branch, ascent, step_factor: None, file })
        };
        let known = self.study.heads.as_ref().map(|heads| wanted.file(&heads.path));
        if let Some(path) = known.filter(|path| path.is_file()) {
            progress.message(&format!("{}, seed {seed}: {}", method.title, path.display()));
            return trained(&path);
        }
        let training = self.config.training(method).ok_or_else(|| {
            Error::config(&method.key, "it adds nothing to the detector, so that there is nothing to train")
        })?;
        let metadata = self.metadata(wanted)?;
        let key = Key::new(*seed).split(&method.key);
        let source = self.source(training.batch_size, key.split("data"), progress)?;
        let (network, device) = (self.detector.clone(), &self.study.device);
        let mut task = BranchTask::begin(network, &self.weights, source, method, &training, device, key)?;
        let text = self.config.with_method(method).to_toml()?;
        let spec = RunSpec::new(&self.study.run, name, &text, training.steps, *seed);
        train_run(&RunSpec { resume: self.study.resume, ..spec }, &mut task, progress)?;
        let path = wanted.file(&self.study.run);
        metadata.save(&path, &task.store().tensors()?)?;
        trained(&path)
    }

    /// Chooses the factor of the configured step lengths with the best AP on the validation images, as in the paper. A
    /// single configured factor is used without an evaluation.
    pub(super) fn step_factor(&self, trained: &Trained, progress: &mut dyn Progress) -> Result<f64> {
        let Some((head, ascent)) = trained.climbing() else { return Ok(1.0) };
        let factors = match self.config.step_factors.as_slice() {
            [] => return Ok(1.0),
            [only] => return Ok(*only),
            several => several,
        };
        let (validation, device) = (&self.images.validation, &self.study.device);
        let (factor, ap) =
            validation.best_step_factor(&self.detector, head, ascent, factors, device, progress)?;
        let (title, ap, name) = (&trained.method.title, 100.0 * ap, &validation.name);
        progress.message(&format!("{title}: step lengths × {factor}, AP {ap:.1} on {name}"));
        Ok(factor)
    }

    /// Multiplies the configured step lengths by `factor`. The file of a branch that was trained in this run gets the
    /// factor, so that predictions use it.
    pub(super) fn scale_step_lengths(&self, factor: f64, trained: &mut Trained) -> Result<()> {
        trained.ascent = trained.ascent.take().map(|ascent| ascent.scaled(factor));
        trained.step_factor = Some(factor);
        if !trained.file.starts_with(&self.study.run) {
            return Ok(());
        }
        let mut file = ModelFile::open(&trained.file)?;
        file.said.step_factor = Some(factor);
        Ok(file.said.save(&file.path, &file.tensors)?)
    }

    /// Evaluates the detector and every placement on `images`.
    pub(super) fn evaluate(
        &self,
        images: &Annotated,
        placements: &[Placement<'_>],
        progress: &mut dyn Progress,
    ) -> Result<Evaluation> {
        images.evaluate(&self.detector, placements, &self.study.device, progress)
    }

    /// Writes the detections of a method in the test images as COCO result files.
    pub(super) fn write_detections(&self, name: &str, found: &Found) -> Result<()> {
        let place = |name: &str| self.study.run.join(format!("detections-{name}.json"));
        if let Some(before) = &found.before {
            write_results(&place(&format!("{name}-before")), before)?;
        }
        Ok(write_results(&place(name), &found.detections)?)
    }
}

/// Returns the placements by trained branches, in their order.
pub(super) fn placements(trained: &[Trained]) -> Vec<Placement<'_>> {
    trained.iter().filter_map(|one| Placement::of(&one.branch, one.ascent.as_ref())).collect()
}

fn remarks(test: &str, images: usize, validation: &str, published: &str, chosen: bool) -> Vec<String> {
    let beside = match published == test {
        true => format!("{published} too"),
        false => format!("COCO {published}"),
    };
    let chosen = match chosen {
        false => "The step lengths are the configured ones; none were chosen.".to_owned(),
        true if test == validation => {
            format!("The step lengths were chosen on {test}, on which results are measured too.")
        }
        true => format!("The step lengths were chosen on other images, {validation}."),
    };
    vec![format!("Measured on {test}, {images} images; the paper's figures are of {beside}."), chosen]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_which_images_its_figures_are_of() {
        let paper = |published, chosen| remarks("val2017", 5000, "val2017", published, chosen);
        let [measured, chosen] = &paper("test-dev", false)[..] else { unreachable!() };
        assert_eq!(measured, "Measured on val2017, 5000 images; the paper's figures are of COCO test-dev.");
        assert!(chosen.contains("none were chosen"));
        assert!(paper("val2017", false)[0].ends_with("are of val2017 too."));
        assert!(paper("val2017", true)[1].contains("on which results are measured too"));
        let mini = remarks("test", 300, "validation", "test-dev", true);
        assert!(mini[1].ends_with("on other images, validation."));
    }
}
