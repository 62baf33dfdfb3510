//! `ebm predict table`: predictions for the rows of a table.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use ebm_base::Key;
use ebm_base::files::{Durability, replace_with};
use ebm_tabular::{Blocks, Prediction, Table, TabularRegressor, TargetDensity};
use serde_json::{Value, json};

use super::{check_out, create_dir, usage};
use crate::model_path::ModelPath;
use crate::schema::document;
use crate::table_file::{TableFile, say_unknown};
use crate::table_spec::joined;

/// Arguments of `ebm predict table`.
#[derive(Args)]
pub struct TableArgs {
    #[command(flatten)]
    file: TableFile,
    /// Folder of a fit, or hub:OWNER/NAME.
    #[arg(long)]
    run: ModelPath,
    /// File for the predictions, one row for each row of the data; by default standard output.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Columns of the data to copy before the predictions, separated by commas.
    #[arg(long, value_name = "COLUMNS")]
    keep: Vec<String>,
    /// Probabilities of the quantiles.
    #[arg(long, value_delimiter = ',', default_values_t = [0.05, 0.25, 0.75, 0.95])]
    quantiles: Vec<f64>,
    /// Probability masses of the regions.
    #[arg(long, value_delimiter = ',', default_values_t = [0.9])]
    region: Vec<f64>,
    /// Give no bounds to a region that the calibration rows cannot promise.
    #[arg(long)]
    strict: bool,
    /// Number of samples from each density.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    samples: u32,
    /// Seed of the samples.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Write one JSON object for each row, with all intervals of the regions, in place of CSV.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &TableArgs) -> Result<()> {
    let refused = |name, numbers, reason| usage(name, format!("{}: {reason}", joined(numbers, ", ")));
    let are_shares = args.region.iter().all(|&mass| mass > 0.0 && mass < 1.0);
    ensure!(are_shares, refused("--region", &args.region, "shares between 0 and 1 are needed"));
    let are_probabilities = args.quantiles.iter().all(|probability| (0.0..=1.0).contains(probability));
    ensure!(are_probabilities, refused("--quantiles", &args.quantiles, "probabilities are from 0 to 1"));
    let run = args.run.local()?;
    if let Some(out) = &args.out {
        check_out(out, [&*args.file.data, &*run])?;
    }
    let regressor = TabularRegressor::open(&run)?;
    let blocks = args.file.open()?;
    // Nothing is written if a row cannot be read.
    let mut unknown = BTreeMap::new();
    blocks.each(|block| {
        let encoded = regressor.encode(&block)?;
        encoded.unknown.into_iter().for_each(|(column, count)| *unknown.entry(column).or_default() += count);
        regressor.known_targets(&block).map(|_| ())
    })?;
    say_unknown(&unknown);
    let table = blocks.table();
    let kept = kept(args, table)?;
    let names = names(args, &regressor, table, &kept)?;
    let targets = &regressor.fitted().targets;
    let masses = (0..targets.len()).map(|k| masses(args, &regressor, k)).collect::<Result<Vec<_>>>()?;
    let promised = regressor.largest_level();
    if regressor.has_density()? && args.region.iter().any(|&level| level > promised) {
        let (rows, percent) = (regressor.fitted().masses[0].len(), 100.0 * promised);
        let others = if args.strict { "have no bounds" } else { "are the density's own" };
        eprintln!("{rows} calibration rows promise regions of up to {percent:.1} %; larger ones {others}");
    }
    let job = Job { args, regressor: &regressor, kept, names, masses };
    let Some(out) = &args.out else {
        return job.write(&blocks, &mut |line| {
            print!("{line}");
            Ok(())
        });
    };
    if let Some(folder) = out.parent() {
        create_dir(folder)?;
    }
    let written: Result<()> = replace_with(out, Durability::Atomic, |file| {
        let mut file = BufWriter::new(file);
        job.write(&blocks, &mut |line| Ok(file.write_all(line.as_bytes())?))?;
        Ok(file.flush()?)
    });
    written.with_context(|| format!("write {}", out.display()))
}

/// Predictions to write.
struct Job<'a> {
    args: &'a TableArgs,
    regressor: &'a TabularRegressor,
    /// Columns to copy.
    kept: Vec<usize>,
    /// Names of the columns of a CSV file.
    names: Vec<String>,
    /// Masses of the regions of each target.
    masses: Vec<Vec<Option<f64>>>,
}

impl Job<'_> {
    /// Predicts block by block, and passes a line for each row to `write`.
    fn write(&self, blocks: &Blocks, write: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
        if !self.args.json {
            write(&csv_line(&self.names)?)?;
        }
        let mut first = 0;
        blocks.each(|block| {
            let encoded = self.regressor.encode(&block)?;
            for (row, prediction) in self.regressor.predictions(&block, &encoded)?.enumerate() {
                write(&self.line(&block, row, first + row, prediction?)?)?;
            }
            first += block.rows();
            Ok(())
        })
    }

    /// Returns the line of a row of `block`, which is row `place` of the file.
    fn line(&self, block: &Table, row: usize, place: usize, prediction: Prediction) -> Result<String> {
        let (args, targets) = (self.args, &self.regressor.fitted().targets);
        let Prediction { targets: densities, mean, log_prob } = prediction;
        let key = Key::new(args.seed).split("samples").index(place as u64);
        let copied = self.kept.iter().map(|&column| (&block.columns()[column], block.cell(row, column)));
        let mut cells: Vec<String> = copied.clone().map(|(_, cell)| cell.to_owned()).collect();
        cells.push(block.line(row).to_string());
        let mut objects = vec![];
        for (k, mean) in mean.into_iter().enumerate() {
            let key = key.index(k as u64);
            let (numbers, mut object) = figures(args, mean, densities.get(k), &self.masses[k], key)?;
            object["name"] = targets[k].name.as_str().into();
            cells.extend(numbers.iter().map(f64::to_string));
            objects.push(object);
        }
        if args.json {
            let kept: BTreeMap<&String, &str> = copied.collect();
            let body = json!({
                "line": block.line(row), "kept": kept, "probabilities": args.quantiles, "mass": args.region,
                "targets": objects, "log_prob": log_prob,
            });
            return Ok(format!("{}\n", document("predict table", body)));
        }
        // The last name may be log_prob.
        if cells.len() < self.names.len() {
            cells.push(log_prob.map_or_else(String::new, |log_p| log_p.to_string()));
        }
        csv_line(&cells)
    }
}

/// Returns the places of the columns to copy.
fn kept(args: &TableArgs, table: &Table) -> Result<Vec<usize>> {
    // The name of a column may have a comma.
    let named = |given: &String| match table.column(given) {
        Ok(place) => vec![Ok(place)],
        Err(_) => given.split(',').map(|name| table.column(name.trim())).collect(),
    };
    let places = args.keep.iter().flat_map(named).collect::<ebm_tabular::Result<_>>();
    Ok(places.map_err(|error| usage("--keep", error.to_string()))?)
}

/// Returns the masses of the regions of a target, none for one without bounds.
fn masses(args: &TableArgs, regressor: &TabularRegressor, target: usize) -> Result<Vec<Option<f64>>> {
    let is_unbounded = |level: f64| args.strict && level > regressor.largest_level();
    let mass = |&level: &f64| (!is_unbounded(level)).then(|| regressor.mass(target, level)).transpose();
    Ok(args.region.iter().map(mass).collect::<ebm_tabular::Result<_>>()?)
}

/// Returns the names of the columns of a CSV file.
fn names(
    args: &TableArgs,
    regressor: &TabularRegressor,
    table: &Table,
    kept: &[usize],
) -> Result<Vec<String>> {
    let mut names: Vec<String> = kept.iter().map(|&column| table.columns()[column].clone()).collect();
    names.push("line".to_owned());
    let (targets, has_density) = (&regressor.fitted().targets, regressor.has_density()?);
    for target in targets {
        let name = &target.name;
        names.push(format!("{name}_mean"));
        if has_density {
            names.extend(["median", "mode"].map(|what| format!("{name}_{what}")));
            names.extend(args.quantiles.iter().map(|probability| format!("{name}_q{probability}")));
            let region = |mass| ["low", "high", "intervals"].map(|what| format!("{name}_{what}_{mass}"));
            names.extend(args.region.iter().flat_map(region));
            names.extend((1..=args.samples).map(|sample| format!("{name}_sample{sample}")));
        }
    }
    if has_density && targets.iter().all(|target| table.column(&target.name).is_ok()) {
        names.push("log_prob".to_owned());
    }
    let mut known = BTreeSet::new();
    if let Some(name) = names.iter().find(|name| !known.insert(*name)) {
        let remedy = "rename the column in the data or leave it out of --keep, and give each number once";
        let detail = format!("two columns would be called {name:?}; {remedy}");
        return Err(usage("the predictions", detail).into());
    }
    Ok(names)
}

/// Returns the mean of a target and the figures of its density, with regions of these calibrated masses, of all y without a
/// mass: as the cells of a CSV file, and as an object.
fn figures(
    args: &TableArgs,
    mean: f64,
    density: Option<&TargetDensity>,
    masses: &[Option<f64>],
    key: Key,
) -> ebm_tabular::Result<(Vec<f64>, Value)> {
    let mut cells = vec![mean];
    let Some(density) = density else { return Ok((cells, json!({ "mean": mean }))) };
    let (median, modes) = (density.quantile(0.5)?, density.modes());
    cells.extend([median, modes.first().copied().unwrap_or(f64::NAN)]);
    for &probability in &args.quantiles {
        cells.push(density.quantile(probability)?);
    }
    let quantiles = cells[3..].to_vec();
    let mut regions = vec![];
    for &mass in masses {
        let region =
            mass.map_or_else(|| Ok(vec![density.target().support.bounds()]), |mass| density.region(mass))?;
        cells.extend(region.first().zip(region.last()).map_or([f64::NAN; 2], |(a, b)| [a[0], b[1]]));
        cells.push(region.len() as f64);
        regions.push(region);
    }
    let draws = density.sample(args.samples as usize, &mut key.rng());
    cells.extend(&draws);
    let object = json!({
        "mean": mean, "median": median, "modes": modes, "quantiles": quantiles, "regions": regions, "draws": draws,
    });
    Ok((cells, object))
}

fn csv_line(cells: &[String]) -> Result<String> {
    let mut writer = csv::Writer::from_writer(vec![]);
    writer.write_record(cells)?;
    Ok(String::from_utf8(writer.into_inner()?)?)
}
