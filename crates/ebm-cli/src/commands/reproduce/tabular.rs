//! `ebm reproduce tabular`: UCI's tables with the splits of Gal and Ghahramani, and generated sets with known density.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use ebm_base::Key;
use ebm_data::files::{read_settings, write_atomic};
use ebm_eval::{Spread, Summary};
use ebm_tabular::benchmark::{BenchmarkSet, Generated};
use ebm_tabular::{
    DensityEvaluation, FitOptions, TabularConfig, TabularRegressor, TargetSpec, evaluate, refined_rmse,
};
use serde::Deserialize;

use crate::commands::create_dir;
use crate::commands::settings::SettingsArgs;
use crate::table_spec::{Group, TableSpec, grouped};

/// Arguments of `ebm reproduce tabular`.
#[derive(Args)]
pub struct TabularArgs {
    /// Folder `UCI_Datasets` of the repository of Gal and Ghahramani, with a folder for each set. By default only the
    /// generated sets are used.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Sets, by the names of their folders; `fork` and `ring` are generated. By default all six of --data, or both
    /// generated ones without it.
    #[arg(long, value_delimiter = ',')]
    sets: Vec<String>,
    /// Settings: `tabular`, `choices` (a comparison of objectives, proposals and numbers of samples), or a TOML file.
    #[arg(long, default_value = "tabular")]
    config: String,
    /// Number of splits to use.
    #[arg(long, default_value_t = 20)]
    splits: usize,
    /// Methods, by key; by default all. If the EBM is among them, it refines the other methods' estimates.
    #[arg(long, value_delimiter = ',')]
    methods: Vec<String>,
    /// Evaluate on a fifth of each split's training rows instead of its test rows, to choose settings.
    #[arg(long)]
    on_validation: bool,
    /// Folder for `results.csv`. Results that it has already are not computed again.
    #[arg(long)]
    out: PathBuf,
    /// Seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    settings: SettingsArgs,
}

/// Six sets of the benchmark.
const SETS: [&str; 6] = ["bostonHousing", "concrete", "energy", "kin8nm", "power-plant", "wine-quality-red"];
/// Number of training rows, and of test rows, in each split of a generated set.
const GENERATED_ROWS: usize = 1000;
/// Key of the method that is the density from which rows were drawn.
const TRUTH: &str = "truth";
/// Columns of `results.csv`.
const HEADER: &str = "set,split,method,log_likelihood,rmse,refined_rmse,crps,coverage,conformal_coverage,\
                      coverage_50,conformal_coverage_50,ece,fit_seconds";

/// Row of `results.csv`, with the columns that the tables need.
#[derive(Deserialize)]
struct Record {
    set: String,
    split: usize,
    method: String,
    log_likelihood: Option<f64>,
    rmse: Option<f64>,
    crps: Option<f64>,
    coverage: Option<f64>,
    conformal_coverage: Option<f64>,
    fit_seconds: Option<f64>,
}

/// Runs the command.
pub fn run(args: &TabularArgs) -> Result<()> {
    let config: TabularConfig = args.settings.load(&args.config, false)?.settings;
    let keys: Vec<String> = match &args.methods[..] {
        [] => config.methods.iter().map(|method| method.key.clone()).collect(),
        keys => keys.to_vec(),
    };
    keys.iter().try_for_each(|key| config.method(key).map(|_| ()))?;
    create_dir(&args.out)?;
    let path = args.out.join("results.csv");
    let done = if path.exists() { read_settings(&path)? } else { String::new() };
    let known = done.lines().next().is_none_or(|header| header == HEADER);
    ensure!(known, "{}: it has other columns; give another --out", path.display());
    let file = OpenOptions::new().create(true).append(true).open(&path);
    let mut file = file.with_context(|| format!("cannot write {}", path.display()))?;
    if done.is_empty() {
        writeln!(file, "{HEADER}")?;
    }
    for name in args.sets() {
        let set = args.set(name)?;
        for split in 0..args.splits {
            let mut energy = None;
            let parts = args.parts(&set, split);
            for key in set.truth.iter().map(|_| TRUTH).chain(keys.iter().map(String::as_str)) {
                let start = format!("{name},{split},{key},");
                if done.lines().any(|line| line.starts_with(&start)) {
                    continue;
                }
                let line = match &set.truth {
                    Some(truth) if key == TRUTH => truth_columns(truth, parts[1])?,
                    _ if set.targets.len() > 1 && config.method(key)?.model.has_one_target() => continue,
                    _ => measure(args, &config, &set, parts, key, &mut energy)?,
                };
                writeln!(file, "{start}{line}")?;
                eprintln!("{start}{line}");
            }
        }
    }
    let records = csv::Reader::from_reader(read_settings(&path)?.as_bytes())
        .into_deserialize()
        .collect::<Result<Vec<Record>, _>>()?;
    println!("{}", summary(&records, &config)?);
    let paired = paired(args.data.as_deref(), &records)?;
    Ok(write_atomic(&args.out.join("paired.csv"), paired.as_bytes())?)
}

impl TabularArgs {
    fn sets(&self) -> Vec<&str> {
        match (&self.sets[..], &self.data) {
            ([], Some(_)) => SETS.to_vec(),
            ([], None) => Generated::ALL.map(Generated::name).to_vec(),
            (names, _) => names.iter().map(String::as_str).collect(),
        }
    }

    /// Returns the rows of a split for training and for evaluation.
    fn parts<'a>(&self, set: &'a BenchmarkSet, split: usize) -> [&'a [usize]; 2] {
        let [learnt, judged] = &set.splits[split];
        let cut = learnt.len() - learnt.len() / 5;
        if self.on_validation { [&learnt[..cut], &learnt[cut..]] } else { [learnt, judged] }
    }

    fn set(&self, name: &str) -> Result<BenchmarkSet> {
        if let Some(generated) = Generated::ALL.into_iter().find(|generated| generated.name() == name) {
            return Ok(generated.set(GENERATED_ROWS, self.splits, Key::new(self.seed).split("sets"))?);
        }
        let data = self.data.as_ref().with_context(|| {
            format!("{name} is not generated; --data names the folder UCI_Datasets that holds it")
        })?;
        Ok(BenchmarkSet::uci(&data.join(name), self.splits)?)
    }
}

/// Reads the published results of MC dropout on the splits of a set: log-likelihoods and root mean squared errors, from
/// the files in the repository.
fn published(set: &Path) -> Result<[Vec<f64>; 2]> {
    let read = |name: &str| {
        let path = set.join("results").join(name);
        let numbers = read_settings(&path)?;
        let numbers = numbers.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>();
        numbers.with_context(|| format!("{}: numbers are expected", path.display()))
    };
    Ok([
        read("test_ll_100_xepochs_1_hidden_layers.txt")?,
        read("test_MC_rmse_100_xepochs_1_hidden_layers.txt")?,
    ])
}

/// Log-likelihood and root mean squared error of each split.
type BySplit = BTreeMap<usize, [Option<f64>; 2]>;

/// Returns `paired.csv`: the EBM's log-likelihood and root mean squared error less each other method's on the same
/// splits, with standard errors over the splits.
fn paired(data: Option<&Path>, records: &[Record]) -> Result<String> {
    let mut sets: BTreeMap<&str, BTreeMap<&str, BySplit>> = BTreeMap::new();
    for row in records {
        let methods = sets.entry(&row.set).or_default();
        methods.entry(&row.method).or_default().insert(row.split, [row.log_likelihood, row.rmse]);
    }
    let mut text = "set,method,splits,other_log_likelihood,other_rmse,log_likelihood_difference,\
                    log_likelihood_difference_error,rmse_difference,rmse_difference_error\n"
        .to_owned();
    for (set, mut methods) in sets {
        let Some(energy) = methods.remove("ebm") else { continue };
        let mut others = vec![];
        let folder = data.map(|data| data.join(set)).filter(|set| set.join("results").is_dir());
        if let Some(folder) = folder {
            let values = published(&folder)?;
            let of = |split: usize| values.each_ref().map(|values| values.get(split).copied());
            others.push(("mc_dropout", energy.keys().map(|&split| (split, of(split))).collect()));
        }
        others.extend(methods);
        for (key, values) in others {
            let (mut means, mut differences) = (String::new(), String::new());
            for k in [0, 1] {
                let pairs =
                    values.iter().filter_map(|(split, other)| Some((energy.get(split)?[k]?, other[k]?)));
                let (differing, other): (Vec<f64>, Vec<f64>) =
                    pairs.map(|(own, other)| (own - other, other)).unzip();
                let summary =
                    |values: Vec<f64>| (!values.is_empty()).then(|| Summary::new(&values)).transpose();
                let (found, other) = (summary(differing)?, summary(other)?);
                means += &format!(",{}", number(other.map(|other| other.mean)));
                let error = found.and_then(|found| found.standard_error());
                differences += &format!(",{},{}", number(found.map(|found| found.mean)), number(error));
            }
            text += &format!("{set},{key},{}{means}{differences}\n", values.len());
        }
    }
    Ok(text)
}

/// Formats a number for a CSV file; `None` becomes an empty cell.
fn number(figure: Option<f64>) -> String {
    figure.map_or_else(String::new, |figure| figure.to_string())
}

/// Returns the columns after the method's for the true density: the mean of log p over the rows `judged`.
fn truth_columns(truth: &[f64], judged: &[usize]) -> Result<String> {
    let log_p: Vec<f64> = judged.iter().map(|&row| truth[row]).collect();
    let blank = ",".repeat(HEADER.matches(',').count() - 3);
    Ok(format!("{}{blank}", Summary::new(&log_p)?.mean))
}

/// Fits and evaluates a method and returns its columns after the method's. Columns of a single target belong to the
/// first target. `energy` is the split's energy model, once it is fitted.
fn measure(
    args: &TabularArgs,
    config: &TabularConfig,
    set: &BenchmarkSet,
    parts: [&[usize]; 2],
    key: &str,
    energy: &mut Option<TabularRegressor>,
) -> Result<String> {
    let [learnt, judged] = parts.map(|rows| set.table.select(rows));
    let targets = set.targets.iter().map(|name| TargetSpec::real(name)).collect();
    let options = FitOptions { targets, method: key.to_owned(), seed: args.seed, ..FitOptions::new("") };
    let start = Instant::now();
    let regressor = TabularRegressor::fit(&learnt, &options, config, &mut |_| {})?;
    let seconds = start.elapsed().as_secs_f64();
    let found = evaluate(&regressor, &judged)?;
    let refined = match &*energy {
        Some(energy) => Some(refined_rmse(energy, &regressor, &judged)?[0][1]),
        None => None,
    };
    if key == "ebm" {
        *energy = Some(regressor);
    }
    let target = &found.targets[0];
    let density = |figure: fn(&DensityEvaluation) -> f64| target.density.as_ref().map(figure);
    let figures = [
        found.log_likelihood,
        Some(target.rmse),
        refined,
        density(|density| density.crps),
        density(|density| density.coverage),
        density(|density| density.conformal_coverage),
        density(|density| density.coverage_50),
        density(|density| density.conformal_coverage_50),
        density(|density| density.ece),
    ];
    Ok(format!("{},{seconds:.2}", figures.map(number).join(",")))
}

/// Returns the table of every set and method, with means over the splits and their standard errors.
fn summary(records: &[Record], config: &TabularConfig) -> Result<String> {
    type Own<'a> = Group<'a, (&'a str, &'a str), Record>;
    let title = |key: &str| config.method(key).map_or_else(|_| key.to_owned(), |method| method.title.clone());
    let mean = |values: Vec<f64>, decimals: usize| {
        Summary::new(&values)
            .map_or_else(|_| String::new(), |found| found.cell(Spread::StandardError, decimals))
    };
    TableSpec::new()
        .text("set", |own: &Own<'_>| own.key.0.to_owned())
        .text("method", |own| title(own.key.1))
        .text("splits", |own| own.rows.len())
        .text("log-likelihood", |own| mean(own.each(|row| row.log_likelihood), 3))
        .text("RMSE", |own| mean(own.each(|row| row.rmse), 3))
        .text("CRPS", |own| mean(own.each(|row| row.crps), 3))
        .text("90 % holds", |own| mean(own.each(|row| row.coverage), 3))
        .text("calibrated", |own| mean(own.each(|row| row.conformal_coverage), 3))
        .text("seconds", |own| mean(own.each(|row| row.fit_seconds), 1))
        .render(grouped(records, |row| (row.set.as_str(), row.method.as_str())))
}
