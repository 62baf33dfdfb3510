//! `ebm fit`: a regression on a table.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use clap::Args;
use ebm_base::Key;
use ebm_data::files::write_folder;
use ebm_experiment::PairedDifference;
use ebm_tabular::{
    Column, ColumnRoles, DensityEvaluation, Division, Evaluation, FitOptions, Importance, Support, Table,
    TabularConfig, TabularRegressor, TargetEvaluation, TargetSpec, cross_validate, evaluate,
    evaluate_predictions, importance, refined_rmse,
};
use rand::seq::SliceRandom;
use serde_json::{Value, json};

use super::settings::SettingsArgs;
use super::usage;
use crate::commands::eval_table::{describe, figures, report};
use crate::schema::document;
use crate::table_file::TableFile;
use crate::table_spec::TableSpec;

/// Arguments of `ebm fit`.
#[derive(Args)]
pub struct FitArgs {
    #[command(flatten)]
    file: TableFile,
    /// Column to predict. May be given up to three times, for one joint prediction.
    #[arg(long = "target", required = true, value_name = "COLUMN")]
    targets: Vec<String>,
    /// Folder for the fit; must not exist.
    #[arg(long)]
    run: PathBuf,
    /// Method to fit, by its key in the settings; auto fits ebm and mixture, and keeps the better on validation rows.
    #[arg(long, default_value = "ebm")]
    method: String,
    /// Column to treat as categories although it holds numbers. May be given several times.
    #[arg(long = "category", value_name = "COLUMN")]
    categories: Vec<String>,
    /// Column to leave out. May be given several times.
    #[arg(long = "ignore", value_name = "COLUMN")]
    ignored: Vec<String>,
    /// Target that is always above 0; its logarithm is learnt. May be given several times.
    #[arg(long, value_name = "COLUMN")]
    positive: Vec<String>,
    /// Target between two bounds. May be given several times.
    #[arg(long, value_name = "COLUMN=LOW,HIGH", value_parser = parse_bounds)]
    bounded: Vec<(String, Support)>,
    /// First fit every method to four fifths of the rows, evaluate it on the others, and print the table.
    #[arg(long)]
    compare: bool,
    /// First evaluate the method by cross-validation with this number of folds, from 2 to 20, and print the table.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u8).range(2..=20), conflicts_with = "compare")]
    folds: Option<u8>,
    /// Column whose equal texts share a fold. It is no input.
    #[arg(long, value_name = "COLUMN", requires = "folds", conflicts_with = "time")]
    group: Option<String>,
    /// Column of numbers or dates that orders the rows: each fold is judged by a fit to all rows before it.
    #[arg(long, value_name = "COLUMN", requires = "folds")]
    time: Option<String>,
    /// Column of weights from 0 on, in proportion to which training draws rows. It is no input.
    #[arg(long, value_name = "COLUMN")]
    weight: Option<String>,
    /// Take this number of rows at random, also from a file that is too large for memory.
    #[arg(long, value_name = "N")]
    max_rows: Option<usize>,
    /// After the fit, measure on the rows that were held out how much each column helps: its cells are permuted.
    #[arg(long)]
    importance: bool,
    /// Try other sizes and rates of training for this time, as 90s, 10m or 2h, and keep the best by validation rows. The fit
    /// follows. Folds and compared methods share the time. A faster machine tries more, so that results differ between machines.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    search: Option<Duration>,
    /// Print one JSON object in place of the folder's name.
    #[arg(long, conflicts_with = "compare")]
    json: bool,
    /// Settings: `tabular`, or a TOML file.
    #[arg(long, default_value = "tabular")]
    config: String,
    /// Seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    settings: SettingsArgs,
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let expected = || format!("{text:?} is no time; write a number and s, m or h, for instance 10m");
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(expected)?;
    let seconds = match unit {
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(expected()),
    };
    let number: f64 = number.parse().map_err(|_| expected())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| expected())
}

fn parse_bounds(text: &str) -> Result<(String, Support), String> {
    let expected = || format!("{text:?} says no bounds; write COLUMN=LOW,HIGH, for instance share=0,1");
    let (name, numbers) = text.rsplit_once('=').ok_or_else(expected)?;
    let numbers: Vec<f64> = numbers
        .split(',')
        .map(|word| word.trim().parse().map_err(|_| expected()))
        .collect::<Result<_, _>>()?;
    match numbers[..] {
        [low, high] if low < high && (high - low).is_finite() => {
            Ok((name.to_owned(), Support::Bounded { low, high }))
        }
        _ => Err(expected()),
    }
}

impl FitArgs {
    fn options(&self, config: &TabularConfig) -> Result<FitOptions> {
        let is_target = |name: &String| self.targets.contains(name);
        if let Some(other) = self
            .positive
            .iter()
            .chain(self.bounded.iter().map(|(name, _)| name))
            .find(|name| !is_target(name))
        {
            let detail = format!("{other:?} is no target; they take columns that --target names");
            return Err(usage("--positive and --bounded", detail).into());
        }
        let target = |name: &String| {
            let support = match self.bounded.iter().find(|(bounded, _)| bounded == name) {
                Some((_, support)) => *support,
                None if self.positive.contains(name) => Support::Positive,
                None => Support::Real,
            };
            TargetSpec { support, ..TargetSpec::real(name) }
        };
        let others = [&self.group, &self.time, &self.weight];
        if let Some(name) = others.into_iter().flatten().find(|name| is_target(name)) {
            let detail = format!("{name:?} is a target; they take other columns");
            return Err(usage("--group, --time and --weight", detail).into());
        }
        let ignored = self.ignored.iter().chain(&self.group).cloned().collect();
        let roles = ColumnRoles { categories: self.categories.clone(), ignored };
        let (targets, method) = (self.targets.iter().map(target).collect(), self.method.clone());
        let weight = self.weight.clone();
        // Each method of each fit searches for itself.
        let fits = (1 + u32::from(self.folds.unwrap_or_default())) * if method == "auto" { 2 } else { 1 };
        let fits = fits + if self.compare { config.methods.len() as u32 } else { 0 };
        let search = self.search.map(|time| time / fits);
        Ok(FitOptions { targets, roles, weight, method, seed: self.seed, search, ..FitOptions::new("") })
    }

    /// Evaluates the method by `count` folds, and returns their figures and a table of these.
    fn folds(&self, table: &Table, options: &FitOptions, config: &TabularConfig, count: u8) -> Result<Folds> {
        let division = self.group.clone().map(Division::Group).or(self.time.clone().map(Division::Time));
        let folds =
            cross_validate(table, options, config, count.into(), &division.unwrap_or_default(), &mut say)?;
        eprintln!("{count} folds, one seed: means ± sample standard deviations over the folds");
        let each = |value: &dyn Fn(&Evaluation) -> Option<f64>| {
            let finite = folds.iter().map(|fold| value(fold).filter(|value| value.is_finite()));
            finite.collect::<Option<Vec<f64>>>().unwrap_or_default()
        };
        let text = TableSpec::new()
            .text("target", |k: &usize| self.targets[*k].clone())
            .spread("log-likelihood", 3, |_| each(&|fold| fold.log_likelihood))
            .spread("RMSE", 4, |k| each(&|fold| Some(fold.targets[*k].rmse)))
            .spread("MAE", 4, |k| each(&|fold| Some(fold.targets[*k].mae)))
            .spread("CRPS", 4, |k| each(&|fold| Some(fold.targets[*k].density.as_ref()?.crps)))
            .spread("calibrated", 4, |k| {
                each(&|fold| Some(fold.targets[*k].density.as_ref()?.conformal_coverage))
            })
            .spread("width", 4, |k| each(&|fold| Some(fold.targets[*k].density.as_ref()?.conformal_width)))
            .render(0..self.targets.len())?;
        Ok((folds, text))
    }
}

type Folds = (Vec<Evaluation>, String);

fn say(text: &str) {
    eprintln!("{text}");
}

/// Refuses a folder that exists, and says what it holds.
fn check_new(run: &Path) -> Result<()> {
    let has = |file: &str| run.join(file).is_file();
    let what = match (has("regressor.json"), has("report.md")) {
        _ if !run.exists() => return Ok(()),
        (true, true) => "a fit",
        (true, false) => "a fit without its report, which `ebm predict table` and `ebm eval table` can use",
        (false, _) => "no fit",
    };
    bail!("{} is there already, and holds {what}; give another --run, or remove it", run.display())
}

pub fn run(args: &FitArgs) -> Result<()> {
    let place = args.run.display();
    check_new(&args.run)?;
    let config: TabularConfig = args.settings.load(&args.config, false)?.settings;
    let options = args.options(&config)?;
    if args.importance && options.method != "auto" {
        let has_density = config.method(&options.method)?.model.has_density();
        ensure!(has_density, "--importance needs a density, and {} has none", options.method);
    }
    let table = match args.max_rows {
        Some(count) => args.file.sample(count, Key::new(args.seed).split("rows"))?,
        None => args.file.read()?,
    };
    if args.compare {
        println!("{}", compare(&table, &options, &config)?);
    }
    if let Some(name) = &args.weight {
        eprintln!("{name} weighs the rows to learn from; calibration and all figures count every row once");
    }
    let folds = args.folds.map(|count| args.folds(&table, &options, &config, count)).transpose()?;
    match &folds {
        Some((_, text)) if args.json => eprintln!("{text}"),
        Some((_, text)) => println!("{text}"),
        None => {}
    }
    let start = Instant::now();
    let regressor = TabularRegressor::fit(&table, &options, &config, &mut say)?;
    let fitted = regressor.fitted();
    let seconds = start.elapsed().as_secs_f64();
    eprintln!("{} networks fitted to {} rows in {seconds:.1} s", config.members, fitted.rows);
    // A killed program leaves a whole fit there or none.
    write_folder(&args.run, |run| regressor.save(run))?;
    let judged = if fitted.held_out.is_empty() {
        eprintln!("no rows were held out; evaluate the fit on other rows with `ebm eval table`");
        None
    } else {
        Some(judge(args, &regressor, &table.select(&fitted.held_out))?)
    };
    eprintln!("the columns, as they were understood in {} rows to learn from:", fitted.rows);
    let columns = TableSpec::new()
        .text("column", |column: &&Column| format!("{:.40}", column.name))
        .text("read as", |column| column.described.clone())
        .text("values", |column| format!("{:.120}", column.values))
        .text("gaps", |column| column.gaps)
        .render(fitted.features.columns())?;
    eprintln!("{columns}");
    if args.json {
        let column = |Column { name, described, values, gaps, .. }: &Column| json!({ "name": name, "read_as": described, "values": values, "gaps": gaps });
        let mut body = json!({
            "folder": place.to_string(), "method": fitted.method, "learnt": fitted.rows, "seconds": seconds,
            "columns": fitted.features.columns().iter().map(column).collect::<Vec<Value>>(), "folds": folds.map(|(folds, _)| folds),
        });
        let (evaluation, importance) = judged.unzip();
        (body["evaluation"], body["importance"]) = (json!(evaluation), json!(importance.flatten()));
        println!("{}", document("fit", body));
    } else {
        println!("{place}");
    }
    Ok(())
}

/// Evaluates the fit on the rows that were held out, and writes its report. Returns the figures, and the columns by `--importance`.
fn judge(args: &FitArgs, regressor: &TabularRegressor, held_out: &Table) -> Result<Judged> {
    let predictions = regressor.predict(held_out)?;
    let found = evaluate_predictions(regressor, held_out, &predictions)?;
    eprintln!("{} rows that nothing was learnt from, on which regions are calibrated:", found.samples);
    eprintln!("{}", describe(&found)?);
    let important = args.importance.then(|| importance(regressor, held_out)).transpose()?;
    let mut text = String::new();
    if let Some(columns) = &important {
        let table = TableSpec::new()
            .text("column", |column: &Importance| column.name.clone())
            .number("rise", 4, |column| column.rise)
            .number("least", 4, |column| column.rise_low)
            .number("largest", 4, |column| column.rise_high);
        table.write_csv(&args.run.join("importance.csv"), columns)?;
        text = table.render(columns.iter().cloned())?;
        eprintln!("rise of the mean of -log p, in nats, if a column is permuted; 5 permutations:\n{text}");
    }
    report(regressor, held_out, &predictions, &found, &text, &args.run)?;
    Ok((figures(regressor, &found), important))
}

type Judged = (Value, Option<Vec<Importance>>);

/// Fits every method to the same rows and returns a table of their metrics.
fn compare(table: &Table, options: &FitOptions, config: &TabularConfig) -> Result<String> {
    let mut order: Vec<usize> = (0..table.rows()).collect();
    order.shuffle(&mut Key::new(options.seed).split("compare").rng());
    let learnt = order.split_off(table.rows() / 5);
    let (judged, learnt) = (table.select(&order), table.select(&learnt));
    let mut rows: Vec<(TabularRegressor, Evaluation)> = Vec::new();
    for method in &config.methods {
        let options = FitOptions { method: method.key.clone(), ..options.clone() };
        eprintln!("fitting {}", method.title);
        match TabularRegressor::fit(&learnt, &options, config, &mut |_| {}) {
            Ok(regressor) => {
                let found = evaluate(&regressor, &judged)?;
                rows.push((regressor, found));
            }
            Err(error) => eprintln!("{} is left out: {error}", method.title),
        }
    }
    let energy = rows.iter().find(|(regressor, _)| regressor.fitted().method == "ebm");
    let mut lines = Vec::new();
    for (regressor, own) in &rows {
        let method = config.method(&regressor.fitted().method)?;
        let (mut difference, mut refined) = (String::new(), None);
        if let Some((best, other)) = energy.filter(|_| method.key != "ebm") {
            if own.log_probs.len() == other.log_probs.len() {
                let each = own.log_probs.iter().zip(&other.log_probs).map(|(a, b)| a - b).collect();
                let found = PairedDifference::new(&[each], Key::new(options.seed).split("paired"))?;
                difference =
                    format!("{:+.3} [{:+.3}, {:+.3}]", found.mean, found.interval[0], found.interval[1]);
            }
            refined = Some(refined_rmse(best, regressor, &judged)?[0][1]);
        }
        lines.push((&method.title, own.log_likelihood, difference, refined, &own.targets[0]));
    }
    let density =
        |target: &TargetEvaluation, value: fn(&DensityEvaluation) -> f64| target.density.as_ref().map(value);
    type Line<'a> = (&'a String, Option<f64>, String, Option<f64>, &'a TargetEvaluation);
    TableSpec::new()
        .text("method", |line: &Line<'_>| line.0.clone())
        .number("log-likelihood", 4, |line| line.1)
        .text("less the EBM's, 95 %", |line| line.2.clone())
        .number("RMSE", 4, |line| line.4.rmse)
        .number("refined", 4, |line| line.3)
        .number("CRPS", 4, |line| density(line.4, |density| density.crps))
        .number("calibrated", 4, |line| density(line.4, |density| density.conformal_coverage))
        .number("width", 4, |line| density(line.4, |density| density.conformal_width))
        .render(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        for (text, seconds) in [("90s", 90.0), ("10m", 600.0), ("0.5h", 1800.0)] {
            assert_eq!(parse_time(text), Ok(Duration::from_secs_f64(seconds)));
        }
        for text in ["", "10", "m", "-1s", "1e30h", "NaNs", "10 min", "5é"] {
            assert!(parse_time(text).unwrap_err().contains("10m"), "{text}");
        }
    }
}
