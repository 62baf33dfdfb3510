//! How many nuclei does a picture show? A task of one's own: `own-task FOLDER RUN [STEPS]`.
//!
//! Training can be killed and started again: it goes on from its last checkpoint, to the same bytes.

mod data;
mod network;

use std::path::Path;

use anyhow::{Context, Result};
use candle_core::{DType, Device};
use data::Split;
use ebm_core::{GaussianMixture, Grid, GridDensity, MonteCarloNll, Objective};
use ebm_eval::calibration::{SplitConformal, coverage, mean_width, nll};
use ebm_nn::optim::{Adam, ParamGroup};
use ebm_nn::params::ParamStore;
use ebm_nn::schedule::{Decay, Schedule};
use ebm_seed::Key;
use ebm_train::{GradientTask, Learner, Loss, Progress, RunSpec, Updater, train_run};
use network::Counter;

const BATCH: usize = 16;
const SEED: u64 = 0;

/// A network in training.
struct Training {
    model: Counter,
    learner: Learner,
    objective: MonteCarloNll<GaussianMixture>,
    data: Split,
    key: Key,
}

impl Training {
    fn new(data: Split, steps: usize) -> Result<Self> {
        let key = Key::new(SEED);
        let store = ParamStore::new(key.split("init"));
        let model = Counter::new(&store)?;
        let adam = Adam::new(store.trainable(), |_| ParamGroup::decay(1e-4));
        let decay = Decay::Cosine { steps: steps as u64, floor: 0.0 };
        let schedule = Schedule { base: 1e-3, warmup: None, decay };
        let learner = Learner::new(store, Updater::new(Box::new(adam), schedule, Some(10.0)));
        // Eq. 5: samples near the true y and far from it, in units of y.
        let objective =
            MonteCarloNll { proposal: GaussianMixture::isotropic(&[0.1, 0.8], 1)?, num_samples: 128 };
        Ok(Self { model, learner, objective, data, key })
    }
}

impl GradientTask for Training {
    type Error = anyhow::Error;

    /// Eq. 4. All that is random comes from the step's number, so that a resumed run repeats it.
    fn loss(&mut self, step: usize) -> Result<Loss> {
        let rng = |name| self.key.split(name).index(step as u64).rng();
        let (x, y) = self.data.batch(BATCH, &mut rng("batch"))?;
        let features = self.model.features(&x, true)?;
        Ok(self.objective.loss(&self.model, &features, &y, &mut rng("proposal"))?.into())
    }

    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }
}

/// Says on stderr how far it is.
struct Stderr;

impl Progress for Stderr {
    fn begin(&mut self, stage: &str, total: usize) {
        eprintln!("{stage}: {total} steps");
    }
    fn advance(&mut self, done: usize, note: &str) {
        if done.is_multiple_of(50) {
            eprintln!("{done}: {note}");
        }
    }
    fn end(&mut self) {}
    fn message(&mut self, text: &str) {
        eprintln!("{text}");
    }
}

/// p(y | x) of each picture, normalised on a grid over counts from 1 to 1000.
fn densities(model: &Counter, split: &Split) -> Result<Vec<GridDensity>> {
    let grid = Grid::new(-0.5, 7.0, 1024)?;
    let mut found = Vec::new();
    for image in split.images() {
        let features = model.features(&image?, false)?.detach();
        found.extend(GridDensity::from_model(model, &features, 1, &grid, DType::F32, &Device::Cpu)?);
    }
    Ok(found)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, run, rest @ ..] = &arguments[..] else { anyhow::bail!("own-task FOLDER RUN [STEPS]") };
    let (folder, run) = (Path::new(folder), Path::new(run));
    let steps = rest.first().map_or(Ok(600), |text| text.parse()).context("STEPS is a number")?;

    let train = Split::read(folder, "train")?;
    let mean = f64::from(train.y.iter().sum::<f32>()) / train.y.len() as f64;
    let mut task = Training::new(train, steps)?;
    let name = run.file_name().and_then(|name| name.to_str()).context("RUN is the path of a folder")?;
    let settings = format!("steps = {steps}\nbatch = {BATCH}\n");
    let root = run.parent().unwrap_or(Path::new("."));
    let spec = RunSpec { resume: true, ..RunSpec::new((root, name), &settings, steps, SEED) };
    train_run(&spec, &mut task, &mut Stderr)?;
    task.learner.store().save(&run.join("counter.safetensors"))?;

    // How much mass a region needs to hold nine of ten counts is measured on pictures apart.
    let validation = Split::read(folder, "validation")?;
    let found = densities(&task.model, &validation)?;
    let masses = found.iter().zip(&validation.y).map(|(p, &y)| p.mass_above(p.log_prob(f64::from(y))));
    let mass = SplitConformal::calibrate(&masses.collect::<Vec<_>>(), 0.1)?.threshold;

    let test = Split::read(folder, "test")?;
    let y: Vec<f64> = test.y.iter().map(|&y| f64::from(y)).collect();
    let (mut log_probs, mut regions, mut errors) = (Vec::new(), Vec::new(), [0.0; 2]);
    for (p, y) in densities(&task.model, &test)?.iter().zip(&y) {
        log_probs.push(p.log_prob(*y));
        regions.push(p.highest_density_region(mass.clamp(0.001, 0.999))?.intervals);
        for (error, estimate) in errors.iter_mut().zip([p.quantile(0.5)?, mean]) {
            *error += (estimate.exp() - y.exp()).abs() / test.y.len() as f64;
        }
    }
    let result = serde_json::json!({
        "pictures": y.len(),
        "mean_absolute_error": errors[0],
        "mean_absolute_error_of_the_mean": errors[1],
        "nll": nll(&log_probs)?,
        "coverage_90": coverage(&regions, &y)?,
        "width_90_in_log_counts": mean_width(&regions)?,
    });
    println!("{result:#}");
    Ok(())
}
