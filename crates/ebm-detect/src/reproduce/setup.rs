//! Where the studies are made: a frozen detector, images to train on, to choose settings on and to measure
//! on.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use candle_core::{Device, Tensor};
use ebm_data::{
    coco::{CocoDataset, LoadOptions, Purpose},
    loader::{Loader, LoaderConfig},
};
use ebm_eval::{Detection, GroundTruth, evaluate_coco_in_memory, write_results};
use ebm_seed::Key;
use ebm_train::{Class, ModelMetadata, Progress, RunSpec, train_run};

use super::AveragePrecision;
use crate::{
    Error, Result,
    branch::Branch,
    config::{DetectorConfig, ExperimentConfig, MethodConfig, Settings},
    evaluation::{Evaluation, Heads, Refiner, evaluate},
    faster_rcnn::FasterRcnn,
    inference::BoxAscent,
    step_factor::{ValidationImages, best_step_factor},
    training::{BranchSource, BranchTask},
    weights::{BRANCH, WeightFile, branch_metadata, check_branch, classes, save},
};

/// Annotated images to measure on.
pub struct Split {
    /// Its name in messages and files.
    pub name: String,
    /// COCO's annotation file.
    pub annotations: PathBuf,
    /// Its images with their objects.
    pub dataset: Arc<CocoDataset>,
    pub(super) truth: GroundTruth,
    /// Images that are run at a time.
    batch: usize,
}

impl Split {
    /// Reads the annotations of the images in the folder `images` for a detector; `batch` images will be run at a time.
    ///
    /// # Errors
    /// When they can not be read, or an image is not there.
    pub fn open(
        name: &str,
        annotations: PathBuf,
        images: &Path,
        batch: usize,
        detector: &DetectorConfig,
    ) -> Result<Self> {
        let dataset = Arc::new(load_dataset(&annotations, images, Purpose::Eval, detector)?);
        let truth = GroundTruth::read(&annotations)?;
        Ok(Self { name: name.to_owned(), annotations, dataset, truth, batch })
    }

    /// How good detections of it are.
    pub(super) fn score(&self, detections: &[Detection]) -> Result<AveragePrecision> {
        Ok(evaluate_coco_in_memory(&self.truth, detections)?.into())
    }
}

/// The annotated images, with the detector's labels.
pub(super) fn load_dataset(
    annotations: &Path,
    images: &Path,
    purpose: Purpose,
    detector: &DetectorConfig,
) -> Result<CocoDataset> {
    let options = LoadOptions { labels: Some(detector.labels()), ..LoadOptions::new(purpose) };
    Ok(CocoDataset::load(annotations, images, &options)?)
}

/// Each image once, in order, for inference.
pub(super) fn eval_loader(
    dataset: &Arc<CocoDataset>,
    config: &ExperimentConfig,
    batch_size: usize,
    workers: usize,
) -> Result<Loader> {
    let loader = LoaderConfig::eval(config.detector.input.transform(), batch_size).with_workers(workers);
    Ok(Loader::new(dataset.clone(), loader, Key::new(0))?)
}

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

/// Makes the training batches of a method for a batch size and a key. What has to be computed for that, is
/// computed the first time.
pub(super) type Source = Box<dyn Fn(&MethodConfig, usize, Key, &mut dyn Progress) -> Result<BranchSource>>;

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
    /// How its boxes climb its confidence, where they do.
    pub fn refiner(&self) -> Option<Refiner<'_>> {
        heads([self]).refiners.pop()
    }
}

/// What all studies share.
pub struct Setup {
    pub(super) config: ExperimentConfig,
    pub(super) detector: Rc<FasterRcnn>,
    /// The detector's parameters, which confidences start from.
    pub(super) weights: BTreeMap<String, Tensor>,
    /// Their [`digest`](ebm_train::model_file::digest).
    pub(super) digest: String,
    /// The classes of the images that branches are trained on.
    pub(super) classes: Vec<Class>,
    pub(super) source: Source,
    pub(super) validation: Rc<Split>,
    pub(super) test: Rc<Split>,
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

    /// Its file in the directory of runs.
    fn file(&self, runs: &Path) -> PathBuf {
        runs.join(&self.name).join(format!("{}.safetensors", self.method.key))
    }
}

impl Setup {
    /// The settings.
    pub fn config(&self) -> &ExperimentConfig {
        &self.config
    }

    /// The images that results are measured on.
    pub fn test(&self) -> &Split {
        &self.test
    }

    /// What a reader of results has to know: where they were measured, of which split of COCO the `published`
    /// figures beside them are, and on which images step lengths were chosen.
    pub fn remarks(&self, published: Option<&str>) -> Vec<String> {
        let (test, validation) = (&self.test.name, &self.validation.name);
        remarks(
            test,
            self.test.dataset.images.len(),
            validation,
            published,
            self.config.step_factors.len() > 1,
        )
    }

    /// What a reader of a search for settings has to know: on which images it was made.
    pub fn search_remark(&self) -> String {
        search_remark(&self.test.name, &self.validation.name)
    }

    /// What the branch that a study needs must say of itself.
    fn metadata(&self, Wanted { method, seed, .. }: &Wanted) -> Result<ModelMetadata> {
        branch_metadata(method, *seed, &self.config.with_method(method), &self.digest, &self.classes)
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
            let annotations = self.test.annotations.display().to_string();
            found.check_classes(&path, &annotations, &classes(&self.test.dataset))?;
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
        let (density, init) = (method.density.as_ref(), key.split("init"));
        let (branch, store) = Branch::new(density, detector, &self.weights, &self.study.device, init)?;
        let source = (self.source)(method, training.batch_size, key.split("data"), progress)?;
        let network = self.detector.clone();
        let mut task =
            BranchTask::new(network, branch, store, source, method, &training, key.split("train"))?;
        let text = self.config.with_method(method).to_toml()?;
        let spec = RunSpec::new(&self.study.run, name, &text, training.steps, *seed);
        train_run(&RunSpec { resume: self.study.resume, ..spec }, &mut task, progress)?;
        let (_, store) = task.into_branch();
        let path = wanted.file(&self.study.run);
        save(&store, &path, &metadata)?;
        trained(&path)
    }

    /// The detections of Faster-RCNN and of each branch on a split, in the branches' order by kind.
    pub(super) fn evaluate(
        &self,
        split: &Split,
        heads: &Heads,
        progress: &mut dyn Progress,
    ) -> Result<Evaluation> {
        progress.begin(&split.name, split.dataset.images.len());
        let loader = eval_loader(&split.dataset, &self.config, split.batch, self.study.workers)?;
        let mut report = |done| progress.advance(done, "");
        let result =
            evaluate(&self.detector, &split.dataset, &loader, heads, &self.study.device, &mut report)?;
        progress.end();
        Ok(result)
    }

    /// The factor of the configured step lengths with the best AP on the validation images, as in the paper.
    /// Where there is but one factor, they are not looked at.
    pub(super) fn step_factor(&self, trained: &Trained, progress: &mut dyn Progress) -> Result<f64> {
        let Some(refiner) = trained.refiner() else { return Ok(1.0) };
        let factors = match self.config.step_factors.as_slice() {
            [] => return Ok(1.0),
            [only] => return Ok(*only),
            several => several,
        };
        let split = &*self.validation;
        let loader = eval_loader(&split.dataset, &self.config, split.batch, self.study.workers)?;
        let (dataset, truth) = (&*split.dataset, &split.truth);
        let images = ValidationImages { name: &split.name, dataset, truth, loader: &loader };
        let (factor, ap) =
            best_step_factor(&self.detector, &refiner, factors, &images, &self.study.device, progress)?;
        let (title, ap) = (&trained.method.title, 100.0 * ap);
        progress
            .message(&format!("{title}: step lengths × {factor}, AP {ap:.1} on {}", self.validation.name));
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
        let file = WeightFile::open(&trained.file, &Device::Cpu)?;
        match file.metadata() {
            Some(said) if said.step_factor != Some(factor) => {
                let said = ModelMetadata { step_factor: Some(factor), ..said.clone() };
                Ok(said.save(&trained.file, file.tensors())?)
            }
            _ => Ok(()),
        }
    }

    /// Writes COCO's result file of some detections on the test images.
    pub(super) fn keep(&self, name: &str, detections: &[Detection]) -> Result<()> {
        Ok(write_results(&self.study.run.join(format!("detections-{name}.json")), detections)?)
    }
}

/// The branches as [`evaluate`] takes them; its results come in the same order by kind.
pub(super) fn heads<'a>(trained: impl IntoIterator<Item = &'a Trained>) -> Heads<'a> {
    Heads::of(trained.into_iter().map(|one| (&one.branch, one.ascent.as_ref())))
}

fn remarks(
    test: &str,
    images: usize,
    validation: &str,
    published: Option<&str>,
    chosen: bool,
) -> Vec<String> {
    let beside = match published {
        Some(split) if split == test => format!("; the paper's figures are of {split} too"),
        Some(split) => format!("; the paper's figures are of COCO {split}"),
        None => String::new(),
    };
    let chosen = match chosen {
        false => "The step lengths are the configured ones; none were chosen.".to_owned(),
        true if test == validation => {
            format!("The step lengths were chosen on {test}, on which results are measured too.")
        }
        true => format!("The step lengths were chosen on other images, {validation}."),
    };
    vec![format!("Measured on {test}, {images} images{beside}."), chosen]
}

fn search_remark(test: &str, validation: &str) -> String {
    if test == validation {
        return format!(
            "The search was made on {test}, on which results are measured too: its best is no result."
        );
    }
    format!("The search was made on {validation}, results are measured on {test}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_which_images_its_figures_are_of() {
        let paper = |published, chosen| remarks("val2017", 5000, "val2017", published, chosen);
        let [measured, chosen] = &paper(Some("test-dev"), false)[..] else { unreachable!() };
        assert_eq!(measured, "Measured on val2017, 5000 images; the paper's figures are of COCO test-dev.");
        assert!(chosen.contains("none were chosen"));
        assert!(paper(Some("val2017"), false)[0].ends_with("are of val2017 too."));
        assert!(paper(None, true)[1].contains("on which results are measured too"));
        assert!(search_remark("val2017", "val2017").contains("its best is no result"));
        let mini = remarks("test", 300, "validation", None, true);
        assert!(mini[1].ends_with("on other images, validation."));
        assert!(search_remark("test", "validation").ends_with("results are measured on test."));
    }
}
