//! `ebm train tracker`: a box module trained on the user's sequences.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use ebm_track::config::ExperimentConfig;
use ebm_track::training::TrackerTraining;

use super::run::RunArgs;

/// Arguments of `ebm train tracker`.
#[derive(Args)]
pub struct TrackerArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Folder of sequences laid out like OTB: a folder for each, with img/ and groundtruth_rect.txt.
    #[arg(long)]
    sequences: PathBuf,
    /// Weights of the backbone, a ResNet-18 with torchvision's names. It is frozen.
    #[arg(long)]
    backbone: PathBuf,
    /// Method, by its key in the settings: ebm, atom or atom_star.
    #[arg(long, default_value = ExperimentConfig::ENERGY)]
    method: String,
    /// Fraction of the sequences that is held out for validation.
    #[arg(long, default_value_t = 0.1)]
    validation: f64,
}

impl TrackerArgs {
    /// Returns the training that the arguments describe.
    pub fn training(&self) -> Result<TrackerTraining> {
        Ok(TrackerTraining {
            config: self.run.settings("mini")?,
            method: self.method.clone(),
            sequences: self.sequences.clone(),
            validation: self.validation,
            backbone: self.backbone.clone(),
            seed: self.run.seed,
            run: self.run.run.clone(),
        })
    }
}
