//! What every reproduction is asked for, and what happens whatever the task: the scale, the settings, the
//! folder, the results.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use candle_core::Device;
use clap::{Args, ValueEnum};
use ebm_experiment::config::{Configured, Settings, check_ranges};

use super::outcome::{CheckArgs, Reference, SMOKE, Study};
use crate::commands::settings::SettingsArgs;
use crate::commands::{run_dir, run_name};
use crate::device::DeviceArgs;
use crate::progress::Console;
use crate::weights_path;

/// How large an experiment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scale {
    /// Real data where they are here: nuclei for detection, the paper's for the other tasks. Else, and with --smoke,
    /// mini.
    Auto,
    /// Generated data, minutes on a CPU.
    Mini,
    /// Detection: persons of COCO, one class, on an ImageNet body.
    People,
    /// Detection: nuclei in microscope images, which come with the repository.
    Nuclei,
    /// Age: the last blocks of a pretrained MobileFaceNet, trained with each head; or, where the settings say so, heads
    /// alone.
    Finetuned,
    /// Head pose: heads on the fixed features of a pretrained MobileFaceNet, in five folds over the people of
    /// Pointing'04.
    Pointing,
    /// Tracking: box modules learn from still images with boxes.
    Stills,
    /// The paper's data and networks.
    Paper,
}

impl Scale {
    /// Its name in configurations and runs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto | Self::Mini => "mini",
            Self::People => "people",
            Self::Nuclei => "nuclei",
            Self::Finetuned => "finetuned",
            Self::Pointing => "pointing",
            Self::Stills => "stills",
            Self::Paper => "paper",
        }
    }
}

/// Arguments of every reproduction.
#[derive(Args)]
pub struct CommonArgs {
    /// Print one JSON object instead of the tables.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub settings: SettingsArgs,
    #[command(flatten)]
    pub check: CheckArgs,
    /// Where runs go.
    #[arg(long, default_value = "runs")]
    pub out: PathBuf,
    /// Little of everything, to see that it works; the results mean nothing.
    #[arg(long)]
    pub smoke: bool,
}

/// Arguments of those that train networks on images.
#[derive(Args)]
pub struct TaskArgs {
    #[command(flatten)]
    pub common: CommonArgs,
    /// How large.
    #[arg(long, value_enum, default_value = "auto")]
    pub scale: Scale,
    /// Trainings of each method.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: u64,
    /// Settings instead of the scale's, a TOML file, which may extend them.
    #[arg(long)]
    pub config: Option<String>,
    /// A run of this command that was interrupted: what it trained is kept, what it was training goes on.
    #[arg(long)]
    pub resume: Option<PathBuf>,
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Where datasets are.
    #[arg(long, default_value = "datasets")]
    pub datasets: PathBuf,
    /// Where weights are; without it the first of the folders that `ebm doctor` lists which has what is needed.
    #[arg(long, value_name = "DIR")]
    weights: Option<PathBuf>,
}

impl TaskArgs {
    /// The folder of weights: the first that `has` what is needed, or the one that it belongs into.
    pub fn weights(&self, has: impl Fn(&Path) -> bool) -> PathBuf {
        let found = || weights_path::folder(has).unwrap_or_else(|| weights_path::FOLDER.into());
        self.weights.clone().unwrap_or_else(found)
    }

    /// Where weights were looked for, after what is missing.
    pub fn looked(&self) -> String {
        let looked = || format!(" (weights are looked for in {}, or give --weights)", weights_path::looked());
        if self.weights.is_none() { looked() } else { String::new() }
    }
}

/// A reproduction as it was asked for.
pub trait Reproduction {
    /// Its settings.
    type Config: Settings;

    /// Its name on the command line and in the names of runs, such as `head-pose`.
    fn task(&self) -> &'static str;

    /// What all of them are asked for.
    fn args(&self) -> &TaskArgs;

    /// The scale of `--scale auto`.
    fn real(&self) -> Scale {
        Scale::Paper
    }

    /// What mini scale is made on.
    fn generated(&self) -> &'static str;

    /// What is missing for a scale of real data.
    fn missing(&self, scale: Scale) -> Result<Vec<String>>;

    /// The embedded configuration of a scale.
    fn configuration(&self, scale: Scale) -> String {
        scale.name().to_owned()
    }

    /// Changes the settings as its own arguments ask.
    fn change(&self, _config: &mut Self::Config) -> Result<()> {
        Ok(())
    }

    /// Why the configuration's figures are not of what its own arguments ask for, if they are not.
    fn is_other(&self, scale: Scale) -> Result<Option<&'static str>>;

    /// The name of its runs at a scale.
    fn run_name(&self, scale: Scale) -> String {
        format!("{}-{}", self.task(), scale.name())
    }

    /// Where its networks are trained.
    fn device(&self, _scale: Scale) -> Result<Device> {
        self.args().device.open_single()
    }

    /// Makes the study that was asked for.
    fn study(&self, config: &Self::Config, at: &Place<'_>, progress: &mut Console) -> Result<Study>;
}

/// Where a study is made.
pub struct Place<'a> {
    /// At which scale.
    pub scale: Scale,
    /// The run's folder.
    pub run: &'a Path,
    /// Where networks are trained.
    pub device: Device,
}

/// Runs a reproduction.
pub fn run<R: Reproduction>(task: &R, progress: Console) -> Result<()> {
    let args = task.args();
    let missing = task.missing(if args.scale == Scale::Auto { task.real() } else { args.scale })?;
    let scale = match args.scale {
        Scale::Auto if args.common.smoke => Scale::Mini,
        Scale::Auto if missing.is_empty() => task.real(),
        Scale::Auto => {
            eprintln!(
                "Running at mini scale, on {}, because {} {} missing; docs/datasets.md and docs/weights.md say how to get the \
                 paper's.",
                task.generated(),
                missing.join(", "),
                if missing.len() == 1 { "is" } else { "are" }
            );
            Scale::Mini
        }
        given => given,
    };
    let common = &args.common;
    let own = task.configuration(scale);
    let mut configured: Configured<R::Config> =
        common.settings.load(args.config.as_deref().unwrap_or(&own), common.smoke)?;
    task.change(&mut configured.settings)?;
    check_ranges("of the command line", &configured.settings)?;
    let reference = match task.is_other(scale)? {
        None => common.reference(&configured),
        Some(reason) => common.reference(&configured).and(Err(reason)),
    };
    common.check.refuse_without(&reference)?;
    if let (false, Some(first)) = (scale == Scale::Mini, missing.first()) {
        bail!(
            "{first} is missing{}; see docs/datasets.md and docs/weights.md, or run --scale mini",
            args.looked()
        );
    }
    let device = task.device(scale)?;
    let mut progress = progress.computing_on(&device);
    let command = format!("reproduce {}", task.task());
    let run = run_dir(args.resume.as_deref(), &common.out, &run_name(&task.run_name(scale), common.smoke))?;
    let study = task.study(&configured.settings, &Place { scale, run: &run, device }, &mut progress)?;
    common.finish(&command, scale.name(), &run, study, &reference)
}

impl CommonArgs {
    /// The configuration's expected figures, where they are of what was asked for.
    pub fn reference<'a, S>(&self, configured: &'a Configured<S>) -> Reference<'a> {
        if self.smoke { Err(SMOKE) } else { self.settings.reference(configured) }
    }
}
