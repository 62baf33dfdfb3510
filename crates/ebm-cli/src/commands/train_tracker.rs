//! `ebm train tracker`: a box module on one's own sequences.

use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::Args;
use ebm_data::sequences::{Sequence, SequenceOptions, otb};
use ebm_experiment::Validation;
use ebm_seed::Key;
use ebm_track::Backbone;
use ebm_track::config::{ExperimentConfig, Settings};
use ebm_track::saved::SavedConfig;
use ebm_track::training::{BoxModuleTask, ModuleTraining, PairFeatures, StreamPairs};
use ebm_train::BoxError;

use super::say_left_out;
use super::train_run::{Session, TrainingArgs};

/// Arguments of `ebm train tracker`.
#[derive(Args)]
pub struct TrackerArgs {
    #[command(flatten)]
    training: TrainingArgs,
    /// A folder of sequences laid out like OTB: a folder each, with img/ and groundtruth_rect.txt.
    #[arg(long)]
    sequences: PathBuf,
    /// Weights of the backbone, a ResNet-18 by torchvision's names; it stays as it is.
    #[arg(long)]
    backbone: PathBuf,
    /// The method, by its key in the settings: ebm, atom or atom_star.
    #[arg(long, default_value = ExperimentConfig::ENERGY)]
    method: String,
    /// The share of the sequences that is kept for validation.
    #[arg(long, default_value_t = 0.1)]
    validation: f64,
}

impl TrackerArgs {
    /// How it is trained.
    pub fn training(&self) -> &TrainingArgs {
        &self.training
    }
}

/// Runs the command.
pub fn run(args: &TrackerArgs, session: &mut Session<'_>) -> Result<()> {
    let common = &args.training;
    let config: ExperimentConfig = common.settings("mini")?;
    let method = config.method(&args.method)?;
    let found = otb::load(&args.sequences, &SequenceOptions::train())
        .with_context(|| format!("the sequences in {}", args.sequences.display()))?;
    say_left_out(&found.quarantine);
    let (sequences, held_out) = parts(found.sequences, args.validation)?;
    let (device, group) = (&session.device.clone(), &session.group.clone());
    let backbone = &Arc::new(Backbone::load(&args.backbone, device)?);
    let (name, seed) = (method.key.as_str(), common.seed());
    let training = ModuleTraining { config: &config, method, name, seed, backbone, device, group };
    let mut task = training.start(training.pairs(sequences)?)?;
    let pairs = if group.is_first() { training.held_out(held_out)? } else { Vec::new() };
    let saved = training.saved(absolute(&args.backbone)?, 1.0);
    let mut judge =
        HeldOut { pairs, key: Key::new(common.seed()).split("validation"), saved, run: common.run() };
    let text = config.with_method(method).to_toml()?;
    common.train(&text, config.training.steps(), &mut task, &mut judge, session)?;
    if !group.is_first() {
        return Ok(());
    }
    let (_, _, module) = SavedConfig::load(common.run(), Some(&args.backbone), device)?;
    let factor = training.choose_step_factor(&module, &judge.pairs, &mut session.progress)?;
    training.saved(absolute(&args.backbone)?, factor).replace(common.run())?;
    println!("{}", common.run().display());
    Ok(())
}

/// The sequences to train on, and those to validate on: the last by name.
fn parts(mut sequences: Vec<Sequence>, share: f64) -> Result<(Vec<Sequence>, Vec<Sequence>)> {
    let count = (sequences.len() as f64 * share).ceil() as usize;
    ensure!(
        0 < count && count < sequences.len(),
        "--validation {share} of {} sequences leaves {count} to validate on; give a share that leaves some for both",
        sequences.len()
    );
    let held_out = sequences.split_off(sequences.len() - count);
    Ok((sequences, held_out))
}

/// Pairs of frames that are not trained on.
struct HeldOut<'a> {
    pairs: Vec<PairFeatures>,
    key: Key,
    saved: SavedConfig,
    run: &'a Path,
}

impl Validation<BoxModuleTask<StreamPairs>> for HeldOut<'_> {
    fn loss(&mut self, task: &BoxModuleTask<StreamPairs>) -> Result<f64, BoxError> {
        Ok(task.validation_loss(&self.pairs, self.key)?)
    }

    fn keep(&mut self, task: &BoxModuleTask<StreamPairs>) -> Result<(), BoxError> {
        Ok(self.saved.save(task.store(), self.run)?)
    }
}
