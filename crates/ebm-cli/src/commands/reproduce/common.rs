//! Arguments and steps that all reproductions share: the scale, the settings, the folder, the comparison with expected
//! results, the report.

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

/// Data and networks of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scale {
    /// Real data if they are here: nuclei for detection, the paper's for the other tasks. Otherwise, and with --smoke,
    /// mini.
    Auto,
    /// Generated data, minutes on a CPU.
    Mini,
    /// Detection: persons of COCO, one class, on an ImageNet body.
    People,
    /// Detection: nuclei in microscope images, which come with the repository.
    Nuclei,
    /// Age: the last blocks of a pretrained MobileFaceNet, trained with each head; or only the heads, if the settings
    /// say so.
    Finetuned,
    /// Head pose: heads on the fixed features of a pretrained MobileFaceNet, in five folds over the people of
    /// Pointing'04.
    Pointing,
    /// Tracking: box modules trained on still images with boxes.
    Stills,
    /// The paper's data and networks.
    Paper,
}

impl Scale {
    /// Returns the name in configurations and runs.
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
    /// Exit with code 5 if a result differs from the configuration's expected one by more than its tolerance.
    #[arg(long)]
    check: bool,
    /// Folder for runs.
    #[arg(long, default_value = "runs")]
    pub out: PathBuf,
    /// Run a minimum of everything to see that it works; the results mean nothing.
    #[arg(long)]
    pub smoke: bool,
}

/// Arguments of reproductions that train networks on images.
#[derive(Args)]
pub struct TaskArgs {
    #[command(flatten)]
    pub common: CommonArgs,
    /// Data and networks.
    #[arg(long, value_enum, default_value = "auto")]
    pub scale: Scale,
    /// Number of trainings of each method.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: u64,
    /// TOML file with settings instead of the scale's, which it may extend.
    #[arg(long)]
    pub config: Option<String>,
    /// Run of this command that was interrupted: trained networks are kept, and an unfinished training continues.
    #[arg(long)]
    pub resume: Option<PathBuf>,
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Folder of datasets.
    #[arg(long, default_value = "datasets")]
    pub datasets: PathBuf,
    /// Folder of weights; by default the first folder in `ebm doctor`'s list that has the needed file.
    #[arg(long, value_name = "DIR")]
    weights: Option<PathBuf>,
}

impl TaskArgs {
    /// Returns the folder of weights and the file that `known` finds in it. By default that is the first folder with
    /// such a file, or the one that the file belongs into.
    pub fn weights(&self, known: impl Fn(&Path) -> Option<PathBuf>) -> (PathBuf, Option<PathBuf>) {
        let found = || weights_path::folder(|folder| known(folder).is_some());
        let folder = self.weights.clone().or_else(found).unwrap_or_else(|| weights_path::FOLDER.into());
        let file = known(&folder);
        (folder, file)
    }

    /// Returns a text about the folders that were searched for weights, to follow the name of a missing file. It is
    /// empty with --weights.
    pub fn search_hint(&self) -> String {
        let hint =
            || format!(" (weights are looked for in {}, or give --weights)", weights_path::search_hint());
        if self.weights.is_none() { hint() } else { String::new() }
    }
}

/// Description of a reproduction.
pub struct Description<'a> {
    /// Name on the command line, such as `head-pose`.
    pub name: &'static str,
    /// Name of its runs, which the scale follows.
    pub run: &'static str,
    /// Arguments that all reproductions share.
    pub args: &'a TaskArgs,
    /// Scale of `--scale auto` if its data are here.
    pub real: Scale,
    /// Description of the data at mini scale, for messages.
    pub generated: &'static str,
}

/// Reproduction with its arguments.
pub trait Reproduction {
    /// Settings of the reproduction.
    type Config: Settings;

    /// Describes the reproduction.
    fn description(&self) -> Description<'_>;

    /// Returns the missing files for a scale with real data.
    fn missing(&self, scale: Scale) -> Result<Vec<String>>;

    /// Returns the name of a scale's embedded configuration.
    fn configuration(&self, scale: Scale) -> String {
        scale.name()
    }

    /// Changes the settings according to the reproduction's own arguments. Returns the reason if the configuration's
    /// expected results do not apply to them.
    fn change(&self, _config: &mut Self::Config, _scale: Scale) -> Result<Option<&'static str>> {
        Ok(None)
    }

    /// Opens the device on which networks are trained.
    fn device(&self, _scale: Scale) -> Result<Device> {
        self.description().args.device.open_single()
    }

    /// Runs the study.
    fn study(&self, config: &Self::Config, run: &StudyRun<'_>, progress: &mut Console) -> Result<Study>;
}

/// Scale, folder and device of a study.
pub struct StudyRun<'a> {
    /// Scale of the study.
    pub scale: Scale,
    /// Folder of the run.
    pub folder: &'a Path,
    /// Device on which networks are trained.
    pub device: Device,
}

/// Runs a reproduction: checks its data, chooses the scale, runs the study and writes its results.
pub fn run<R: Reproduction>(task: &R, progress: Console) -> Result<()> {
    let Description { name, run, args, real, generated } = task.description();
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
            args.search_hint()
        );
    }
    let device = task.device(scale)?;
    let mut progress = progress.computing_on(&device);
    let run = run_name(&format!("{run}-{}", scale.name()), common.smoke);
    let run = run_dir(resume, &common.out, &run)?;
    let study = task.study(&configured.settings, &StudyRun { scale, folder: &run, device }, &mut progress)?;
    common.finish(name, &scale.name(), &run, study, reference)
}

/// Expected results of a run, or the reason why there are none.
pub type Reference<'a> = Result<&'a Expected, &'static str>;

/// Results of a study.
pub struct Study {
    /// Table or figure of the paper.
    pub title: &'static str,
    /// JSON object with `rows`, one object for each method and seed, and further results.
    pub document: Value,
    /// Tables as text, which `report.md` has below the title.
    pub tables: String,
    /// Text that follows the tables in `report.md`.
    pub appendix: &'static str,
    /// Description of the run's files beside `results.json` and `report.md`, for a message.
    pub files: &'static str,
}

impl CommonArgs {
    /// Returns the configuration's expected results. `other` is the reason why they do not apply to this run, if they
    /// do not.
    ///
    /// # Errors
    /// With --check, if there is nothing to compare with, so that the work does not begin.
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

    /// Writes a study's `results.json` and `report.md` to `run`, prints one of them, and compares the results with the
    /// expected ones.
    ///
    /// # Errors
    /// If a file cannot be written; with --check the [`Comparison`], if results are missed or none were compared.
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
