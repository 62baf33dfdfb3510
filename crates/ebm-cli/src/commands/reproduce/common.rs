//! What reproductions are asked for, and what happens whatever the task: the scale, the settings, the folder, the
//! comparison with what is expected, the report.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use candle_core::Device;
use clap::{Args, ValueEnum};
use ebm_data::files::write_atomic;
use ebm_eval::{Comparison, Expected};
use ebm_experiment::config::{Configured, Settings, check_ranges};
use serde_json::{Value, json};

use crate::commands::settings::SettingsArgs;
use crate::commands::{run_dir, run_name};
use crate::device::DeviceArgs;
use crate::progress::Console;
use crate::{schema, weights_path};

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
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
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
    /// Leave with exit code 5 where a figure lies further from the configuration's expected one than it
    /// tolerates.
    #[arg(long)]
    check: bool,
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
    /// The folder of weights with the file in it that is `known` of a folder: the first folder that has one, or the one that
    /// it belongs into.
    pub fn weights(&self, known: impl Fn(&Path) -> Option<PathBuf>) -> (PathBuf, Option<PathBuf>) {
        let found = || weights_path::folder(|folder| known(folder).is_some());
        let folder = self.weights.clone().or_else(found).unwrap_or_else(|| weights_path::FOLDER.into());
        let file = known(&folder);
        (folder, file)
    }

    /// Where weights were looked for, after what is missing.
    pub fn looked(&self) -> String {
        let looked = || format!(" (weights are looked for in {}, or give --weights)", weights_path::looked());
        if self.weights.is_none() { looked() } else { String::new() }
    }
}

/// What a reproduction says of itself.
pub struct About<'a> {
    /// Its name on the command line, such as `head-pose`.
    pub name: &'static str,
    /// What its runs are called before the scale.
    pub run: &'static str,
    /// What all of them are asked for.
    pub args: &'a TaskArgs,
    /// The scale of `--scale auto` where its data are here.
    pub real: Scale,
    /// What mini scale is made on.
    pub generated: &'static str,
}

/// A reproduction as it was asked for.
pub trait Reproduction {
    /// Its settings.
    type Config: Settings;

    /// What it says of itself.
    fn about(&self) -> About<'_>;

    /// What is missing for a scale of real data.
    fn missing(&self, scale: Scale) -> Result<Vec<String>>;

    /// The embedded configuration of a scale.
    fn configuration(&self, scale: Scale) -> String {
        scale.name()
    }

    /// Changes the settings as its own arguments ask. Returns why the configuration's figures are not of what these ask
    /// for, if they are not.
    fn change(&self, _config: &mut Self::Config, _scale: Scale) -> Result<Option<&'static str>> {
        Ok(None)
    }

    /// Where its networks are trained.
    fn device(&self, _scale: Scale) -> Result<Device> {
        self.about().args.device.open_single()
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
    let About { name, run, args, real, generated } = task.about();
    let (common, resume) = (&args.common, args.resume.as_deref());
    let missing = task.missing(if args.scale == Scale::Auto { real } else { args.scale })?;
    let scale = match args.scale {
        Scale::Auto if common.smoke => Scale::Mini,
        Scale::Auto if missing.is_empty() => real,
        Scale::Auto => {
            eprintln!(
                "Running at mini scale, on {generated}, because {} {} missing; docs/datasets.md and docs/weights.md say how to \
                 get the paper's.",
                missing.join(", "),
                if missing.len() == 1 { "is" } else { "are" }
            );
            Scale::Mini
        }
        given => given,
    };
    let own = task.configuration(scale);
    let mut configured: Configured<R::Config> =
        common.settings.load(args.config.as_deref().unwrap_or(&own), common.smoke)?;
    let other = task.change(&mut configured.settings, scale)?;
    check_ranges("of the command line", &configured.settings)?;
    let reference = common.reference(&configured, other)?;
    if let (false, Some(first)) = (scale == Scale::Mini, missing.first()) {
        bail!(
            "{first} is missing{}; see docs/datasets.md and docs/weights.md, or run --scale mini",
            args.looked()
        );
    }
    let device = task.device(scale)?;
    let mut progress = progress.computing_on(&device);
    let run = run_name(&format!("{run}-{}", scale.name()), common.smoke);
    let run = run_dir(resume, &common.out, &run)?;
    let study = task.study(&configured.settings, &Place { scale, run: &run, device }, &mut progress)?;
    common.finish(name, &scale.name(), &run, study, reference)
}

/// The figures that a run is compared with, or why with none.
pub type Reference<'a> = Result<&'a Expected, &'static str>;

/// A study that has been made.
pub struct Study {
    /// The table or figure of the paper.
    pub title: &'static str,
    /// The document: a JSON object with `rows`, one object for each method and seed, and what else was found.
    pub document: Value,
    /// For people; `report.md` has it below the title.
    pub tables: String,
    /// What follows them in `report.md`.
    pub appendix: &'static str,
    /// What the run has beside `results.json` and `report.md`.
    pub files: &'static str,
}

impl CommonArgs {
    /// The configuration's expected figures; `other` says why they are not of what was asked for, where they are not.
    ///
    /// # Errors
    /// With --check, where there is nothing to compare: before the work begins.
    pub fn reference<'a, S>(
        &self,
        configured: &'a Configured<S>,
        other: Option<&'static str>,
    ) -> Result<Reference<'a>> {
        let expected = match self.smoke {
            true => Err("the results of --smoke mean nothing"),
            false => self.settings.reference(configured),
        };
        match expected.and_then(|expected| other.map_or(Ok(expected), Err)) {
            Err(reason) if self.check => bail!("--check has nothing to compare: {reason}; leave it out"),
            reference => Ok(reference),
        }
    }

    /// Writes a study's `results.json` and `report.md` to `run`, prints one of them, and says how the figures
    /// compare with the expected ones.
    ///
    /// # Errors
    /// When a file cannot be written; with --check the [`Comparison`], where figures are missed or none were compared.
    pub fn finish(
        &self,
        task: &str,
        scale: &str,
        run: &Path,
        Study { title, mut document, tables, appendix, files }: Study,
        reference: Reference<'_>,
    ) -> Result<()> {
        let comparison = match reference {
            Ok(expected) => expected.compare(document["rows"].as_array().map_or(&[], Vec::as_slice)),
            Err(reason) => Comparison::none(reason),
        };
        document["study"] = json!(title);
        document["scale"] = json!(scale);
        document["expected"] = json!(comparison);
        let object = schema::document(&format!("reproduce {task}"), document);
        write_atomic(&run.join("results.json"), &serde_json::to_vec_pretty(&object)?)?;
        let report = format!("# {title}, {scale} scale\n\n{tables}\n{appendix}\n{comparison}\n");
        write_atomic(&run.join("report.md"), report.as_bytes())?;
        if self.json {
            println!("{object}");
        } else {
            println!("{tables}");
        }
        eprintln!("{files}, results.json and report.md are in {}", run.display());
        if self.check && (comparison.missed > 0 || comparison.compared == 0) {
            return Err(comparison.into());
        }
        eprintln!("{comparison}");
        Ok(())
    }
}
