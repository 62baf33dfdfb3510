//! Arguments that the trainings of all tasks share.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use ebm_experiment::Run;
use ebm_experiment::config::Settings;
use ebm_train::RunSpec;

use super::watch::WatchArgs;
use crate::commands::settings::SettingsArgs;
use crate::device::DeviceArgs;
use crate::parallel::EngineArgs;

/// Settings, folder and devices of a training.
#[derive(Args, Clone)]
pub struct RunArgs {
    /// Settings instead of the task's own: an embedded configuration, or a TOML file, which may extend one.
    #[arg(long)]
    pub config: Option<String>,
    #[command(flatten)]
    pub settings: SettingsArgs,
    /// Seed.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Folder of the run; must not hold a run, except with --resume.
    #[arg(long)]
    pub run: PathBuf,
    /// Continue where the run stopped. On the CPU the result has the same bytes as without the stop. A finished run
    /// continues too if it is made longer.
    #[arg(long)]
    pub resume: bool,
    /// Number of steps between checkpoints.
    #[arg(long, default_value_t = RunSpec::CHECKPOINT_EVERY)]
    checkpoint_every: usize,
    /// Number of steps between validations, which keep the best network; 0 validates only at the end.
    #[arg(long, default_value_t = 500)]
    validate_every: usize,
    #[command(flatten)]
    pub device: DeviceArgs,
    #[command(flatten)]
    pub engine: EngineArgs,
    #[command(flatten)]
    pub watch: WatchArgs,
}

impl RunArgs {
    /// Loads the given settings, or by default the embedded ones named `own`.
    pub fn settings<S: Settings>(&self, own: &str) -> Result<S> {
        Ok(self.settings.load(self.config.as_deref().unwrap_or(own), false)?.settings)
    }

    /// Returns the run in which the training keeps its files.
    pub fn place(&self) -> Result<Run<'_>> {
        let root = self.run.parent().unwrap_or(Path::new("."));
        let name = self.run.file_name().and_then(|name| name.to_str());
        let name = name.context("--run needs a directory's name")?;
        let spec = RunSpec::new(root, name, "", 0, self.seed);
        let spec = RunSpec { resume: self.resume, checkpoint_every: self.checkpoint_every, ..spec };
        Ok(Run { spec, validate_every: self.validate_every })
    }
}
