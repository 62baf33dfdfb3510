//! Estimates how many nuclei a picture shows. README.md explains this regression.

mod data;
mod network;

use std::{ffi::OsStr, path::Path};

use anyhow::{Context, Error, Result, bail, ensure};
use candle_core::{Device, Tensor};
use ebm_core::{AnyObjective, EnergyModel, GaussianMixture, Grid, Objective};
use ebm_eval::AbsoluteError;
use ebm_experiment::config::{Configured, Overrides, Settings, settings};
use ebm_experiment::{KeptBest, Predictions, Run, Session, train_validated};
use ebm_nn::schedule::{Decay, Schedule};
use ebm_nn::{import, params::ParamStore};
use ebm_ops::optim::{Adam, ParamGroup};
use ebm_plot::DensityCurves;
use ebm_train::{Descent, Group, Learner, Loss, RunSpec, Updater};
use serde_json::json;

settings! {
    /// Settings in `count.toml`.
    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Config {
        seed: u64 where 0..=u64::MAX,
        steps: usize where 1..=1_000_000,
        batch: usize where 1..=4096 => "pictures",
        validate_every: usize where 0..=1_000_000 => "steps",
        learning_rate: f64 where 1e-9..=1.0,
        objective: AnyObjective<GaussianMixture>,
    }
}

impl Settings for Config {
    const EMBEDDED: &'static [(&'static str, &'static str)] = &[("count", include_str!("../count.toml"))];
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, run, changes @ ..] = &arguments[..] else { bail!("own-task FOLDER RUN [KEY=VALUE ...]") };
    let changes = changes.iter().map(|change| change.parse().map_err(Error::msg)).collect::<Result<_>>()?;
    let config = Configured::<Config>::load("count", &Overrides { smoke: false, changes })?.settings;
    evaluate(&train(&config, folder.as_ref(), run.as_ref())?, folder.as_ref(), run.as_ref())
}

/// Trains a network or continues in the folder `run`. Returns the best network on the validation pictures.
fn train(config: &Config, folder: &Path, run: &Path) -> Result<network::Counter> {
    let key = ebm_base::Key::new(config.seed);
    let store = ParamStore::new(key.split("initial values"));
    let model = network::Counter::new(&store)?;
    let adam = Adam::new(store.trainable(), |_| ParamGroup::decay(1e-4));
    let decay = Decay::Cosine { steps: config.steps as u64, floor: 0.0 };
    let schedule = Schedule { base: config.learning_rate, warmup: None, decay };
    let updater = Updater::new(Box::new(adam), schedule, Some(10.0));
    let data = data::Split::read(folder, "train")?;
    // Random numbers depend only on the step, so that an interrupted training continues as if it had not stopped.
    let loss = |step: usize| -> Result<Loss> {
        let rng = |name| key.split(name).index(step as u64).rng();
        let (x, y) = data.batch(config.batch, &mut rng("batch"))?;
        let features = model.features(&x, true)?;
        Ok(config.objective.loss(&model, &features, &y, &mut rng("proposal"))?.into()) // Eq. 4
    };
    let mut task = Descent { learner: Learner::new(store.clone(), updater), loss };
    let validation = data::Split::read(folder, "validation")?;
    let loss = |store: &ParamStore| -> Result<f64> {
        Ok(predict(&network::Counter::new(&store.constants()?)?, &validation)?.nll()?)
    };
    let mut best = KeptBest { file: run.join("best.safetensors"), loss };
    let (root, name) =
        run.parent().zip(run.file_name().and_then(OsStr::to_str)).context("RUN names no folder")?;
    let text = config.to_toml()?;
    let spec = RunSpec { resume: true, ..RunSpec::new(root, name, &text, config.steps, config.seed) };
    let mut session = Session { group: &Group::alone(), device: &Device::Cpu, progress: &mut () };
    let run = Run { spec, validate_every: config.validate_every };
    let kept = train_validated(&run, &mut task, &mut best, &mut session)?.context("nothing was validated")?;
    eprintln!("step {} was best: {:.3} nats on the validation pictures", kept.step, kept.value);
    store.load(&import::load(&best.file, &Device::Cpu)?, import::LoadPolicy::Strict)?;
    network::Counter::new(&store.constants()?)
}

/// Computes p(y | x) of a split's pictures, on a grid over counts from 0.6 to 1100.
fn predict(model: &network::Counter, split: &data::Split) -> Result<Predictions> {
    let grid = Grid::new(-0.5, 7.0, 1024)?;
    let features = |x: &Tensor| model.features(&x.unsqueeze(0)?, false);
    let density = |x: &Tensor| Ok(model.bind(&features(x)?, 1).grid(&grid)?.remove(0));
    Ok(Predictions { densities: split.x.iter().map(density).collect::<Result<_>>()?, y: split.y.clone() })
}

/// Prints metrics on the test pictures, which no setting was chosen on, and draws the density of the first.
fn evaluate(model: &network::Counter, folder: &Path, run: &Path) -> Result<()> {
    let test = predict(model, &data::Split::read(folder, "test")?)?;
    let held_out = predict(model, &data::Split::read(folder, "calibration")?)?;
    let mut known = data::Split::read(folder, "train")?.y;
    known.sort_by(f64::total_cmp);
    let medians = test.densities.iter().map(|p| p.quantile(0.5)).collect::<ebm_core::Result<Vec<f64>>>()?;
    let counts = |y: &[f64]| y.iter().map(|y| y.exp()).collect::<Vec<f64>>();
    let mae = |y: &[f64]| AbsoluteError::new(&counts(y), &counts(&test.y), 1);
    let [mae, mae_of_guess] = [mae(&medians)?.mean, mae(&vec![known[known.len() / 2]; test.y.len()])?.mean];
    let calibration = test.calibration(&held_out)?;
    println!("{:#}", json!({ "mae": mae, "mae_of_guess": mae_of_guess, "calibration": calibration }));
    let p = &test.densities[0];
    let drawing = DensityCurves {
        title: "How many nuclei the first test picture shows",
        y_label: "natural logarithm of their number",
        grid: p.points(),
        curves: &[("p".to_owned(), p.log_prob_values().iter().map(|log_p| log_p.exp()).collect())],
        regions: &p.highest_density_region(held_out.conformal_mass(0.9)?)?.intervals,
        marks: &[(test.y[0], "true".to_owned())],
    };
    ebm_plot::write(&drawing, &run.join("density"))?;
    ensure!(mae < mae_of_guess, "the network is no better than the median of the training pictures");
    Ok(())
}
