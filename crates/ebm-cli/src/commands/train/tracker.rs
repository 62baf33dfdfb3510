//! `ebm train tracker`: a box module on one's own sequences.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Error, Result, ensure};
use candle_core::Device;
use clap::Args;
use ebm_data::sequences::{Dataset, Sequence, SequenceOptions, digest};
use ebm_distributed::Group;
use ebm_experiment::config::Settings;
use ebm_experiment::{Built, Inputs, Measure, Session, Training};
use ebm_seed::Key;
use ebm_track::Backbone;
use ebm_track::config::ExperimentConfig;
use ebm_track::reproduce::Chosen;
use ebm_track::saved::SavedConfig;
use ebm_track::training::{BoxModuleTask, ModuleTraining, PairFeatures, StreamPairs};

use ebm_train::keep_base;
use ebm_train::model_file::file_digest;

use super::TrainArgs;
use super::run::RunArgs;
use crate::commands::say_left_out;

/// Arguments of `ebm train tracker`.
#[derive(Args)]
pub struct TrackerArgs {
    #[command(flatten)]
    run: RunArgs,
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

/// The frozen backbone, and what a module on it is trained on and judged by.
pub struct TrackerData {
    config: ExperimentConfig,
    backbone: Arc<Backbone>,
    /// To train on and to validate on, until they are pairs.
    sequences: [Vec<Sequence>; 2],
    pairs: Vec<PairFeatures>,
    /// What the module's file says, as soon as there is a module.
    saved: Option<SavedConfig>,
}

impl TrackerArgs {
    fn config(&self) -> Result<ExperimentConfig> {
        self.run.settings("mini")
    }

    /// The backbone beside the module.
    fn kept_backbone(&self) -> Result<PathBuf> {
        Ok(keep_base(&self.backbone, &self.run.run, "backbone")?)
    }

    /// The training of a module on the backbone.
    fn training<'a>(
        &'a self,
        data: &'a TrackerData,
        device: &'a Device,
        group: &'a Group,
    ) -> Result<ModuleTraining<'a>> {
        let TrackerData { config, backbone, .. } = data;
        let method = config.method(&self.method)?;
        let (name, seed) = (&self.method, self.run.seed);
        Ok(ModuleTraining { config, method, name, seed, backbone, device, group })
    }
}

impl TrainArgs for TrackerArgs {
    fn run(&self) -> &RunArgs {
        &self.run
    }
}

impl Training for TrackerArgs {
    type Error = Error;
    type Data = TrackerData;
    type Network = BoxModuleTask<StreamPairs>;

    const MEASURE: Measure = Measure::LOSS;
    const LENGTH: &'static [&'static str] = &["epochs", "milestones", "decay_epochs"];

    fn settings(&self, _: Option<&TrackerData>) -> Result<Option<String>> {
        let config = self.config()?;
        Ok(Some(config.with_method(config.method(&self.method)?).to_toml()?))
    }

    fn inputs(&self, data: &TrackerData) -> Result<Inputs> {
        let [train, _] = &data.sequences;
        Ok(Inputs::from([("data_sha256", digest(train)), ("weights_sha256", file_digest(&self.backbone)?)]))
    }

    fn open(&mut self, session: &mut Session<'_>) -> Result<TrackerData> {
        let config = self.config()?;
        let found = Dataset::Own
            .load(&self.sequences, &SequenceOptions::train())
            .with_context(|| format!("the sequences in {}", self.sequences.display()))?;
        say_left_out(&found.quarantine);
        let sequences = parts(found.sequences, self.validation)?;
        let backbone = Arc::new(Backbone::load(&self.backbone, session.device)?);
        Ok(TrackerData { config, backbone, sequences, pairs: Vec::new(), saved: None })
    }

    fn build(&mut self, data: &mut TrackerData, session: &mut Session<'_>) -> Result<Built<Self::Network>> {
        let [sequences, held_out] = std::mem::take(&mut data.sequences);
        let training = self.training(data, session.device, session.group)?;
        let network = training.start(training.pairs(sequences)?)?;
        let pairs = if session.group.is_first() { training.held_out(held_out)? } else { Vec::new() };
        let saved = training.saved(PathBuf::new(), Chosen::default());
        let settings = data.config.with_method(training.method).to_toml()?;
        (data.pairs, data.saved) = (pairs, Some(saved));
        let steps = data.config.training.steps();
        Ok(Built { network, settings, steps })
    }

    fn score(&mut self, data: &mut TrackerData, network: &Self::Network, _: &mut Session<'_>) -> Result<f64> {
        let key = Key::new(self.run.seed).split("validation");
        Ok(network.validation_loss(&data.pairs, key)?)
    }

    fn keep(&mut self, data: &TrackerData, network: &Self::Network) -> Result<()> {
        let mut saved = data.saved.clone().context("a module is kept after it was built")?;
        saved.backbone = self.kept_backbone()?;
        Ok(saved.save(network.store(), &self.run.run)?)
    }

    fn finish(&mut self, data: &mut TrackerData, session: &mut Session<'_>) -> Result<()> {
        let (_, _, module) = SavedConfig::load(&self.run.run, Some(&self.backbone), session.device)?;
        let training = self.training(data, session.device, session.group)?;
        let chosen = training.choose(&module, &data.pairs, session.progress)?;
        Ok(training.saved(self.kept_backbone()?, chosen).replace(&self.run.run)?)
    }
}

/// The sequences to train on, and those to validate on: the last by name.
fn parts(mut sequences: Vec<Sequence>, share: f64) -> Result<[Vec<Sequence>; 2]> {
    let count = (sequences.len() as f64 * share).ceil() as usize;
    ensure!(
        0 < count && count < sequences.len(),
        "--validation {share} of {} sequences leaves {count} to validate on; give a share that leaves some for both",
        sequences.len()
    );
    let held_out = sequences.split_off(sequences.len() - count);
    Ok([sequences, held_out])
}
