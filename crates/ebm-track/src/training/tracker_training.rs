//! Training of a box module on a user's own sequences.

use std::path::PathBuf;
use std::sync::Arc;

use candle_core::Device;
use ebm_base::Key;
use ebm_data::loader::LoaderConfig;
use ebm_data::sequences::pairs::PairRecipe;
use ebm_data::sequences::sampler::Source;
use ebm_data::sequences::{Dataset, Sequence, SequenceOptions, digest};
use ebm_experiment::{Built, Inputs, Measure, Opened, Session, Training};
use ebm_train::model_file::file_digest;
use ebm_train::{GradientTask, Group, ModelFile, keep_base};

use super::{BoxModuleTask, ModuleTraining, PairFeatures, PairSource, StreamPairs};
use crate::backbone::Backbone;
use crate::config::{ExperimentConfig, Settings};
use crate::reproduce::{best_step_factor, data};
use crate::saved::{BACKBONE, SavedConfig};
use crate::{Error, Result};

/// Number of batches of pairs to validate on.
const VALIDATION_BATCHES: usize = 8;

/// The training of a box module on a user's own sequences, for [`ebm_experiment::train`].
#[derive(Clone, Debug)]
pub struct TrackerTraining {
    /// Settings.
    pub config: ExperimentConfig,
    /// Key of the method in the settings.
    pub method: String,
    /// Folder of the sequences in OTB's layout: one folder each, with `img/` and `groundtruth_rect.txt`.
    pub sequences: PathBuf,
    /// Fraction of the sequences, the last by name, that is held out for validation.
    pub validation: f64,
    /// Path of the weight file of the frozen backbone.
    pub backbone: PathBuf,
    /// Seed of the initial values, the pairs and the samples.
    pub seed: u64,
    /// Folder of the run.
    pub run: PathBuf,
}

/// Frozen backbone, and data to train and to validate on.
pub struct TrackerData {
    backbone: Arc<Backbone>,
    /// Sequences to train on and to validate on, until their pairs are built.
    sequences: [Vec<Sequence>; 2],
    pairs: Vec<PairFeatures>,
}

impl TrackerTraining {
    fn module<'a>(
        &'a self,
        backbone: &'a Arc<Backbone>,
        device: &'a Device,
        group: &'a Group,
    ) -> Result<ModuleTraining<'a>> {
        let (config, seed) = (&self.config, self.seed);
        Ok(ModuleTraining { config, method: config.method(&self.method)?, seed, backbone, device, group })
    }

    /// Returns the settings to save with the module, and keeps a copy of the backbone in the run.
    fn saved(&self, backbone: &Arc<Backbone>, step_factor: f64) -> Result<SavedConfig> {
        let kept = keep_base(&self.backbone, &self.run, BACKBONE)?;
        Ok(self.module(backbone, &Device::Cpu, &Group::alone())?.saved(kept, step_factor))
    }

    /// Returns batches of pairs of frames of `sequences`, or this process's share of them in the group of `module`.
    fn pairs(
        &self,
        recipe: PairRecipe,
        sequences: Vec<Sequence>,
        key: Key,
        module: &ModuleTraining<'_>,
    ) -> Result<StreamPairs> {
        let (training, ModuleTraining { backbone, device, group, .. }) = (&self.config.training, module);
        let (batch_size, source) = (training.batch_size, Source { sequences, weight: 1.0 });
        let sampler =
            data::pair_sampler(&self.config, training.pairs_per_epoch.max(batch_size), vec![source])?;
        let mut loader = LoaderConfig::in_order(recipe, batch_size);
        if group.world() > 1 {
            loader = loader.part(group.share_of(batch_size)?);
        }
        StreamPairs::new(&sampler, loader, key, backbone, device)
    }
}

impl Training for TrackerTraining {
    type Error = Error;
    type Data = TrackerData;
    type Network = BoxModuleTask;

    const MEASURE: Measure = Measure::LOSS;
    const LENGTH: &'static [&'static str] = &["epochs", "milestones", "decay_epochs"];

    fn settings(&self, _: Option<&TrackerData>) -> Result<Option<String>> {
        Ok(Some(self.config.to_toml()?))
    }

    fn open(&mut self, session: &mut Session<'_>) -> Result<Opened<TrackerData>> {
        let found = Dataset::Own.load(&self.sequences, &SequenceOptions::train())?;
        for defect in &found.quarantine.defects {
            session.progress.message(&format!("left out: {defect}"));
        }
        let sequences = split(found.sequences, self.validation)?;
        let backbone = Arc::new(Backbone::load(&self.backbone, session.device)?);
        let weights = file_digest(&self.backbone)?;
        let inputs = Inputs::from([("data_sha256", digest(&sequences[0])), ("weights_sha256", weights)]);
        let data = TrackerData { backbone, sequences, pairs: Vec::new() };
        Ok(Opened { data, inputs, is_judged: true })
    }

    fn build(&mut self, data: &mut TrackerData, session: &mut Session<'_>) -> Result<Built<Self::Network>> {
        let [sequences, held_out] = std::mem::take(&mut data.sequences);
        let module = self.module(&data.backbone, session.device, session.group)?;
        let pairs = self.pairs(PairRecipe::ATOM, sequences, data::pairs_key(self.seed), &module)?;
        let network = module.start(Box::new(pairs))?;
        if session.group.is_first() {
            let (key, alone) = (Key::new(0).split("validation"), Group::alone());
            let module = ModuleTraining { group: &alone, ..module };
            let mut pairs = self.pairs(PairRecipe::ATOM_VALIDATION, held_out, key, &module)?;
            data.pairs = (0..VALIDATION_BATCHES).map(|step| pairs.batch(step)).collect::<Result<_>>()?;
        }
        let settings = self.settings(None)?.unwrap_or_default();
        Ok(Built { network, settings, steps: self.config.training.steps() })
    }

    fn score(&mut self, data: &mut TrackerData, network: &Self::Network, _: &mut Session<'_>) -> Result<f64> {
        network.validation_loss(&data.pairs, Key::new(self.seed).split("validation"))
    }

    fn keep(&mut self, data: &TrackerData, network: &Self::Network) -> Result<()> {
        self.saved(&data.backbone, 1.0)?.save(&network.store().tensors()?, &self.run)
    }

    fn finish(&mut self, data: &mut TrackerData, session: &mut Session<'_>) -> Result<()> {
        let (_, _, module) = SavedConfig::load(&self.run, Some(&self.backbone), session.device)?;
        let (config, method) = (&self.config, self.config.method(&self.method)?);
        let factor = best_step_factor(config, method, &module, &data.pairs, session.progress)?;
        self.saved(&data.backbone, factor)?.save(&ModelFile::open(&self.run)?.tensors, &self.run)
    }
}

/// Splits off a fraction `share` of the sequences, the last by name, to validate on.
fn split(mut sequences: Vec<Sequence>, share: f64) -> Result<[Vec<Sequence>; 2]> {
    let count = (sequences.len() as f64 * share).ceil() as usize;
    if count == 0 || count >= sequences.len() {
        let all = sequences.len();
        let reason = format!(
            "{share} of {all} sequences leaves {count} to validate on; give a share that leaves some for both"
        );
        return Err(Error::config("of the validation", reason));
    }
    let held_out = sequences.split_off(sequences.len() - count);
    Ok([sequences, held_out])
}
