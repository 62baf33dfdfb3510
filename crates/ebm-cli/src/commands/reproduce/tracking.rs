//! `ebm reproduce tracking`: Table 3, Figure 3b and the supplement's ablation.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use candle_core::Device;
use clap::{Args, ValueEnum};
use ebm_data::sequences::{SequenceOptions, otb};
use ebm_eval::tracking::Convention;
use ebm_experiment::config::Configured;
use ebm_synth::videos::VideoConfig;
use ebm_track::config::{ExperimentConfig, GeneratedConfig};
use ebm_track::reproduce::{
    BackboneSource, Comparison, MiniOptions, PaperOptions, Study, Test, dry_run, find_backbone, mini,
    missing, paper,
};
use serde_json::json;

use super::outcome::{self, CheckArgs, DRY_RUN, Reference, SMOKE, print_plan};
use super::tracking_figures::figures;
use super::tracking_tables::tables;
use crate::commands::settings::SettingsArgs;
use crate::commands::{fresh_run, run_dir, run_name, say_left_out};
use crate::device::DeviceArgs;
use crate::progress::Console;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scale {
    /// Paper where all datasets and the backbone are there, otherwise mini.
    Auto,
    /// Generated videos.
    Mini,
    /// LaSOT, GOT-10k, TrackingNet, COCO; UAV123.
    Paper,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Ablation {
    /// Standard deviations of Eq. 5, as in the supplement.
    Sigma,
}
const COMMAND: &str = "reproduce tracking";

/// Arguments of `ebm reproduce tracking`.
#[derive(Args)]
pub struct TrackingArgs {
    /// How large.
    #[arg(long, value_enum, default_value = "auto")]
    scale: Scale,
    /// The supplement's ablation instead of Table 3.
    #[arg(long, value_enum, conflicts_with = "dry_run")]
    ablation: Option<Ablation>,
    /// Another tracker's row: its name and a folder with its boxes, of each run a folder or none. May be given several times.
    #[arg(long, value_name = "NAME=DIR", value_parser = parse_results)]
    results: Vec<(String, PathBuf)>,
    /// Runs of each tracker on each sequence, instead of those of the settings.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    repetitions: Option<u64>,
    /// Trainings of each method, each with pairs and a tracker of its own.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Print one JSON object instead of the table.
    #[arg(long)]
    json: bool,
    /// Settings instead of the scale's, a TOML file, which may extend them.
    #[arg(long)]
    config: Option<String>,
    /// Mini: train a small backbone even where ImageNet's ResNet-18 is there.
    #[arg(long)]
    small_backbone: bool,
    /// Mini: a folder of sequences laid out like OTB to measure on as well.
    #[arg(long)]
    sequences: Option<PathBuf>,
    /// Paper: only the sizes, and two steps of each method.
    #[arg(long)]
    dry_run: bool,
    /// A run of this command that was interrupted: its trained modules and its trackers' boxes are kept, the rest goes on.
    #[arg(long)]
    resume: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    check: CheckArgs,
    #[command(flatten)]
    device: DeviceArgs,
    /// Where runs go.
    #[arg(long, default_value = "runs")]
    out: PathBuf,
    /// Where datasets are.
    #[arg(long, default_value = "datasets")]
    datasets: PathBuf,
    /// Where weights are.
    #[arg(long, default_value = "weights")]
    weights: PathBuf,
    /// Where generated videos go; by default below the datasets.
    #[arg(long)]
    generated: Option<PathBuf>,
    /// Mini: few videos and steps, to see that everything works; the results mean nothing.
    #[arg(long)]
    smoke: bool,
}

impl TrackingArgs {
    /// The settings' expected figures, where they are of what these arguments ask for.
    fn reference<'a>(
        &self,
        configured: &'a Configured<ExperimentConfig>,
        scale: Scale,
    ) -> Result<Reference<'a>> {
        let small = || Ok::<_, anyhow::Error>(self.small_backbone || find_backbone(&self.weights)?.is_none());
        Ok(match () {
            () if self.smoke => Err(SMOKE),
            () if self.dry_run => Err(DRY_RUN),
            () if self.ablation.is_some() => Err("the settings state what to expect of Table 3 alone"),
            () if scale != Scale::Paper && self.config.is_none() && small()? => {
                Err("the configuration's figures are of ImageNet's ResNet-18; see weights/README.md")
            }
            () => self.settings.reference(configured),
        })
    }
}

fn parse_results(text: &str) -> Result<(String, PathBuf), String> {
    let (name, folder) = text
        .split_once('=')
        .filter(|(name, folder)| !name.is_empty() && !folder.is_empty())
        .ok_or_else(|| format!("{text:?} is no NAME=DIR; write for instance SiamFC=results/siamfc"))?;
    Ok((name.to_owned(), PathBuf::from(folder)))
}

/// Runs the command.
pub fn run(args: &TrackingArgs, mut progress: Console) -> Result<()> {
    for (name, folder) in &args.results {
        ensure!(folder.is_dir(), "--results {name}={}: there is no such folder", folder.display());
    }
    let options = PaperOptions {
        results: args.results.clone(),
        study: args.study(),
        datasets: args.datasets.clone(),
        weights: args.weights.clone(),
        seeds: args.seeds,
        run: PathBuf::new(),
        resume: args.resume.is_some(),
        device: args.device.open_single()?,
    };
    progress = progress.computing_on(&options.device);
    let absent = missing(&options)?;
    let scale = match args.scale {
        Scale::Auto if absent.is_empty() || args.dry_run => Scale::Paper,
        Scale::Auto => {
            explain_mini(&absent);
            Scale::Mini
        }
        given => given,
    };
    let configured = settings(args, scale)?;
    let config = &configured.settings;
    let reference = args.reference(&configured, scale)?;
    args.check.refuse_without(&reference)?;
    if scale == Scale::Paper && args.dry_run {
        let run = fresh_run(&args.out, &run_name("tracking-dry", args.smoke))?;
        let plan = dry_run(config, &PaperOptions { run, ..options }, &mut progress)?;
        let losses = plan.losses.iter().map(|(m, losses)| (m.key(), m.title(), losses.as_slice()));
        return print_plan(COMMAND, &plan.lines, losses, args.json);
    }
    let (name, run, outcome) = match scale {
        Scale::Paper => {
            if let Some(first) = absent.first() {
                bail!(
                    "{} is missing; see datasets/README.md and weights/README.md, or run --scale mini or --dry-run",
                    first.display()
                );
            }
            let run = run_dir(args.resume.as_deref(), &args.out, &args.run_name("paper"))?;
            let outcome = paper(config, &PaperOptions { run: run.clone(), ..options }, &mut progress)?;
            ("paper", run, outcome)
        }
        _ => {
            let run = run_dir(args.resume.as_deref(), &args.out, &args.run_name("mini"))?;
            let outcome = run_mini(args, config, (&run, options.device), &mut progress)?;
            ("mini", run, outcome)
        }
    };
    finish(args, name, &run, &outcome, &reference)
}

impl TrackingArgs {
    fn study(&self) -> Study {
        match self.ablation {
            Some(Ablation::Sigma) => Study::Sigma,
            None => Study::Methods,
        }
    }

    fn run_name(&self, scale: &str) -> String {
        let study = match self.ablation {
            Some(Ablation::Sigma) => "tracking-sigma",
            None => "tracking",
        };
        run_name(&format!("{study}-{scale}"), self.smoke)
    }
}

fn settings(args: &TrackingArgs, scale: Scale) -> Result<Configured<ExperimentConfig>> {
    let own = if scale == Scale::Paper { "paper" } else { "mini" };
    let mut configured: Configured<ExperimentConfig> =
        args.settings.load(args.config.as_deref().unwrap_or(own))?;
    let config = &mut configured.settings;
    if let Some(repetitions) = args.repetitions {
        config.repetitions = repetitions as usize;
    }
    if args.smoke {
        config.training.pairs_per_epoch = 2 * config.training.batch_size;
        config.training.epochs = 1;
        config.small_backbone.steps = 2;
        config.pairs.kept_batches = 2;
        config.generated = Some(GeneratedConfig { train: 2, validation: 1, test: 1 });
        config.step_factors.truncate(1);
    }
    Ok(configured)
}

fn run_mini(
    args: &TrackingArgs,
    config: &ExperimentConfig,
    (run, device): (&Path, Device),
    progress: &mut Console,
) -> Result<Comparison> {
    let found = if args.small_backbone { None } else { find_backbone(&args.weights)? };
    let backbone = match found {
        Some(path) => BackboneSource::File(path),
        None => BackboneSource::Trained(run.join("backbone.safetensors")),
    };
    let real = match &args.sequences {
        Some(root) => {
            let found = otb::load(root, &SequenceOptions::benchmark())
                .with_context(|| format!("the sequences in {}", root.display()))?;
            say_left_out(&found.quarantine);
            let (name, convention) = ("real".to_owned(), Convention::pytracking());
            vec![Test { name, sequences: found.sequences, convention }]
        }
        None => Vec::new(),
    };
    let frames = if args.smoke { 24 } else { VideoConfig::default().frames };
    let folder = if args.smoke { "generated/videos-smoke" } else { "generated/videos" };
    let options = MiniOptions {
        seeds: args.seeds,
        backbone,
        data: args.generated.clone().unwrap_or_else(|| args.datasets.join(folder)),
        video: VideoConfig { frames, ..VideoConfig::default() },
        coco: args.datasets.join("coco"),
        real,
        results: args.results.clone(),
        study: args.study(),
        run: run.to_owned(),
        resume: args.resume.is_some(),
        device,
    };
    Ok(mini(config, &options, progress)?)
}

/// Writes the report and the figures, and prints the table.
fn finish(
    args: &TrackingArgs,
    scale: &str,
    run: &Path,
    found: &Comparison,
    reference: &Reference<'_>,
) -> Result<()> {
    for failed in &found.failed {
        eprintln!("not counted: {}: {}", failed.name, failed.reason);
    }
    figures(run, found)?;
    let (title, appendix) = match args.study() {
        Study::Methods => ("Table 3", "\n![success](success.png)\n"),
        Study::Sigma => ("The proposal's standard deviations", ""),
    };
    let study = outcome::Study {
        command: COMMAND,
        title,
        scale,
        run,
        rows: serde_json::to_value(&found.rows)?,
        more: json!({ "rivals": found.rivals, "curves": found.curves, "failed": found.failed }),
        tables: &tables(args.study(), found, scale == "paper")?,
        appendix,
        files: "trained modules, figures",
    };
    study.finish(reference, args.check, args.json)
}

fn explain_mini(missing: &[PathBuf]) {
    let list: Vec<String> = missing.iter().map(|path| path.display().to_string()).collect();
    eprintln!(
        "Running at mini scale, on generated videos, because these are missing: {}; datasets/README.md and \
         weights/README.md say how to get the paper's data.",
        list.join(", ")
    );
}
