//! `ebm train tracker`: a box module on one's own sequences.

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
    /// The training that was asked for.
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
