//! `ebm reproduce detection`: Tables 1 and 2, Figure 3a.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use candle_core::Device;
use clap::{Args, ValueEnum};
use ebm_detect::{
    Method,
    config::ExperimentConfig,
    reproduce::{
        self, MiniOptions, PaperOptions, STEP_FACTORS, Scenes, Split, StratumRow, TrainedHeads, Workplace,
        dry_run, figure3a, mini, paper, step_lengths, table1, table2,
    },
};
use ebm_eval::{Table, read_results};
use ebm_experiment::config::Configured;
use serde::Serialize;
use serde_json::json;

use super::detection_tables as tables;
use super::outcome::{self, CheckArgs, DRY_RUN, Reference, SMOKE, print_plan};
use crate::commands::settings::SettingsArgs;
use crate::commands::{create_dir, eval_strata, fresh_run, run_dir, run_name};
use crate::device::DeviceArgs;
use crate::progress::Console;
use crate::workers::WorkersArgs;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scale {
    /// Paper where COCO and the weights are there, otherwise mini.
    Auto,
    /// Generated scenes, minutes on a CPU.
    Mini,
    /// COCO 2017.
    Paper,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FigureName {
    /// AP and speed against T.
    #[value(name = "3a")]
    Trade,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Grid {
    /// Step lengths and their decay.
    Lambda,
}

const COMMAND: &str = "reproduce detection";

/// Arguments of `ebm reproduce detection`.
#[derive(Args)]
pub struct DetectionArgs {
    /// How large.
    #[arg(long, value_enum, default_value = "auto")]
    scale: Scale,
    /// 2: the methods compared. 1: the proposals compared.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=2))]
    table: u8,
    /// 3a: AP and speed against the number of steps.
    #[arg(long, value_enum, conflicts_with_all = ["table", "grid", "levels"])]
    figure: Option<FigureName>,
    /// lambda: the search for step lengths, on the validation images.
    #[arg(long, value_enum, conflicts_with_all = ["table", "levels"])]
    grid: Option<Grid>,
    /// Mini: how the gain depends on the scenes' difficulty, on occlusion, blur and size.
    #[arg(long, conflicts_with = "table")]
    levels: bool,
    /// Which methods of Table 2, by key; all of them by default.
    #[arg(long, value_delimiter = ',', value_parser = crate::commands::predict::method)]
    methods: Vec<Method>,
    /// Seeds of each trained head.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Mini: updates of each head, in place of the configuration's; milestones move in proportion.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    steps: Option<u64>,
    /// Where trained heads are, which are not trained again: a run of this command, or a directory with runs of `ebm train branch` that
    /// are called <method>-<seed>. One that is missing, or was trained otherwise, is refused.
    #[arg(long)]
    heads: Option<PathBuf>,
    /// Train the heads that --heads lacks.
    #[arg(long, requires = "heads")]
    train_missing: bool,
    /// A run of this command that was interrupted: what it trained is kept, what it was training goes on.
    #[arg(long, conflicts_with = "heads")]
    resume: Option<PathBuf>,
    /// Print one JSON object instead of the table.
    #[arg(long)]
    json: bool,
    /// Mini: train the base detector too, instead of reading it from weights/.
    #[arg(long)]
    from_scratch: bool,
    /// With --from-scratch: store the new base detector in weights/.
    #[arg(long, requires = "from_scratch")]
    keep_base: bool,
    /// Paper: only the plan, the shapes, the memory and two steps.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    check: CheckArgs,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    workers: WorkersArgs,
    /// Where runs go.
    #[arg(long, default_value = "runs")]
    out: PathBuf,
    /// Where datasets are.
    #[arg(long, default_value = "datasets")]
    datasets: PathBuf,
    /// Where weights are.
    #[arg(long, default_value = "weights")]
    weights: PathBuf,
    /// Mini: smaller splits and fewer steps, to see that everything works; the results mean nothing.
    #[arg(long)]
    smoke: bool,
}

impl DetectionArgs {
    /// Heads that are not trained again. A run that is resumed trains what it has not got.
    fn heads(&self) -> Option<TrainedHeads> {
        let path = self.heads.as_ref().or(self.resume.as_ref())?.clone();
        Some(TrainedHeads { path, train_missing: self.train_missing || self.resume.is_some() })
    }

    /// The configuration's expected figures, where they are of the study that these arguments name.
    fn reference<'a>(&self, configured: &'a Configured<ExperimentConfig>) -> Reference<'a> {
        match () {
            () if self.smoke => Err(SMOKE),
            () if self.dry_run => Err(DRY_RUN),
            () if self.table == 1 || self.figure.is_some() || self.grid.is_some() || self.levels => {
                Err("the configuration states what to expect of Table 2 alone")
            }
            () if self.steps.is_some() => Err("--steps is not what the configuration's figures are of"),
            () if self.from_scratch => {
                Err("the configuration's figures are of the base detector in weights/")
            }
            () => self.settings.reference(configured),
        }
    }

    fn methods(&self) -> Vec<Method> {
        match (self.figure, self.methods.as_slice()) {
            (Some(FigureName::Trade), _) => vec![Method::Ebm],
            (None, []) => Method::ALL.to_vec(),
            (None, given) => given.to_vec(),
        }
    }
}

/// Runs the command.
pub fn run(args: DetectionArgs, mut progress: Console) -> Result<()> {
    let mut options = PaperOptions {
        coco: args.datasets.join("coco"),
        weights: args.weights.clone(),
        run: PathBuf::new(),
        heads: args.heads(),
        resume: args.resume.is_some(),
        device: args.device.open_single()?,
        workers: args.workers.count(),
    };
    progress = progress.computing_on(&options.device);
    if let Some(TrainedHeads { path, .. }) = args.heads().filter(|heads| !heads.path.is_dir()) {
        bail!("{}: there is no such run; give the directory that an earlier run named", path.display());
    }
    let missing = options.missing();
    let scale = match args.scale {
        Scale::Auto if missing.is_empty() || args.dry_run => Scale::Paper,
        Scale::Auto => {
            explain_mini(&missing);
            Scale::Mini
        }
        given => given,
    };
    let name = match scale {
        Scale::Paper => options.detector().map_or("paper", |(_, name)| name),
        _ => "mini",
    };
    let mut configured = args.settings.load(name)?;
    args.check.refuse_without(&args.reference(&configured))?;
    if scale != Scale::Paper {
        return run_mini(&args, &mut configured, options.device, &mut progress);
    }
    if args.levels {
        bail!("--levels is a study of generated scenes: run it with --scale mini");
    }
    if args.dry_run {
        let run = fresh_run(&args.out, "detection-dry")?;
        options.run = run.clone();
        let plan =
            dry_run(&configured.settings, &options, &args.methods(), args.table == 1, &run, &mut progress)?;
        let losses = plan.losses.iter().map(|(key, title, losses)| (&**key, &**title, &**losses));
        return print_plan(COMMAND, &plan.lines, losses, args.json);
    }
    if let Some(first) = missing.first() {
        bail!(
            "{} is missing; see datasets/README.md and weights/README.md, or run --scale mini or --dry-run",
            first.display()
        );
    }
    options.run = run_dir(args.resume.as_deref(), &args.out, "detection-paper")?;
    let place = paper(&configured.settings, &options, &mut progress)?;
    study(&args, &configured, ("paper", &place, &options.run), &mut progress)
}

fn explain_mini(missing: &[PathBuf]) {
    let list: Vec<String> = missing.iter().map(|path| path.display().to_string()).collect();
    eprintln!(
        "Running at mini scale, on generated scenes and the project's own small detector, because {} {} missing; \
         datasets/README.md and weights/README.md say how to get the paper's.",
        list.join(", "),
        if list.len() == 1 { "is" } else { "are" }
    );
}

fn run_mini(
    args: &DetectionArgs,
    configured: &mut Configured<ExperimentConfig>,
    device: Device,
    progress: &mut Console,
) -> Result<()> {
    let config = &mut configured.settings;
    let (mut scenes, mut step_factors) = (Scenes::default(), STEP_FACTORS.to_vec());
    if let Some(steps) = args.steps {
        let heads =
            [&mut config.iou_net.training, &mut config.iou_net_star.training, &mut config.ebm.training];
        heads.into_iter().chain([&mut config.parametric]).for_each(|head| head.set_steps(steps as usize));
    }
    if args.smoke {
        scenes = Scenes { base: 16, heads: 16, validation: 2, test: 4 };
        step_factors.truncate(1);
        config.trainings_mut().into_iter().for_each(|training| training.set_steps(2));
    }
    let base_weights = args.weights.join("detector_mini.safetensors");
    if !args.from_scratch && !base_weights.is_file() {
        bail!("{} is missing; train it with --from-scratch --keep-base", base_weights.display());
    }
    if args.keep_base {
        create_dir(&args.weights)?;
    }
    let run = run_dir(args.resume.as_deref(), &args.out, &run_name("detection-mini", args.smoke))?;
    let options = MiniOptions {
        from_scratch: args.from_scratch,
        keep_base: args.keep_base,
        base_weights,
        data: args.datasets.join("generated/detection"),
        run: run.clone(),
        heads: args.heads(),
        resume: args.resume.is_some(),
        scenes,
        step_factors,
        device,
        workers: args.workers.count(),
    };
    let place = mini(config, &options, progress)?;
    if args.levels {
        let splits = options.levels(config)?;
        let rows = reproduce::levels(&place, &splits, args.seeds, progress)?;
        eval_strata::write(&run, &strata_of(&splits, &run, args.seeds)?)?;
        let study = Study { title: "Levels of difficulty", scale: "mini", published: None };
        return study.finish((args, configured, &place, run.as_path()), &rows, &tables::levels(&rows)?);
    }
    study(args, configured, ("mini", &place, &run), progress)
}

/// The gain of the energy model by what makes a box uncertain, for each level.
fn strata_of(splits: &[Split], run: &Path, seeds: u64) -> Result<Vec<(String, Vec<StratumRow>)>> {
    let of_level = |split: &Split| {
        let read = |name: &str| read_results(&run.join(format!("detections-{}-{name}.json", split.name)));
        let refined = (0..seeds).map(|seed| read(&format!("ebm-{seed}"))).collect::<Result<Vec<_>, _>>()?;
        let (replicates, key) = (eval_strata::REPLICATES, eval_strata::key());
        let rows = reproduce::strata(&split.annotations, &read("direct")?, &refined, replicates, key)?;
        Ok((split.name.clone(), rows))
    };
    splits.iter().map(of_level).collect()
}

/// The study that the arguments name.
fn study(
    args: &DetectionArgs,
    configured: &Configured<ExperimentConfig>,
    (scale, place, run): (&str, &Workplace, &Path),
    progress: &mut Console,
) -> Result<()> {
    let study = |title, published| Study { title, scale, published };
    let finished = (args, configured, place, run);
    if args.grid.is_some() {
        let rows = step_lengths(place, &args.methods(), progress)?;
        return study("Step lengths", None).finish(finished, &rows, &tables::step_lengths(&rows)?);
    }
    if args.figure.is_some() {
        let rows = figure3a(place, args.seeds, progress)?;
        tables::plot_figure3a(run, &rows)?;
        return study("Figure 3a", Some("val2017")).finish(finished, &rows, &tables::figure3a(&rows)?);
    }
    if args.table == 1 {
        let rows = table1(place, args.seeds, progress)?;
        return study("Table 1", Some("val2017")).finish(finished, &rows, &tables::table1(&rows)?);
    }
    let rows = table2(place, &args.methods(), args.seeds, progress)?;
    study("Table 2", Some("test-dev")).finish(finished, &rows, &tables::table2(&rows)?)
}

/// A study at a scale.
struct Study<'a> {
    title: &'a str,
    scale: &'a str,
    /// The split of COCO that the paper's figures beside the results are of.
    published: Option<&'a str>,
}

impl Study<'_> {
    /// Writes, prints and compares.
    fn finish<R: Serialize>(
        &self,
        (args, configured, place, run): (&DetectionArgs, &Configured<ExperimentConfig>, &Workplace, &Path),
        rows: &[R],
        table: &Table,
    ) -> Result<()> {
        let Self { title, scale, published } = *self;
        let remarks = match args.grid {
            Some(Grid::Lambda) => vec![place.search_remark()],
            None => place.remarks(published),
        };
        let study = outcome::Study {
            command: COMMAND,
            title,
            scale,
            run,
            rows: serde_json::to_value(rows)?,
            more: json!({ "remarks": remarks }),
            tables: &format!("{}\n\n{}", table.render(), remarks.join("\n")),
            appendix: "",
            files: "detections, trained heads, metrics",
        };
        study.finish(&args.reference(configured), args.check, args.json)
    }
}
