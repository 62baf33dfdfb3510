//! `ebm fit`: a regression on a table.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use clap::Args;
use ebm_base::Key;
use ebm_experiment::PairedDifference;
use ebm_tabular::{
    Column, ColumnRoles, DensityEvaluation, Evaluation, FitOptions, Support, Table, TabularConfig,
    TabularRegressor, TargetEvaluation, TargetSpec, evaluate, refined_rmse,
};
use rand::seq::SliceRandom;

use super::create_dir;
use super::settings::SettingsArgs;
use crate::commands::eval_table::{describe, report};
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
    /// Method to fit, by its key in the settings.
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
    /// Seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    settings: SettingsArgs,
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
    fn options(&self) -> Result<FitOptions> {
        let is_target = |name: &String| self.targets.contains(name);
        if let Some(other) = self
            .positive
            .iter()
            .chain(self.bounded.iter().map(|(name, _)| name))
            .find(|name| !is_target(name))
        {
            bail!("{other:?} is no target; --positive and --bounded take columns that --target names");
        }
        let target = |name: &String| {
            let support = match self.bounded.iter().find(|(bounded, _)| bounded == name) {
                Some((_, support)) => *support,
                None if self.positive.contains(name) => Support::Positive,
                None => Support::Real,
            };
            TargetSpec { support, ..TargetSpec::real(name) }
        };
        let roles = ColumnRoles { categories: self.categories.clone(), ignored: self.ignored.clone() };
        let (targets, method) = (self.targets.iter().map(target).collect(), self.method.clone());
        Ok(FitOptions { targets, roles, method, seed: self.seed })
    }
}

pub fn run(args: &FitArgs) -> Result<()> {
    let place = args.run.display();
    ensure!(!args.run.exists(), "{place} is there already; give another --run, or remove it");
    let config: TabularConfig = args.settings.load("tabular", false)?.settings;
    let options = args.options()?;
    let table = args.file.read()?;
    if args.compare {
        println!("{}", compare(&table, &options, &config)?);
    }
    let start = Instant::now();
    let regressor = TabularRegressor::fit(&table, &options, &config, &mut |text| eprintln!("{text}"))?;
    let fitted = regressor.fitted();
    let seconds = start.elapsed().as_secs_f64();
    eprintln!("{} networks fitted to {} rows in {seconds:.1} s", config.members, fitted.rows);
    create_dir(&args.run)?;
    regressor.save(&args.run)?;
    if fitted.held_out.is_empty() {
        eprintln!("no rows were held out; evaluate the fit on other rows with `ebm eval table`");
    } else {
        let held_out = table.select(&fitted.held_out);
        let found = evaluate(&regressor, &held_out)?;
        eprintln!("{} rows that nothing was learnt from, on which regions are calibrated:", found.samples);
        eprintln!("{}", describe(&found)?);
        report(&regressor, &held_out, &found, &args.run)?;
    }
    eprintln!("the columns, as they were understood in {} rows to learn from:", fitted.rows);
    let columns = TableSpec::new()
        .text("column", |column: &&Column| format!("{:.40}", column.name))
        .text("read as", |column| column.described.clone())
        .text("values", |column| format!("{:.120}", column.values))
        .text("gaps", |column| column.gaps)
        .render(fitted.features.columns())?;
    eprintln!("{columns}");
    println!("{place}");
    Ok(())
}

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
