//! Where the studies are made: a frozen detector, images to train on, to choose settings on and to measure on.

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
use ebm_train::{Progress, RunSpec, train_run};

use super::Precision;
use crate::{
    branch::{Branch, Predictor},
    config::{DetectorConfig, ExperimentConfig},
    error::{Error, Result},
    evaluation::{Contenders, Evaluation, Refiner, evaluate},
    faster_rcnn::FasterRcnn,
    inference::BoxAscent,
    method::Method,
    training::{BranchSource, BranchTask},
    weights::save,
};

/// Annotated images to measure on.
pub struct Split {
    /// Its name in messages and files.
    pub name: String,
    /// COCO's annotation file.
    pub annotations: PathBuf,
    /// Where its images are.
    pub images: PathBuf,
    pub(super) dataset: Arc<CocoDataset>,
    pub(super) truth: GroundTruth,
    /// Images that are run at a time.
    batch: usize,
}

impl Split {
    /// Reads the annotations for a detector; `batch` images will be run at a time.
    ///
    /// # Errors
    /// When they can not be read, or an image is not there.
    pub fn open(
        name: &str,
        (annotations, images): (PathBuf, PathBuf),
        batch: usize,
        detector: &DetectorConfig,
    ) -> Result<Self> {
        let dataset = Arc::new(load_dataset((&annotations, &images), Purpose::Eval, detector)?);
        let truth = GroundTruth::read(&annotations)?;
        Ok(Self { name: name.to_owned(), annotations, images, dataset, truth, batch })
    }

    /// How good detections of it are.
    pub(super) fn score(&self, detections: &[Detection]) -> Result<Precision> {
        Ok(evaluate_coco_in_memory(&self.truth, detections)?.into())
    }
}

/// The annotated images, with the detector's labels.
pub(super) fn load_dataset(
    (annotations, images): (&Path, &Path),
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
) -> Result<Loader> {
    let loader = LoaderConfig::eval(config.detector.input.transform(), batch_size);
    Ok(Loader::new(dataset.clone(), loader, Key::new(0))?)
}

/// Makes the training batches of a method for a batch size and a key.
pub(super) type Source = Box<dyn Fn(Method, usize, Key) -> Result<BranchSource>>;

/// A branch after its training.
pub(super) struct Trained {
    pub method: Method,
    pub seed: u64,
    pub predictor: Predictor,
    /// How its boxes climb, where they do.
    pub ascent: Option<BoxAscent>,
}

/// What all studies share.
pub struct Workplace {
    pub(super) config: ExperimentConfig,
    pub(super) device: Device,
    pub(super) detector: Rc<FasterRcnn>,
    /// The detector's parameters, which confidences start from.
    pub(super) weights: BTreeMap<String, Tensor>,
    pub(super) source: Source,
    pub(super) validation: Rc<Split>,
    pub(super) test: Rc<Split>,
    /// Runs and detections go here.
    pub(super) run: PathBuf,
    /// Branches that an earlier run left here are not trained again.
    pub(super) heads: Option<PathBuf>,
    /// Whether trainings go on that an earlier process began in `run`.
    pub(super) resume: bool,
    /// Factors of the configured step lengths among which the validation images choose; the first is taken where there is
    /// no choice.
    pub(super) step_factors: Vec<f64>,
}

/// The file of a trained branch in its directory.
const BRANCH_FILE: &str = "model.safetensors";

impl Workplace {
    /// The settings.
    pub fn config(&self) -> &ExperimentConfig {
        &self.config
    }

    /// The images that results are measured on.
    pub fn test(&self) -> &Split {
        &self.test
    }

    /// A branch of `method`, trained as `config` says in the run `name`, or found where an earlier run left it.
    pub(super) fn train(
        &self,
        config: &ExperimentConfig,
        (method, seed): (Method, u64),
        name: &str,
        progress: &mut dyn Progress,
    ) -> Result<Trained> {
        let ascent = config.confidence(method).map(|settings| settings.ascent());
        let known = self.heads.as_ref().map(|heads| heads.join(name).join(BRANCH_FILE));
        if let Some(path) = known.filter(|path| path.is_file()) {
            let branch = Branch::load(method, &config.detector, &path, &self.device)?;
            progress.message(&format!("{}, seed {seed}: {}", method.title(), path.display()));
            return Ok(Trained { method, seed, predictor: branch.for_inference()?, ascent });
        }
        let training = config.training(method).ok_or_else(|| Error::Config {
            name: method.key().into(),
            reason: "it adds nothing to the detector, so that there is nothing to train".into(),
        })?;
        let key = Key::new(seed).split(method.key());
        let branch = Branch::new(method, &config.detector, &self.weights, &self.device, key.split("init"))?;
        let source = (self.source)(method, training.batch_size, key.split("data"))?;
        let detector = self.detector.clone();
        let mut task = BranchTask::new(detector, branch, source, (method, config), key.split("train"))?;
        let text = config.to_toml()?;
        let spec = RunSpec::new((&self.run, name), &text, training.steps, seed);
        train_run(&RunSpec { resume: self.resume, ..spec }, &mut task, progress)?;
        let (branch, store) = task.into_branch();
        save(&store, &self.run.join(name).join(BRANCH_FILE), false)?;
        Ok(Trained { method, seed, predictor: branch.for_inference()?, ascent })
    }

    /// The detections of Faster-RCNN and of each branch on a split, in the branches' order by kind.
    pub(super) fn evaluate(
        &self,
        split: &Split,
        contenders: &Contenders,
        progress: &mut dyn Progress,
    ) -> Result<Evaluation> {
        progress.begin(&split.name, split.dataset.images.len());
        let loader = eval_loader(&split.dataset, &self.config, split.batch)?;
        let mut report = |done| progress.advance(done, "");
        let result =
            evaluate(&self.detector, &split.dataset, &loader, contenders, &self.device, &mut report)?;
        progress.end();
        Ok(result)
    }

    /// The factor of the configured step lengths with the best AP on the validation images, as in the paper.
    pub(super) fn step_factor(&self, trained: &Trained, progress: &mut dyn Progress) -> Result<f64> {
        let (Predictor::Confidence(head), Some(ascent)) = (&trained.predictor, &trained.ascent) else {
            return Ok(1.0);
        };
        let refiner = |&factor: &f64| Refiner { head: &**head, ascent: ascent.scaled(factor) };
        let refiners = self.step_factors.iter().map(refiner).collect();
        let evaluation = self.evaluate(&self.validation, &Contenders::refiners(refiners), progress)?;
        let mut best = (1.0, f64::NEG_INFINITY);
        for (&factor, refined) in self.step_factors.iter().zip(&evaluation.refined) {
            let ap = self.validation.score(&refined.after)?.ap;
            if ap > best.1 {
                best = (factor, ap);
            }
        }
        let (title, [factor, ap]) = (trained.method.title(), [best.0, 100.0 * best.1]);
        progress
            .message(&format!("{title}: step lengths × {factor}, AP {ap:.1} on {}", self.validation.name));
        Ok(best.0)
    }

    /// Writes COCO's result file of some detections on a split.
    pub(super) fn keep(&self, split: &Split, name: &str, detections: &[Detection]) -> Result<()> {
        let file = if split.name == self.test.name {
            format!("detections-{name}.json")
        } else {
            format!("detections-{}-{name}.json", split.name)
        };
        Ok(write_results(&self.run.join(file), detections)?)
    }
}

/// The branches as [`evaluate`] takes them; its results come in the same order by kind.
pub(super) fn contenders(trained: &[Trained]) -> Contenders<'_> {
    let mut found = Contenders::refiners(vec![]);
    for one in trained {
        match (&one.predictor, &one.ascent) {
            (Predictor::Density(head), _) => found.parametric.push(head),
            (Predictor::Confidence(head), Some(ascent)) => {
                found.refiners.push(Refiner { head: &**head, ascent: ascent.clone() })
            }
            // Without a way to climb, guided suppression alone.
            (Predictor::Confidence(_), None) => {}
        }
    }
    found
}
