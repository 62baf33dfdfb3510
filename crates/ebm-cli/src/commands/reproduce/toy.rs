//! `ebm reproduce toy`: Figure 2.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use clap::Args;
use ebm_base::Key;
use ebm_experiment::Calibration;
use ebm_experiment::config::{Configured, check_ranges};
use ebm_toy::evaluation::calibration;
use ebm_toy::{Dataset, Experiment, Job, Points, Problem, Reference, Row, Trained, run_all};
use ebm_train::Progress;
use serde::Serialize;
use serde_json::json;

use super::common::{CommonArgs, Study};
use super::toy_figures::figures;
use crate::commands::{fresh_run, run_name};
use crate::progress::Console;
use crate::table_spec::{Group, TableSpec, grouped};
use crate::workers::MOST_THREADS;

/// Methods whose calibration is measured and that the figure shows.
pub const SHOWN: [&str; 2] = ["Gaussian", "ML-IS"];

/// Arguments of `ebm reproduce toy`.
#[derive(Args)]
pub struct ToyArgs {
    /// Number of models of each method, which differ in initialisation, order and noise [default: 20, and 5 for the
    /// three slow methods].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    seeds: Option<u32>,
    /// Methods, by their names in the table, separated by semicolons; by default all.
    #[arg(long, value_delimiter = ';')]
    methods: Vec<String>,
    /// Problem to solve: dataset1, with two modes and a log-normal density, or dataset2, a Gaussian of varying width;
    /// by default both. With --data it selects the settings of the methods.
    #[arg(long, value_parser = ["dataset1", "dataset2"])]
    problem: Option<String>,
    /// CSV file with points x,y to train on, both from −3 to 3. A fifth is held out to evaluate the models.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Number of trainings at the same time; by default one for each processor.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_THREADS)))]
    threads: Option<u32>,
    #[command(flatten)]
    common: CommonArgs,
}

/// Calibration of one trained model.
#[derive(Serialize)]
struct CalibrationRow {
    dataset: &'static str,
    method: String,
    seed: u64,
    #[serde(flatten)]
    figures: Calibration,
}

/// Runs the command.
pub fn run(args: &ToyArgs) -> Result<()> {
    let configured = experiment(args)?;
    let experiment = &configured.settings;
    let datasets = datasets(args, experiment)?;
    let mut jobs = Vec::new();
    for dataset in &datasets {
        for method in experiment.methods(dataset.problem) {
            jobs.extend((0..experiment.models(method)).map(|seed| Job { method, dataset, seed }));
        }
    }
    if jobs.is_empty() {
        bail!("no method is left to train on this problem; leave out --methods or --problem");
    }
    let other = args.data.as_ref().map(|_| "the expected figures are for the paper's points");
    let reference = args.common.reference(&configured, other)?;
    let run = fresh_run(&args.common.out, &run_name("toy", args.common.smoke))?;
    let results = train(experiment, &jobs, args.threads)?;
    let rows: Vec<&Row> = results.iter().map(|(row, _)| row).collect();
    let calibrations = calibrations(experiment, &datasets, &results)?;
    csv_files(&run, &rows, &calibrations)?;
    figures(&run, &datasets, &results)?;
    let study = Study {
        title: "Figure 2",
        document: json!({ "rows": rows, "calibration": calibrations }),
        tables: report(&datasets, args.data.as_deref(), &rows, &calibrations)?,
        appendix: "",
        files: "figures, results.csv, calibration.csv",
    };
    args.common.finish("toy", "paper", &run, study, reference)
}

/// Loads the embedded experiment and applies the arguments.
fn experiment(args: &ToyArgs) -> Result<Configured<Experiment>> {
    let mut configured: Configured<Experiment> = args.common.settings.load("figure2", args.common.smoke)?;
    let experiment = &mut configured.settings;
    if let Some(models) = args.seeds {
        experiment.models = u64::from(models);
        experiment.methods.iter_mut().for_each(|method| method.models = None);
    }
    check_ranges("of the command line", experiment)?;
    let mut known: Vec<&str> = experiment.methods.iter().map(|method| method.name.as_str()).collect();
    known.dedup();
    if let Some(unknown) = args.methods.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("there is no method `{unknown}`; --methods takes some of: {}", known.join("; "));
    }
    if !args.methods.is_empty() {
        experiment.methods.retain(|method| args.methods.contains(&method.name));
    }
    Ok(configured)
}

/// Returns the datasets that the models are trained on.
fn datasets(args: &ToyArgs, experiment: &Experiment) -> Result<Vec<Dataset>> {
    let asked = |problem: &Problem| match (&args.problem, &args.data) {
        (Some(name), _) => problem.name() == name,
        (None, Some(_)) => *problem == Problem::Dataset1,
        (None, None) => true,
    };
    let of_problem = |problem| match &args.data {
        Some(path) => {
            Dataset::of_points(&Points::read_csv(path)?, problem).with_context(|| path.display().to_string())
        }
        None => Ok(Dataset::of_problem(problem, experiment.evaluation_points)),
    };
    Problem::ALL.into_iter().filter(asked).map(of_problem).collect()
}

/// Trains all models, `threads` at the same time or one for each processor, and shows the progress.
fn train(experiment: &Experiment, jobs: &[Job<'_>], threads: Option<u32>) -> Result<Vec<(Row, Trained)>> {
    let threads = match threads {
        Some(threads) => threads as usize,
        None => {
            std::thread::available_parallelism().context("cannot count the processors; give --threads")?.get()
        }
    };
    let shared = Mutex::new((Console::new(), 0));
    let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
    lock().0.begin("trainings", jobs.len());
    let results = run_all(experiment, jobs, threads, &|row| {
        let (console, done) = &mut *lock();
        *done += 1;
        let note = format!("({}, {}, seed {}: {:.3})", row.dataset, row.method, row.seed, distance(row));
        console.advance(*done, &note);
    })?;
    lock().0.end();
    Ok(results)
}

/// Returns the calibration of the models on problems with a known density, from which fresh points can be drawn.
fn calibrations(
    experiment: &Experiment,
    datasets: &[Dataset],
    results: &[(Row, Trained)],
) -> Result<Vec<CalibrationRow>> {
    let mut rows = Vec::new();
    for dataset in datasets.iter().filter(|dataset| matches!(dataset.reference, Reference::Truth(_))) {
        for (Row { method, seed, .. }, trained) in of_dataset(dataset, results) {
            if SHOWN.contains(&method.as_str()) {
                let key = Key::new(*seed).split("toy calibration");
                let figures = calibration(trained, dataset.problem, experiment.fresh_points, key)?;
                let (method, seed) = (method.clone(), *seed);
                rows.push(CalibrationRow { dataset: dataset.name, method, seed, figures });
            }
        }
    }
    Ok(rows)
}

/// Returns the models that were trained on a dataset.
pub fn of_dataset<'a>(
    dataset: &Dataset,
    results: &'a [(Row, Trained)],
) -> impl Iterator<Item = &'a (Row, Trained)> {
    let name = dataset.name;
    results.iter().filter(move |(row, _)| row.dataset == name)
}

/// Returns a model's divergence from the truth, or its negative log-likelihood on held-out points.
pub fn distance(row: &Row) -> f64 {
    row.kl.or(row.held_out_nll).unwrap_or(f64::NAN)
}

/// Returns a dataset's title in figures, the label of [`distance`] with its unit, and the label in tables.
pub fn names(dataset: &Dataset) -> [&'static str; 3] {
    match dataset.reference {
        Reference::Truth(_) => [dataset.problem.title(), "KL(truth ‖ model) in nats", "KL"],
        Reference::HeldOut(_) => ["Own points", "−log p(y | x) of held-out points in nats", "−log p"],
    }
}

/// Returns the tables of docs/toy.md: one for each dataset, and the calibration of all.
fn report(
    datasets: &[Dataset],
    data: Option<&Path>,
    rows: &[&Row],
    calibrations: &[CalibrationRow],
) -> Result<String> {
    let mut text = String::new();
    for dataset in datasets {
        let own = rows.iter().copied().filter(|row| row.dataset == dataset.name);
        let own = grouped(own, |row| row.method.as_str());
        let [title, measure, name] = names(dataset);
        writeln!(text, "## {title}: {measure}\n")?;
        if let (Some(path), Reference::HeldOut(held_out)) = (data, &dataset.reference) {
            let (all, held_out) = (dataset.points.x.len() + held_out.x.len(), held_out.x.len());
            let path = path.display();
            writeln!(
                text,
                "{all} points of `{path}`, of which {held_out} are held out. No truth is known.\n"
            )?;
        }
        let most = own.iter().map(|group| group.rows.len()).max().unwrap_or(0);
        write!(text, "{most} models of each method")?;
        for (place, group) in own.iter().filter(|group| group.rows.len() < most).enumerate() {
            let separator = if place == 0 { "; " } else { ", " };
            write!(text, "{separator}{} of {}", group.rows.len(), group.key)?;
        }
        text += ". Mean ± sample standard deviation over models.\n\n";
        text += &divergences(name, own)?;
        text.push('\n');
    }
    if !calibrations.is_empty() {
        text += "## Calibration on fresh points\n\n";
        text += &calibration_table(calibrations)?;
    }
    Ok(text)
}

/// Returns the table of each method's distances, with the published summary, the mean of the best quarter.
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

/// Returns the table of the calibration on fresh points, as means ± sample standard deviations over models.
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

/// Writes `results.csv`, a row for each model, and `calibration.csv`, one for each whose calibration was measured.
fn csv_files(run: &Path, rows: &[&Row], calibrations: &[CalibrationRow]) -> Result<()> {
    TableSpec::measured()
        .text("dataset", |row: &&Row| row.dataset)
        .text("method", |row| row.method.clone())
        .text("seed", |row| row.seed)
        .exact("kl", |row| row.kl)
        .exact("held_out_nll", |row| row.held_out_nll)
        .exact("train_seconds", |row| row.train_seconds)
        .exact("final_loss", |row| row.final_loss)
        .write_csv(&run.join("results.csv"), rows)?;
    TableSpec::measured()
        .text("dataset", |row: &CalibrationRow| row.dataset)
        .text("method", |row| row.method.clone())
        .text("seed", |row| row.seed)
        .exact("nll", |row| row.figures.nll)
        .exact("crps", |row| row.figures.crps)
        .exact("ece", |row| row.figures.ece)
        .exact("coverage", |row| row.figures.coverage)
        .exact("width", |row| row.figures.width)
        .exact("conformal_coverage", |row| row.figures.conformal_coverage)
        .exact("conformal_width", |row| row.figures.conformal_width)
        .write_csv(&run.join("calibration.csv"), calibrations)
}
