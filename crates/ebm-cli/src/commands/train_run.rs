//! What the trainings of all tasks are asked for, and how they run.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use candle_core::Device;
use clap::Args;
use ebm_distributed::Group;
use ebm_experiment::config::Settings;
use ebm_experiment::{Validation, train_validated};
use ebm_train::{Progress as _, RunSpec, TrainTask};

use super::create_dir;
use super::settings::SettingsArgs;
use super::training_curve::training_curve;
use crate::device::DeviceArgs;
use crate::parallel::EngineArgs;
use crate::progress::Console;

/// What says how long a training is: a run that is over goes on with others of these.
const LENGTH: [&str; 3] = ["epochs", "milestones", "decay_epochs"];

/// The run of a training, of any task.
#[derive(Args)]
pub struct RunArgs {
    /// Seed.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Directory of the run; must not hold one yet, unless it is resumed.
    #[arg(long)]
    pub run: PathBuf,
    /// Go on where the run stopped, whatever stopped it; on the CPU the result has the same bytes as without the stop. A run that is
    /// over goes on too, where it is made longer.
    #[arg(long)]
    pub resume: bool,
    /// Steps between checkpoints.
    #[arg(long, default_value_t = RunSpec::CHECKPOINT_EVERY)]
    checkpoint_every: usize,
    #[command(flatten)]
    pub device: DeviceArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

impl RunArgs {
    /// How several processes meet, and on which devices.
    pub fn engine(&self) -> (EngineArgs, DeviceArgs) {
        (self.engine, self.device)
    }

    /// The run of a training with this configuration, of which a run that is over may change the settings in `changeable`.
    pub fn spec<'a>(
        &'a self,
        config: &'a str,
        steps: usize,
        changeable: &'a [&'a str],
    ) -> Result<RunSpec<'a>> {
        let root = self.run.parent().unwrap_or(Path::new("."));
        let name = self.run.file_name().and_then(|name| name.to_str());
        let name = name.context("--run needs a directory's name")?;
        let (resume, checkpoint_every) = (self.resume, self.checkpoint_every);
        let new = RunSpec::new((root, name), config, steps, self.seed);
        Ok(RunSpec { resume, checkpoint_every, changeable, ..new })
    }
}

/// Settings and validations of a training, beside its run.
#[derive(Args)]
pub struct TrainingArgs {
    /// Settings instead of the paper's: an embedded configuration, or a TOML file, which may extend one.
    #[arg(long)]
    config: Option<String>,
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    run: RunArgs,
    /// Steps between validations, after which the best network is kept; 0: at the end alone.
    #[arg(long, default_value_t = 500)]
    validate_every: usize,
}

/// This process in its training.
pub struct Session<'a> {
    /// All processes.
    pub group: &'a Group,
    /// Where this one computes.
    pub device: Device,
    /// What is shown.
    pub progress: Console,
}

impl Session<'_> {
    /// Tells the user something, once however many processes there are.
    pub fn say(&mut self, text: &str) {
        self.progress.message(text);
    }
}

impl TrainingArgs {
    /// How several processes meet, and on which devices.
    pub fn engine(&self) -> (EngineArgs, DeviceArgs) {
        self.run.engine()
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.run.seed
    }

    /// The run's folder.
    pub fn run(&self) -> &Path {
        &self.run.run
    }

    /// The settings, the embedded ones of the name `own` unless others are given.
    pub fn settings<S: Settings>(&self, own: &str) -> Result<S> {
        Ok(self.settings.load(self.config.as_deref().unwrap_or(own), false)?.settings)
    }

    /// Trains `task` for `steps` and keeps the network that `validation` likes best.
    pub fn train<T: TrainTask>(
        &self,
        config: &str,
        steps: usize,
        task: &mut T,
        validation: &mut impl Validation<T>,
        Session { group, progress, .. }: &mut Session<'_>,
    ) -> Result<()> {
        let spec = self.run.spec(config, steps, &LENGTH)?;
        if group.is_first() {
            create_dir(spec.root)?;
        }
        let best = train_validated(&spec, self.validate_every, task, validation, progress, group)?;
        if let Some(best) = best {
            training_curve(&self.run.run)?;
            progress.message(&format!("kept: step {}, {:.4} on the validation data", best.step, best.loss));
        }
        Ok(())
    }
}
