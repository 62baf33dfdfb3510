//! `ebm reproduce toy`: Figure 2.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use ebm_data::files::write_atomic;
use ebm_eval::{Spread, Summary, Table};
use ebm_experiment::Calibration;
use ebm_experiment::config::{Configured, check_ranges};
use ebm_seed::Key;
use ebm_toy::calibration::calibration;
use ebm_toy::{Dataset, Experiment, Job, Network, Points, Problem, Reference, Row, Trained, run_all};
use ebm_train::Progress;
use serde::Serialize;
use serde_json::json;

use super::common::CommonArgs;
use super::outcome::Study;
use super::toy_figures::figures;
use crate::commands::{fresh_run, run_name};
use crate::machine::{Machine, today};
use crate::progress::Console;
use crate::workers::MOST_THREADS;

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
    /// Models of each method, which differ in initialisation, order and noise [default: 20, of the three slow
    /// methods 5].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    seeds: Option<u32>,
    /// The network of f.
    #[arg(long, value_enum, default_value = "eccv")]
    network: NetworkArg,
    /// Only these methods, by their names in the table, separated by semicolons.
    #[arg(long, value_delimiter = ';')]
    methods: Vec<String>,
    /// Only this problem; with --data the one whose settings the methods have.
    #[arg(long, value_enum)]
    problem: Option<ProblemArg>,
    /// Train on the points x,y of this CSV file, both from −3 to 3. A fifth is held out and tells how good a
    /// model is.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Trainings at a time; by default one for each processor.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_THREADS)))]
    threads: Option<u32>,
    #[command(flatten)]
    common: CommonArgs,
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
    let configured = experiment(&args)?;
    let experiment = &configured.settings;
    let datasets = datasets(&args, experiment)?;
    let mut jobs = Vec::new();
    for dataset in &datasets {
        for method in experiment.methods(dataset.problem) {
            jobs.extend((0..experiment.models(method)).map(|seed| Job { method, dataset, seed }));
        }
    }
    if jobs.is_empty() {
        bail!("no method is left to train on this problem; leave out --methods or --problem");
    }
    let (common, reference) = (&args.common, args.common.reference(&configured));
    let reference = match () {
        () if args.network == NetworkArg::Bmvc => {
            reference.and(Err("the expected figures are of the paper's network"))
        }
        () if args.data.is_some() => reference.and(Err("the expected figures are of the paper's points")),
        () => reference,
    };
    common.check.refuse_without(&reference)?;
    let run = fresh_run(&common.out, &run_name("toy", common.smoke))?;
    let threads = match args.threads {
        Some(threads) => threads as usize,
        None => {
            std::thread::available_parallelism().context("cannot count the processors; give --threads")?.get()
        }
    };
    let (rows, trained) = train(experiment, &jobs, threads)?;

    let calibrations = calibrations(&jobs, &trained)?;
    let (date, device) = (today(), Machine::here().short());
    write_atomic(&run.join("results.csv"), &results_csv(&date, &device, &rows)?)?;
    write_atomic(&run.join("calibration.csv"), &calibration_csv(&date, &device, &calibrations)?)?;
    figures(&run, &datasets, &jobs, &rows, &trained)?;
    let study = Study {
        title: "Figure 2",
        rows: serde_json::to_value(&rows)?,
        more: json!({ "calibration": calibrations }),
        tables: report(&datasets, args.data.as_deref(), &rows, &calibrations)?,
        appendix: "",
        files: "figures, results.csv, calibration.csv",
    };
    common.finish("reproduce toy", "paper", &run, study, &reference)
}

/// What the models are trained on.
fn datasets(args: &ToyArgs, experiment: &Experiment) -> Result<Vec<Dataset>> {
    let of_problem = |problem| match &args.data {
        Some(path) => {
            Dataset::of_points(&Points::read_csv(path)?, problem).with_context(|| path.display().to_string())
        }
        None => Ok(Dataset::of_problem(problem, experiment.evaluation_points)),
    };
    problems(args).into_iter().map(of_problem).collect()
}

/// Trains all models, `threads` at a time, and shows how far it is.
fn train(experiment: &Experiment, jobs: &[Job<'_>], threads: usize) -> Result<(Vec<Row>, Vec<Trained>)> {
    let console = Mutex::new((Console::new(), 0));
    let with = |act: &dyn Fn(&mut (Console, usize))| {
        act(&mut console.lock().unwrap_or_else(PoisonError::into_inner))
    };
    with(&|(console, _)| console.begin("trainings", jobs.len()));
    let results = run_all(experiment, jobs, threads, &|row| {
        with(&|(console, done)| {
            *done += 1;
            console.advance(
                *done,
                &format!("({}, {}, seed {}: {:.3})", row.dataset, row.method, row.seed, distance(row)),
            );
        });
    })?;
    with(&|(console, _)| console.end());
    Ok(results.into_iter().unzip())
}

fn problems(args: &ToyArgs) -> Vec<Problem> {
    match (args.problem, &args.data) {
        (Some(ProblemArg::Dataset2), _) => vec![Problem::Dataset2],
        (Some(ProblemArg::Dataset1), _) | (None, Some(_)) => vec![Problem::Dataset1],
        (None, None) => Problem::ALL.to_vec(),
    }
}

/// The embedded experiment as the arguments change it.
fn experiment(args: &ToyArgs) -> Result<Configured<Experiment>> {
    let mut configured: Configured<Experiment> = args.common.settings.load("figure2", args.common.smoke)?;
    let experiment = &mut configured.settings;
    if args.network == NetworkArg::Bmvc {
        experiment.network = Network::Bmvc;
    }
    if let Some(models) = args.seeds {
        experiment.models = u64::from(models);
        experiment.methods.iter_mut().for_each(|method| method.models = None);
    }
    check_ranges("of the command line", experiment)?;
    if args.methods.is_empty() {
        return Ok(configured);
    }
    let known: Vec<String> = experiment.methods.iter().map(|method| method.name.clone()).collect();
    if let Some(unknown) = args.methods.iter().find(|name| !known.contains(name)) {
        let mut known = known;
        known.dedup();
        bail!("there is no method `{unknown}`; --methods takes some of: {}", known.join("; "));
    }
    experiment.methods.retain(|method| args.methods.contains(&method.name));
    Ok(configured)
}

fn calibrations(jobs: &[Job<'_>], trained: &[Trained]) -> Result<Vec<CalibrationRow>> {
    // Only a problem's density can be asked for fresh points.
    let shown = jobs.iter().zip(trained).filter(|(job, _)| {
        SHOWN.contains(&job.method.name.as_str()) && matches!(job.dataset.reference, Reference::Truth(_))
    });
    shown
        .map(|(job, trained)| {
            Ok(CalibrationRow {
                dataset: job.dataset.name,
                method: job.method.name.clone(),
                seed: job.seed,
                figures: calibration(
                    trained,
                    job.dataset.problem,
                    Key::new(job.seed).split("toy calibration"),
                )?,
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

/// How far a model is from what it is compared with.
pub fn distance(row: &Row) -> f64 {
    row.kl.or(row.held_out_nll).unwrap_or(f64::NAN)
}

/// The name of [`distance`], and its unit.
pub fn measure(dataset: &Dataset) -> &'static str {
    match dataset.reference {
        Reference::Truth(_) => "KL(truth ‖ model) in nats",
        Reference::HeldOut(_) => "−log p(y | x) of held-out points in nats",
    }
}

/// The tables of docs/toy.md: one for each dataset, and the calibration of all.
fn report(
    datasets: &[Dataset],
    data: Option<&Path>,
    rows: &[Row],
    calibrations: &[CalibrationRow],
) -> Result<String> {
    let mut text = String::new();
    let groups = grouped(rows, |row| (row.dataset, &row.method), |row| (distance(row), row.train_seconds));
    for dataset in datasets {
        let own: Vec<_> = groups.iter().filter(|(name, ..)| *name == dataset.name).collect();
        writeln!(text, "## {}: {}\n", title(dataset), measure(dataset))?;
        if let (Some(path), Reference::HeldOut(held_out)) = (data, &dataset.reference) {
            let (all, held_out) = (dataset.points.x.len() + held_out.x.len(), held_out.x.len());
            let path = path.display();
            writeln!(
                text,
                "{all} points of `{path}`, of which {held_out} are held out. No truth is known.\n"
            )?;
        }
        let most = own.iter().map(|(.., values)| values.len()).max().unwrap_or(0);
        let fewer = own.iter().filter(|(.., values)| values.len() < most);
        let fewer: Vec<String> =
            fewer.map(|(_, method, values)| format!("{} of {method}", values.len())).collect();
        let fewer = if fewer.is_empty() { fewer.join("") } else { format!("; {}", fewer.join(", ")) };
        writeln!(
            text,
            "{most} models of each method{fewer}. Mean ± sample standard deviation over models.\n"
        )?;
        let name = if matches!(dataset.reference, Reference::Truth(_)) { "KL" } else { "−log p" };
        let header = ["method", "models", name, "best", "worst", "best quarter", "seconds each"];
        let mut table = Table::new(header);
        for (_, method, values) in own {
            table.push(divergence_row(method, values)?)?;
        }
        text += &table.render();
        text.push('\n');
    }
    if !calibrations.is_empty() {
        text += "## Calibration on fresh points\n\n";
        text += &calibration_table(calibrations)?.render();
    }
    Ok(text)
}

/// What figures call a dataset.
pub fn title(dataset: &Dataset) -> &'static str {
    match dataset.reference {
        Reference::Truth(_) => dataset.problem.title(),
        Reference::HeldOut(_) => "Own points",
    }
}

/// Mean ± sample standard deviation, and the published summary, the mean of the best quarter.
fn divergence_row(method: &str, values: &[(f64, f64)]) -> Result<[String; 7]> {
    let (mut distances, seconds): (Vec<f64>, Vec<f64>) = values.iter().copied().unzip();
    distances.sort_by(f64::total_cmp);
    let summary = Summary::new(&distances)?;
    let quarter = Summary::new(&distances[..distances.len().div_ceil(4)])?;
    Ok([
        method.to_owned(),
        distances.len().to_string(),
        summary.cell(Spread::StandardDeviation, 3),
        format!("{:.3}", summary.min),
        format!("{:.3}", summary.max),
        format!("{:.3}", quarter.mean),
        format!("{:.1}", Summary::new(&seconds)?.mean),
    ])
}

/// Calibration on fresh points: mean ± sample standard deviation over models.
fn calibration_table(rows: &[CalibrationRow]) -> Result<Table> {
    let header = [
        "dataset",
        "method",
        "models",
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
            values.len().to_string(),
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

/// A row for each model, which was measured at that date on that device.
fn results_csv(date: &str, device: &str, rows: &[Row]) -> Result<Vec<u8>> {
    let mut file = csv::Writer::from_writer(Vec::new());
    let header =
        ["date", "device", "dataset", "method", "seed", "kl", "held_out_nll", "train_seconds", "final_loss"];
    file.write_record(header)?;
    for Row { dataset, method, seed, kl, held_out_nll, train_seconds, final_loss } in rows {
        file.serialize((date, device, dataset, method, seed, kl, held_out_nll, train_seconds, final_loss))?;
    }
    Ok(file.into_inner()?)
}

/// A row for each model whose calibration was measured.
fn calibration_csv(date: &str, device: &str, rows: &[CalibrationRow]) -> Result<Vec<u8>> {
    let mut file = csv::Writer::from_writer(Vec::new());
    let figures = ["nll", "crps", "ece", "coverage", "width", "conformal_coverage", "conformal_width"];
    file.write_record([&["date", "device", "dataset", "method", "seed"][..], &figures].concat())?;
    for CalibrationRow { dataset, method, seed, figures: c } in rows {
        let figures = [c.nll, c.crps, c.ece, c.coverage, c.width, c.conformal_coverage, c.conformal_width];
        file.serialize((date, device, dataset, method, seed, figures))?;
    }
    Ok(file.into_inner()?)
}
