//! `ebm reproduce age` and `ebm reproduce head-pose`: Tables 4 and 5.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use ebm_experiment::config::Configured;
use ebm_face::config::ExperimentConfig;
use ebm_face::reproduce::{Data, Options, Outcome, Task, dry_run, frozen, mini, paper};
use serde_json::json;

use super::face_figures::figures;
use super::face_tables as tables;
use super::outcome::{CheckArgs, DRY_RUN, Reference, SMOKE, Study, print_plan};
use crate::commands::settings::SettingsArgs;
use crate::commands::{run_dir, run_name};
use crate::device::DeviceArgs;
use crate::progress::Console;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scale {
    /// Frozen where the dataset and a pretrained ResNet-50 are there, otherwise mini.
    Auto,
    /// Generated faces, minutes on a CPU.
    Mini,
    /// Heads on the fixed features of a pretrained ResNet-50, computed once.
    Frozen,
    /// Every row end to end, as in the paper.
    Paper,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Ablation {
    /// The σ of the proposal: an energy model for each pair in the paper's supplement, with seed 0.
    Sigma,
}

/// Arguments of `ebm reproduce age` and `ebm reproduce head-pose`.
#[derive(Args)]
pub struct FaceArgs {
    /// How large.
    #[arg(long, value_enum, default_value = "auto")]
    scale: Scale,
    /// Seeds of each head.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// A run of this command that was interrupted: what it trained is kept, what it was training goes on.
    #[arg(long)]
    resume: Option<PathBuf>,
    /// Print one JSON object instead of the table.
    #[arg(long)]
    json: bool,
    /// Settings instead of the scale's, a TOML file, which may extend them.
    #[arg(long)]
    config: Option<String>,
    /// A study of the supplement to make as well.
    #[arg(long, value_enum)]
    ablation: Option<Ablation>,
    /// Paper: only the plan, the sizes and two steps of each network.
    #[arg(long)]
    dry_run: bool,
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
    /// The trunk's weights, of the kind that the settings name; by default a known ResNet-50 in --weights.
    #[arg(long)]
    trunk: Option<PathBuf>,
    /// Where features of images are kept.
    #[arg(long, default_value = "runs/features")]
    cache: PathBuf,
    /// Mini: smaller splits and fewer updates, to see that everything works; the results mean nothing.
    #[arg(long)]
    smoke: bool,
}

impl FaceArgs {
    /// The settings' expected figures.
    fn reference<'a>(&self, configured: &'a Configured<ExperimentConfig>) -> Reference<'a> {
        match () {
            () if self.smoke => Err(SMOKE),
            () if self.dry_run => Err(DRY_RUN),
            () => self.settings.reference(configured),
        }
    }
}

fn command(task: Task) -> &'static str {
    match task {
        Task::Age => "reproduce age",
        Task::HeadPose => "reproduce head-pose",
    }
}

/// Pretrained ResNet-50s that are known, best first.
const TRUNKS: [&str; 4] = [
    "resnet50-19c8e357.pth",
    "resnet50-0676ba61.pth",
    "resnet50.safetensors",
    "resnet50_pruned_int8_imagenet.safetensors",
];

/// Runs the command.
pub fn run(task: Task, args: &FaceArgs, mut progress: Console) -> Result<()> {
    let known = || TRUNKS.iter().map(|name| args.weights.join(name)).find(|path| path.is_file());
    let weights = args.trunk.clone().or_else(known);
    let data = Data::source(task, &args.datasets);
    let scale = match args.scale {
        Scale::Auto if args.dry_run => Scale::Paper,
        Scale::Auto => match (&weights, data.exists()) {
            (Some(_), true) => Scale::Frozen,
            (weights, found) => {
                explain_mini(args, weights.is_none(), (!found).then_some(data.as_path()));
                Scale::Mini
            }
        },
        given => given,
    };
    ensure!(!args.dry_run || scale == Scale::Paper, "--dry-run is of --scale paper alone");
    let name = match scale {
        Scale::Paper => "paper",
        Scale::Frozen => "frozen",
        Scale::Mini | Scale::Auto => "mini",
    };
    let own = format!("{}_{name}", task.key());
    let mut configured: Configured<ExperimentConfig> =
        args.settings.load(args.config.as_deref().unwrap_or(&own))?;
    if args.smoke {
        shrink(&mut configured.settings);
    }
    args.check.refuse_without(&args.reference(&configured))?;
    let config = &configured.settings;
    let data = match scale {
        Scale::Mini => {
            let sizes = config.generated.context("the configuration has no [generated] sizes of splits")?;
            let root = args.datasets.join("generated").join(task.key());
            Data::generated(task, &root, config.input.size, &sizes, &mut progress)?
        }
        _ => Data::read(task, &args.datasets, &mut progress)?,
    };
    let title = match task {
        Task::Age => "age",
        Task::HeadPose => "head-pose",
    };
    let kind = if scale == Scale::Paper && args.dry_run { "dry" } else { name };
    let run = run_dir(args.resume.as_deref(), &args.out, &run_name(&format!("{title}-{kind}"), args.smoke))?;
    data.record(&run)?;
    let options = Options {
        seeds: args.seeds,
        ablation: args.ablation == Some(Ablation::Sigma),
        cache: args.cache.clone(),
        run: run.clone(),
        resume: args.resume.is_some(),
    };
    let trunk = || {
        weights.clone().with_context(|| {
            format!(
                "{} has no ResNet-50, one of {}; see weights/README.md",
                args.weights.display(),
                TRUNKS.join(", ")
            )
        })
    };
    let outcome = match scale {
        Scale::Paper if args.dry_run => {
            let device = args.device.open_single()?;
            let plan = dry_run(config, &data, &trunk()?, &device, &options, &mut progress)?;
            let losses =
                plan.losses.iter().map(|(name, losses)| (name.as_str(), name.as_str(), losses.as_slice()));
            return print_plan(command(task), &plan.lines, losses, args.json);
        }
        Scale::Paper => {
            let device = args.device.open_single()?;
            progress = progress.computing_on(&device);
            paper(config, &data, &trunk()?, &device, &options, &mut progress)?
        }
        Scale::Frozen => frozen(config, &data, &trunk()?, &options, &mut progress)?,
        Scale::Mini | Scale::Auto => mini(config, &data, &options, &mut progress)?,
    };
    report((task, name), &configured, &data, &outcome, &run, args)
}

fn explain_mini(args: &FaceArgs, no_weights: bool, data: Option<&Path>) {
    let mut missing: Vec<String> = data.iter().map(|path| path.display().to_string()).collect();
    if no_weights {
        missing.push(format!("a ResNet-50 in {}", args.weights.display()));
    }
    eprintln!(
        "Running at mini scale, on generated faces, because {} {} missing; datasets/README.md and weights/README.md say \
         how to get the paper's.",
        missing.join(" and "),
        if missing.len() == 1 { "is" } else { "are" }
    );
}

/// Enough to see that everything works.
fn shrink(config: &mut ExperimentConfig) {
    if let Some(generated) = &mut config.generated {
        (generated.train, generated.validation, generated.test) = (64, 16, 24);
    }
    if let Some(frozen) = &mut config.frozen {
        frozen.views = 2;
        if let Some(trunk) = &mut frozen.trunk {
            (trunk.training.epochs, trunk.training.batch_size) = (1.0, 16);
        }
    }
    for training in [&mut config.training, &mut config.energy.training] {
        (training.epochs, training.batch_size) = (2.0, 16);
    }
    config.head.hidden = 32;
    config.energy.samples = 16;
}

fn report(
    (task, scale): (Task, &str),
    configured: &Configured<ExperimentConfig>,
    data: &Data,
    outcome: &Outcome,
    run: &Path,
    args: &FaceArgs,
) -> Result<()> {
    let config = &configured.settings;
    let more = json!({
        "unit": config.unit,
        "coordinates": config.coordinates,
        "split": outcome.part,
        "images": data.results().faces.len(),
        "step_length": outcome.step_length,
        "ablation": outcome.ablation,
    });
    let mut text = format!(
        "MAE in {} on the {} split ({} images), mean ± standard deviation over seeds; λ = {} by the validation split.\n\n",
        config.unit,
        outcome.part,
        data.results().faces.len(),
        outcome.step_length
    );
    text += &tables::methods(config, outcome)?.render();
    if config.dim() > 1 {
        text += &format!("\nBy coordinate:\n\n{}", tables::coordinates(config, outcome)?.render());
    }
    if !outcome.ablation.is_empty() {
        text += &format!(
            "\nProposals, MAE of all baselines refined, on the validation split, seed 0:\n\n{}",
            tables::ablation(outcome)?.render()
        );
    }
    tables::csv_files(run, config, scale, data, outcome)?;
    figures(run, config, data, outcome)?;
    let study = Study {
        command: command(task),
        title: match task {
            Task::Age => "Table 4",
            Task::HeadPose => "Table 5",
        },
        scale,
        run,
        rows: serde_json::to_value(&outcome.rows)?,
        more,
        tables: &text,
        appendix: "",
        files: "figures, the trained networks",
    };
    study.finish(&args.reference(configured), args.check, args.json)
}
