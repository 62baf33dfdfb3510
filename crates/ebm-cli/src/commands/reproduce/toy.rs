//! `ebm reproduce toy`: Figure 2.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;
use ebm_base::Key;
use ebm_experiment::Calibration;
use ebm_experiment::config::{Configured, check_ranges};
use ebm_toy::evaluation::calibration;
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
use crate::table_spec::{Group, TableSpec, grouped};
use crate::workers::MOST_THREADS;

/// Methods whose calibration is measured, and that the figure shows.
pub const SHOWN: [&str; 2] = ["Gaussian", "ML-IS"];

/// Arguments of `ebm reproduce toy`.
#[derive(Args)]
pub struct ToyArgs {
    /// Models of each method, which differ in initialisation, order and noise [default: 20, of the three slow
    /// methods 5].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    seeds: Option<u32>,
    /// The network of f: eccv, the paper's, or bmvc, the follow-up's, smooth in y.
    #[arg(long, value_parser = PossibleValuesParser::new(["eccv", "bmvc"]), default_value = "eccv")]
    network: String,
    /// Only these methods, by their names in the table, separated by semicolons.
    #[arg(long, value_delimiter = ';')]
    methods: Vec<String>,
    /// Only this problem: dataset1, of two modes and a log-normal density, or dataset2, a Gaussian of varying width;
    /// with --data the one whose settings the methods have.
    #[arg(long, value_parser = PossibleValuesParser::new(["dataset1", "dataset2"]))]
    problem: Option<String>,
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
        () if args.network == "bmvc" => reference.and(Err("the expected figures are of the paper's network")),
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
    csv_files(&run, &rows, &calibrations)?;
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
    match (&args.problem, &args.data) {
        (Some(name), _) => Problem::ALL.into_iter().filter(|problem| problem.name() == name).collect(),
        (None, Some(_)) => vec![Problem::Dataset1],
        (None, None) => Problem::ALL.to_vec(),
    }
}

/// The embedded experiment as the arguments change it.
fn experiment(args: &ToyArgs) -> Result<Configured<Experiment>> {
    let mut configured: Configured<Experiment> = args.common.settings.load("figure2", args.common.smoke)?;
    let experiment = &mut configured.settings;
    if args.network == "bmvc" {
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
    for dataset in datasets {
        let own = grouped(rows.iter().filter(|row| row.dataset == dataset.name), |row| row.method.as_str());
        writeln!(text, "## {}: {}\n", title(dataset), measure(dataset))?;
        if let (Some(path), Reference::HeldOut(held_out)) = (data, &dataset.reference) {
            let (all, held_out) = (dataset.points.x.len() + held_out.x.len(), held_out.x.len());
            let path = path.display();
            writeln!(
                text,
                "{all} points of `{path}`, of which {held_out} are held out. No truth is known.\n"
            )?;
        }
        let most = own.iter().map(|group| group.rows.len()).max().unwrap_or(0);
        let fewer = own.iter().filter(|group| group.rows.len() < most);
        let fewer: Vec<String> =
            fewer.map(|group| format!("{} of {}", group.rows.len(), group.key)).collect();
        let fewer = if fewer.is_empty() { fewer.join("") } else { format!("; {}", fewer.join(", ")) };
        writeln!(
            text,
            "{most} models of each method{fewer}. Mean ± sample standard deviation over models.\n"
        )?;
        let name = if matches!(dataset.reference, Reference::Truth(_)) { "KL" } else { "−log p" };
        text += &divergences(name, own)?;
        text.push('\n');
    }
    if !calibrations.is_empty() {
        text += "## Calibration on fresh points\n\n";
        text += &calibration_table(calibrations)?;
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

/// The distances of each method's models, and the published summary, the mean of the best quarter.
fn divergences(name: &str, methods: Vec<Group<'_, &str, Row>>) -> Result<String> {
    let sorted = |group: &Group<'_, &str, Row>| {
        let mut distances = group.each(distance);
        distances.sort_by(f64::total_cmp);
        distances
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    TableSpec::new()
        .text("method", |group: &Group<'_, &str, Row>| group.key.to_owned())
        .text("models", |group| group.rows.len())
        .spread(name, 3, sorted)
        .number("best", 3, |group| sorted(group).first().copied())
        .number("worst", 3, |group| sorted(group).last().copied())
        .number("best quarter", 3, |group| mean(&sorted(group)[..group.rows.len().div_ceil(4)]))
        .number("seconds each", 1, |group| mean(&group.each(|row| row.train_seconds)))
        .render(methods)
}

/// Calibration on fresh points: mean ± sample standard deviation over models.
fn calibration_table(rows: &[CalibrationRow]) -> Result<String> {
    type Own<'a> = Group<'a, (&'static str, &'a str), CalibrationRow>;
    TableSpec::new()
        .text("dataset", |group: &Own<'_>| group.key.0)
        .text("method", |group| group.key.1.to_owned())
        .text("models", |group| group.rows.len())
        .spread("NLL", 3, |group| group.each(|row| row.figures.nll))
        .spread("CRPS", 3, |group| group.each(|row| row.figures.crps))
        .spread("ECE", 3, |group| group.each(|row| row.figures.ece))
        .spread("90 % region: coverage", 3, |group| group.each(|row| row.figures.coverage))
        .spread("width", 3, |group| group.each(|row| row.figures.width))
        .spread("conformal: coverage", 3, |group| group.each(|row| row.figures.conformal_coverage))
        .spread("width", 3, |group| group.each(|row| row.figures.conformal_width))
        .render(grouped(rows, |row| (row.dataset, row.method.as_str())))
}

/// Columns that begin every row of a CSV file: when and on what it was measured.
fn measured<R>() -> TableSpec<'static, R> {
    let (date, device) = (today(), Machine::here().short());
    TableSpec::new().text("date", move |_| date.clone()).text("device", move |_| device.clone())
}

/// Writes `results.csv`, a row for each model, and `calibration.csv`, one for each whose calibration was measured.
fn csv_files(run: &Path, rows: &[Row], calibrations: &[CalibrationRow]) -> Result<()> {
    measured()
        .text("dataset", |row: &Row| row.dataset)
        .text("method", |row| row.method.clone())
        .text("seed", |row| row.seed)
        .full("kl", |row| row.kl)
        .full("held_out_nll", |row| row.held_out_nll)
        .full("train_seconds", |row| row.train_seconds)
        .full("final_loss", |row| row.final_loss)
        .write_csv(&run.join("results.csv"), rows)?;
    measured()
        .text("dataset", |row: &CalibrationRow| row.dataset)
        .text("method", |row| row.method.clone())
        .text("seed", |row| row.seed)
        .full("nll", |row| row.figures.nll)
        .full("crps", |row| row.figures.crps)
        .full("ece", |row| row.figures.ece)
        .full("coverage", |row| row.figures.coverage)
        .full("width", |row| row.figures.width)
        .full("conformal_coverage", |row| row.figures.conformal_coverage)
        .full("conformal_width", |row| row.figures.conformal_width)
        .write_csv(&run.join("calibration.csv"), calibrations)
}
