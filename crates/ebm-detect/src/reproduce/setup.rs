//! Where the studies are made: a frozen detector, images to train on, to choose settings on and to measure
//! on.

use std::{
    cell::OnceCell,
    collections::BTreeMap,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use candle_core::{Device, Tensor};
use ebm_base::Key;
use ebm_eval::write_results;
use ebm_experiment::Session;
use ebm_train::{GradientTask, Group, ModelFile, ModelMetadata, Progress, RunSpec, train_run};

use super::images::{BaseOptions, Opened, StudyImages};
use crate::{
    Error, Result,
    branch::Branch,
    config::{ExperimentConfig, MethodConfig, Settings},
    energy_head::EnergyHead,
    evaluation::{Annotated, Evaluation, Found, Placement},
    faster_rcnn::FasterRcnn,
    feature_cache::FeatureCache,
    inference::BoxAscent,
    training::{BatchSource, Batches, BranchTask, CachedSource, ImageFiles, TrainingOptions},
    weights::{BRANCH, WeightFile, branch_metadata, check_branch, classes},
};

/// What a study is told at every scale.
#[derive(Clone, Debug)]
pub struct StudyOptions {
    /// Checkpoints, metrics, detections.
    pub run: PathBuf,
    /// Branches that are not trained again.
    pub heads: Option<TrainedHeads>,
    /// Whether trainings go on that an earlier process began in `run`.
    pub resume: bool,
    /// Where to compute.
    pub device: Device,
    /// Threads that read images.
    pub workers: usize,
}

impl StudyOptions {
    /// What trainings of a study are told.
    pub(super) fn training(&self) -> TrainingOptions {
        TrainingOptions { workers: self.workers, ..TrainingOptions::new(ImageFiles::default(), &self.run) }
    }
}

/// Branches that were trained before.
#[derive(Clone, Debug)]
pub struct TrainedHeads {
    /// The directory with `<method>-<seed>/<method>.safetensors`, or with
    /// `ablation-<row>-<seed>/ebm.safetensors` for Table 1.
    pub path: PathBuf,
    /// Whether branches that are not there are trained, instead of being an error.
    pub train_missing: bool,
}

/// A branch after its training.
pub(super) struct Trained {
    pub method: MethodConfig,
    pub seed: u64,
    pub branch: Branch,
    /// How its boxes climb, where they do.
    pub ascent: Option<BoxAscent>,
    /// The factor of the configured step lengths that was chosen, where one was.
    pub step_factor: Option<f64>,
    /// Where its weights are.
    pub file: PathBuf,
}

impl Trained {
    /// The confidence that its boxes climb, and how, where they do.
    pub fn climbing(&self) -> Option<(&EnergyHead, &BoxAscent)> {
        match (&self.branch, &self.ascent) {
            (Branch::Confidence(head), Some(ascent)) => Some((head, ascent)),
            _ => None,
        }
    }
}

/// What all studies share.
pub struct Setup {
    pub(super) config: ExperimentConfig,
    pub(super) detector: Rc<FasterRcnn>,
    /// The detector's parameters, which confidences start from.
    weights: BTreeMap<String, Tensor>,
    /// Their [`digest`](ebm_train::model_file::digest).
    digest: String,
    /// Of the training images those that branches are trained on.
    pub(super) images: Opened,
    /// The detector's features of all these images, as soon as a branch needs them.
    features: OnceCell<Rc<FeatureCache>>,
    pub(super) study: StudyOptions,
}

/// A branch that a study needs.
#[derive(Clone)]
pub(super) struct Wanted {
    pub method: MethodConfig,
    pub seed: u64,
    /// Its directory's name.
    pub name: String,
}

impl Wanted {
    /// The branch of a row with a seed.
    pub fn new(method: &MethodConfig, seed: u64) -> Self {
        Self { method: method.clone(), seed, name: format!("{}-{seed}", method.key) }
    }

    /// Those of `methods` that are trained, each with every seed.
    pub fn all(methods: &[MethodConfig], seeds: u64) -> Vec<Self> {
        let trained = methods.iter().filter(|method| method.is_trained());
        trained.flat_map(|method| (0..seeds).map(move |seed| Self::new(method, seed))).collect()
    }

    /// Its file in the directory of runs.
    fn file(&self, runs: &Path) -> PathBuf {
        runs.join(&self.name).join(format!("{}.safetensors", self.method.key))
    }
}

impl Setup {
    /// Opens the images, generating scenes where there are none, and the detector, training it where `base` says
    /// so.
    ///
    /// # Errors
    /// When data can not be made or read, the detector's weights are not of the configured architecture, or its
    /// training fails.
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

    /// The images that results are measured on.
    pub fn test(&self) -> &Annotated {
        &self.images.test
    }

    /// Batches of the training images, whose features are computed the first time where they are kept.
    fn source(
        &self,
        batch_size: usize,
        key: Key,
        progress: &mut dyn Progress,
    ) -> Result<Box<dyn BatchSource>> {
        let options = self.study.training();
        let mut session = Session { group: &Group::alone(), device: &self.study.device, progress };
        let batches = Batches::of(&self.config.detector, self.images.train.clone(), batch_size, key);
        let Some(at_once) = self.images.at_once else { return options.stream(batches, &session) };
        let maps = |pixels: &Tensor| self.detector.features(pixels, false);
        let features = match self.features.get() {
            Some(known) => known.clone(),
            None => {
                let new = options.features(&batches, at_once, &maps, &mut session)?;
                self.features.get_or_init(|| new).clone()
            }
        };
        Ok(Box::new(CachedSource::new(features, batches.order(&session)?)?))
    }

    /// What a reader of results has to know: where they were measured, of which split of COCO the `published`
    /// figures beside them are, and on which images step lengths were chosen.
    pub fn remarks(&self, published: &str) -> Vec<String> {
        let (images, chosen) = (self.images.test.dataset.images.len(), self.config.step_factors.len() > 1);
        remarks(&self.images.test.name, images, &self.images.validation.name, published, chosen)
    }

    /// What a reader of a search for settings has to know: on which images it was made.
    pub fn search_remark(&self) -> String {
        search_remark(&self.images.test.name, &self.images.validation.name)
    }

    /// What the branch that a study needs must say of itself.
    fn metadata(&self, Wanted { method, seed, .. }: &Wanted) -> Result<ModelMetadata> {
        let classes = classes(&self.images.train);
        branch_metadata(method, *seed, &self.config.with_method(method), &self.digest, &classes)
    }

    /// Checks all of the trained branches that a study takes, before anything is computed.
    ///
    /// # Errors
    /// [`Error::Weights`] with every file that is missing and may not be trained; for one that was trained
    /// otherwise, with both values.
    pub(super) fn check_heads(&self, wanted: &[Wanted]) -> Result<()> {
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

    /// A branch, trained in its run, or found where it was trained before; see
    /// [`check_heads`](Self::check_heads).
    pub(super) fn train(&self, wanted: &Wanted, progress: &mut dyn Progress) -> Result<Trained> {
        let (Wanted { method, seed, name }, detector) = (wanted, &self.config.detector);
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

    /// The factor of the configured step lengths with the best AP on the validation images, as in the paper.
    /// Where there is but one factor, they are not looked at.
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

    /// Takes steps `factor` times as long as the configured ones. A branch that was trained in this run says
    /// so in its file, by which others predict with it.
    pub(super) fn climb_by(&self, factor: f64, trained: &mut Trained) -> Result<()> {
        trained.ascent = trained.ascent.take().map(|ascent| ascent.scaled(factor));
        trained.step_factor = Some(factor);
        if !trained.file.starts_with(&self.study.run) {
            return Ok(());
        }
        let mut file = ModelFile::open(&trained.file)?;
        file.said.step_factor = Some(factor);
        Ok(file.said.save(&file.path, &file.tensors)?)
    }

    /// What the detector and every placement find in some images.
    pub(super) fn evaluate(
        &self,
        images: &Annotated,
        placements: &[Placement<'_>],
        progress: &mut dyn Progress,
    ) -> Result<Evaluation> {
        images.evaluate(&self.detector, placements, &self.study.device, progress)
    }

    /// Writes COCO's result files of what a method found on the test images.
    pub(super) fn keep(&self, name: &str, found: &Found) -> Result<()> {
        let place = |name: &str| self.study.run.join(format!("detections-{name}.json"));
        if let Some(before) = &found.before {
            write_results(&place(&format!("{name}-before")), before)?;
        }
        Ok(write_results(&place(name), &found.detections)?)
    }
}

/// The placements by trained branches, in their order.
pub(super) fn placements(trained: &[Trained]) -> Vec<Placement<'_>> {
    trained.iter().filter_map(|one| Placement::of(&one.branch, one.ascent.as_ref())).collect()
}

fn search_remark(test: &str, validation: &str) -> String {
    if test == validation {
        return format!(
            "The search was made on {test}, on which results are measured too: its best is no result."
        );
    }
    format!("The search was made on {validation}, results are measured on {test}.")
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
