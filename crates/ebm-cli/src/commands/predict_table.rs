//! `ebm predict table`: predictions for the rows of a table.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;
use ebm_base::Key;
use ebm_data::files::write_atomic;
use ebm_tabular::{Prediction, TabularRegressor, TargetDensity};

use crate::model_path::ModelPath;
use crate::table_file::TableFile;

/// Arguments of `ebm predict table`.
#[derive(Args)]
pub struct TableArgs {
    #[command(flatten)]
    file: TableFile,
    /// Folder of a fit, or hub:OWNER/NAME.
    #[arg(long)]
    run: ModelPath,
    /// CSV file for the predictions, one row for each row of the data; by default standard output.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Probabilities of the quantiles.
    #[arg(long, value_delimiter = ',', default_values_t = [0.05, 0.25, 0.75, 0.95])]
    quantiles: Vec<f64>,
    /// Probability mass of the regions.
    #[arg(long, default_value_t = 0.9)]
    region: f64,
    /// Number of samples from each density.
    #[arg(long, default_value_t = 0)]
    samples: usize,
    /// Seed of the samples.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

pub fn run(args: &TableArgs) -> Result<()> {
    ensure!(
        args.region > 0.0 && args.region < 1.0,
        "--region {}: a share between 0 and 1 is needed",
        args.region
    );
    let bad = args.quantiles.iter().find(|probability| !(0.0..=1.0).contains(*probability));
    ensure!(bad.is_none(), "--quantiles {bad:?}: probabilities are from 0 to 1");
    let regressor = TabularRegressor::open(&args.run.local()?)?;
    let table = args.file.read_for(&regressor)?;
    let predictions = regressor.predict(&table)?;
    let mut writer = csv::Writer::from_writer(vec![]);
    writer.write_record(header(args, &regressor, &predictions))?;
    let key = Key::new(args.seed).split("samples");
    for (row, prediction) in predictions.iter().enumerate() {
        let mut cells = vec![table.line(row).to_string()];
        for (k, mean) in prediction.mean.iter().enumerate() {
            cells.push(mean.to_string());
            if let Some(density) = prediction.targets.get(k) {
                let mass = regressor.mass(k, args.region)?;
                cells.extend(density_cells(args, density, mass, key.index(row as u64).index(k as u64))?);
            }
        }
        if predictions.iter().any(|prediction| prediction.log_prob.is_some()) {
            cells.push(prediction.log_prob.map_or_else(String::new, |log_p| log_p.to_string()));
        }
        writer.write_record(cells)?;
    }
    let text = String::from_utf8(writer.into_inner().map_err(|error| error.into_error())?)?;
    match &args.out {
        Some(out) => write_atomic(out, text.as_bytes())?,
        None => print!("{text}"),
    }
    Ok(())
}

fn header(args: &TableArgs, regressor: &TabularRegressor, predictions: &[Prediction]) -> Vec<String> {
    let mut names = vec!["line".to_owned()];
    let has_density = predictions.first().is_some_and(|prediction| !prediction.targets.is_empty());
    for target in &regressor.fitted().targets {
        let name = &target.name;
        names.push(format!("{name}_mean"));
        if has_density {
            names.extend(["median", "mode"].map(|what| format!("{name}_{what}")));
            names.extend(args.quantiles.iter().map(|probability| format!("{name}_q{probability}")));
            names.push(format!("{name}_region{}", args.region));
            names.extend((1..=args.samples).map(|sample| format!("{name}_sample{sample}")));
        }
    }
    if predictions.iter().any(|prediction| prediction.log_prob.is_some()) {
        names.push("log_prob".to_owned());
    }
    names
}

/// Returns a density's median, mode, quantiles, region and samples. The intervals of a region are separated by bars.
fn density_cells(args: &TableArgs, density: &TargetDensity, mass: f64, key: Key) -> Result<Vec<String>> {
    let mode = density.modes().first().copied().unwrap_or(f64::NAN);
    let mut cells = vec![density.quantile(0.5)?.to_string(), mode.to_string()];
    for probability in &args.quantiles {
        cells.push(density.quantile(*probability)?.to_string());
    }
    let intervals = density.region(mass)?;
    cells.push(intervals.iter().map(|[from, to]| format!("{from} to {to}")).collect::<Vec<_>>().join(" | "));
    cells.extend(density.sample(args.samples, &mut key.rng()).iter().map(f64::to_string));
    Ok(cells)
}
