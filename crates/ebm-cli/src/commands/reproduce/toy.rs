//! `ebm reproduce toy`: Figure 2.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use ebm_eval::{Spread, Summary, Table};
use ebm_seed::Key;
use ebm_toy::calibration::{Calibration, calibration};
use ebm_toy::evaluation::Truth;
use ebm_toy::{Experiment, Job, Network, Points, Problem, Row, Trained, run_all, training_points};
use ebm_train::Progress;
use serde::Serialize;
use serde_json::json;

use super::outcome::{CheckArgs, SILENT, SMOKE, Study};
use super::toy_figures::figures;
use crate::commands::fresh_run;
use crate::progress::Console;

/// Methods whose calibration is measured, and that the figure shows.
pub const SHOWN: [&str; 2] = ["Gaussian", "ML-IS"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum NetworkArg {
    /// The paper's.
    Eccv,
    /// The follow-up's, smooth in y.
    Bmvc,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ProblemArg {
    /// Two modes and a log-normal density.
    Dataset1,
    /// A Gaussian of varying width.
    Dataset2,
}

/// Arguments of `ebm reproduce toy`.
#[derive(Args)]
pub struct ToyArgs {
    /// Models of each method, which differ in initialisation, order and noise.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The network of f.
    #[arg(long, value_enum, default_value = "eccv")]
    network: NetworkArg,
    /// Only these methods, by their names in the table, separated by semicolons.
    #[arg(long, value_delimiter = ';')]
    methods: Vec<String>,
    /// Only this problem.
    #[arg(long, value_enum)]
    problem: Option<ProblemArg>,
    /// Train on the points x,y of this CSV file; KL compares with the true density of --problem, by default dataset1.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Trainings at a time; by default one for each processor.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    threads: Option<u64>,
    /// Print one JSON object instead of the tables.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    check: CheckArgs,
    /// Where runs go.
    #[arg(long, default_value = "runs")]
    out: PathBuf,
    /// Two epochs and a coarse evaluation, to see that everything works; the results mean nothing.
    #[arg(long)]
    smoke: bool,
}

/// The calibration of one trained model.
#[derive(Serialize)]
struct CalibrationRow {
    dataset: &'static str,
    method: String,
    seed: u64,
    #[serde(flatten)]
    figures: Calibration,
}

/// Runs the command.
pub fn run(args: ToyArgs) -> Result<()> {
    let experiment = experiment(&args)?;
    let sets: Vec<(Problem, Points, Truth)> = problems(&args)
        .into_iter()
        .map(|problem| {
            let points = match &args.data {
                Some(path) => Points::read_csv(path)?,
                None => training_points(problem),
            };
            Ok((problem, points, Truth::new(problem, experiment.evaluation_points)))
        })
        .collect::<Result<_>>()?;
    let mut jobs = Vec::new();
    for (problem, points, truth) in &sets {
        for method in experiment.methods(*problem) {
            jobs.extend((0..args.seeds).map(|seed| Job { method, problem: *problem, points, truth, seed }));
        }
    }
    if jobs.is_empty() {
        bail!("no method is left to train on this problem; leave out --methods or --problem");
    }
    let reference = match &experiment.expected {
        _ if args.smoke => Err(SMOKE),
        _ if args.network == NetworkArg::Bmvc => Err("the expected figures are of the paper's network"),
        _ if args.data.is_some() => Err("the expected figures are of the paper's points"),
        expected => expected.as_ref().ok_or(SILENT),
    };
    args.check.refuse_without(&reference)?;
    let run = fresh_run(&args.out, "toy")?;
    let threads = match args.threads {
        Some(threads) => threads as usize,
        None => {
            std::thread::available_parallelism().context("cannot count the processors; give --threads")?.get()
        }
    };
    let console = Mutex::new((Console::new(), 0));
    let with = |act: &dyn Fn(&mut (Console, usize))| {
        act(&mut console.lock().unwrap_or_else(PoisonError::into_inner))
    };
    with(&|(console, _)| console.begin("trainings", jobs.len()));
    let results = run_all(&experiment, &jobs, threads, &|row| {
        with(&|(console, done)| {
            *done += 1;
            console.advance(
                *done,
                &format!("({}, {}, seed {}: KL {:.3})", row.dataset, row.method, row.seed, row.kl),
            );
        });
    })?;
    with(&|(console, _)| console.end());
    let (rows, trained): (Vec<Row>, Vec<Trained>) = results.into_iter().unzip();

    let calibrations = calibrations(&jobs, &trained)?;
    let tables = [divergence_table(&jobs, &rows)?.render(), calibration_table(&calibrations)?.render()];
    figures(&run, &jobs, &rows, &trained)?;
    let study = Study {
        command: "reproduce toy",
        title: "Figure 2",
        scale: "paper",
        run: &run,
        rows: serde_json::to_value(&rows)?,
        more: json!({ "calibration": calibrations }),
        tables: &tables.join("\n\n"),
        appendix: "",
        files: "figures",
    };
    study.finish(&reference, args.check, args.json)
}

fn problems(args: &ToyArgs) -> Vec<Problem> {
    match (args.problem, &args.data) {
        (Some(ProblemArg::Dataset2), _) => vec![Problem::Dataset2],
        (Some(ProblemArg::Dataset1), _) | (None, Some(_)) => vec![Problem::Dataset1],
        (None, None) => Problem::ALL.to_vec(),
    }
}

/// The embedded experiment as the arguments change it.
fn experiment(args: &ToyArgs) -> Result<Experiment> {
    let mut experiment = Experiment::embedded()?;
    if args.network == NetworkArg::Bmvc {
        experiment.network = Network::Bmvc;
    }
    if args.smoke {
        experiment.schedule.epochs = 2;
        experiment.evaluation_points = 64;
    }
    if args.methods.is_empty() {
        return Ok(experiment);
    }
    let known: Vec<String> = experiment.methods.iter().map(|method| method.name.clone()).collect();
    if let Some(unknown) = args.methods.iter().find(|name| !known.contains(name)) {
        let mut known = known;
        known.dedup();
        bail!("there is no method `{unknown}`; --methods takes some of: {}", known.join("; "));
    }
    experiment.methods.retain(|method| args.methods.contains(&method.name));
    Ok(experiment)
}

fn calibrations(jobs: &[Job<'_>], trained: &[Trained]) -> Result<Vec<CalibrationRow>> {
    let shown = jobs.iter().zip(trained).filter(|(job, _)| SHOWN.contains(&job.method.name.as_str()));
    shown
        .map(|(job, trained)| {
            Ok(CalibrationRow {
                dataset: job.problem.name(),
                method: job.method.name.clone(),
                seed: job.seed,
                figures: calibration(trained, job.problem, Key::new(job.seed).split("toy calibration"))?,
            })
        })
        .collect()
}

/// The problems and methods in the order of the jobs, each with the values that `value` finds.
fn grouped<T, V>(
    items: &[T],
    label: impl Fn(&T) -> (&'static str, &str),
    value: impl Fn(&T) -> V,
) -> Vec<(&'static str, String, Vec<V>)> {
    let mut groups: Vec<(&'static str, String, Vec<V>)> = Vec::new();
    for item in items {
        let (dataset, method) = label(item);
        match groups.iter_mut().find(|(d, m, _)| *d == dataset && m == method) {
            Some((_, _, values)) => values.push(value(item)),
            None => groups.push((dataset, method.to_owned(), vec![value(item)])),
        }
    }
    groups
}

/// KL(truth ‖ model): mean ± sample standard deviation, and the published summary, the mean of the best quarter.
fn divergence_table(jobs: &[Job<'_>], rows: &[Row]) -> Result<Table> {
    let mut table =
        Table::new(["dataset", "method", "models", "KL", "best", "worst", "best quarter", "seconds each"]);
    debug_assert_eq!(jobs.len(), rows.len());
    for (dataset, method, values) in
        grouped(rows, |row| (row.dataset, &row.method), |row| (row.kl, row.train_seconds))
    {
        let (mut kl, seconds): (Vec<f64>, Vec<f64>) = values.into_iter().unzip();
        kl.sort_by(f64::total_cmp);
        let summary = Summary::new(&kl)?;
        let quarter = Summary::new(&kl[..kl.len().div_ceil(4)])?;
        table.push([
            dataset.to_owned(),
            method,
            kl.len().to_string(),
            summary.cell(Spread::StandardDeviation, 3),
            format!("{:.3}", summary.min),
            format!("{:.3}", summary.max),
            format!("{:.3}", quarter.mean),
            format!("{:.1}", Summary::new(&seconds)?.mean),
        ])?;
    }
    Ok(table)
}

/// Calibration on fresh points: mean ± sample standard deviation over models.
fn calibration_table(rows: &[CalibrationRow]) -> Result<Table> {
    let header = [
        "dataset",
        "method",
        "NLL",
        "CRPS",
        "ECE",
        "90 % region: coverage",
        "width",
        "conformal: coverage",
        "width",
    ];
    let mut table = Table::new(header);
    for (dataset, method, values) in grouped(rows, |row| (row.dataset, &row.method), |row| row.figures) {
        let cell = |value: fn(&Calibration) -> f64| -> Result<String> {
            let values: Vec<f64> = values.iter().map(value).collect();
            Ok(Summary::new(&values)?.cell(Spread::StandardDeviation, 3))
        };
        table.push([
            dataset.to_owned(),
            method,
            cell(|c| c.nll)?,
            cell(|c| c.crps)?,
            cell(|c| c.ece)?,
            cell(|c| c.coverage)?,
            cell(|c| c.width)?,
            cell(|c| c.conformal_coverage)?,
            cell(|c| c.conformal_width)?,
        ])?;
    }
    Ok(table)
}
