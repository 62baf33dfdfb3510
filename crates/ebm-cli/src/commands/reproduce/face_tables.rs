//! Tables of `ebm reproduce age` and `head-pose`, as text and as CSV, and their figures.

use std::path::Path;

use anyhow::Result;
use ebm_data::encode::write_png;
use ebm_face::config::ExperimentConfig;
use ebm_face::network::ENERGY;
use ebm_face::reproduce::{AblationRow, Data, DensityRow, Outcome, PairedRow, Row};

use crate::picture::{density_panel, grid, level};
use crate::table_spec::{Group, TableSpec, grouped, joined};

/// Row of a table: its title, the method of its results, and the published results.
struct Line {
    title: String,
    key: String,
    refined: bool,
    published: Vec<Option<String>>,
}

impl Line {
    fn new(title: &str, key: &str, refined: bool, published: Vec<Option<String>>) -> Self {
        Self { title: title.to_owned(), key: key.to_owned(), refined, published }
    }

    /// Returns the finite values of the method's rows.
    fn each(&self, outcome: &Outcome, refined: bool, value: impl Fn(&Row) -> Option<f64>) -> Vec<f64> {
        let rows = outcome.rows.iter().filter(|row| row.method == self.key && row.refined == refined);
        rows.filter_map(value).filter(|value| value.is_finite()).collect()
    }
}

/// Formats a published mean and its spread.
fn published(figure: Option<[f64; 2]>) -> Option<String> {
    figure.map(|[mean, spread]| format!("{mean:.2} ± {spread:.2}"))
}

/// Returns the table of each method before and after refinement, and of the energy model alone.
pub fn methods(config: &ExperimentConfig, outcome: &Outcome) -> Result<String> {
    let methods = config.methods.iter().map(|method| {
        let figures = [method.published, method.published_refined].map(published);
        Line::new(&method.title, &method.key, false, figures.to_vec())
    });
    let quoted = config
        .quoted
        .iter()
        .map(|row| Line::new(&row.title, "", false, vec![Some(format!("{:.2}", row.published)), None]));
    let alone = ["mean", "median", "mode"].map(|name| {
        Line::new(&format!("EBM alone, {name} of p(y|x)"), &format!("{ENERGY}_{name}"), false, vec![None; 2])
    });
    let alone = alone.into_iter().filter(|line| outcome.rows.iter().any(|row| row.method == line.key));
    TableSpec::new()
        .text("method", |line: &Line| line.title.clone())
        .spread("MAE", 2, |line| line.each(outcome, false, |row| Some(row.mae)))
        .spread("refined", 2, |line| line.each(outcome, true, |row| Some(row.mae)))
        .spread("NLL", 2, |line| line.each(outcome, false, |row| row.nll))
        .optional("paper: MAE", |line| line.published[0].clone())
        .optional("refined", |line| line.published[1].clone())
        .render(methods.chain(quoted).chain(alone))
}

/// Returns the table of each coordinate's error before and after refinement, beside the paper's.
pub fn coordinates(config: &ExperimentConfig, outcome: &Outcome) -> Result<String> {
    let methods = config.methods.iter().flat_map(|method| {
        [(false, ""), (true, ", refined")].map(|(refined, suffix)| {
            let figures = method.published_coordinates.as_ref().map(|parts| &parts[usize::from(refined)]);
            let figure = |k: usize| published(figures.and_then(|figures| figures.get(k).copied()));
            let title = format!("{}{suffix}", method.title);
            Line::new(&title, &method.key, refined, (0..config.dim()).map(figure).collect())
        })
    });
    let quoted = config.quoted.iter().map(|row| {
        let published = row.published_coordinates.iter().map(|figure| Some(format!("{figure:.2}")));
        Line::new(&row.title, "", false, published.collect())
    });
    let mut table = TableSpec::new().text("method", |line: &Line| line.title.clone());
    for (k, name) in config.coordinates.iter().enumerate() {
        let of_row = move |row: &Row| row.coordinates.get(k).copied();
        table = table.spread(name, 2, move |line| line.each(outcome, line.refined, of_row));
    }
    for (k, name) in config.coordinates.iter().enumerate() {
        let title = if k == 0 { format!("paper: {name}") } else { name.clone() };
        table = table.optional(&title, move |line| line.published[k].clone());
    }
    table.render(methods.chain(quoted))
}

/// Returns the names and values of a [`DensityRow`]'s columns.
fn density_figures(row: &DensityRow) -> Vec<(&'static str, f64)> {
    let c = &row.calibration;
    let mut figures = vec![
        ("nll", c.nll),
        ("crps", c.crps),
        ("ece", c.ece),
        ("coverage_50", c.coverage_50),
        ("width_50", c.width_50),
        ("conformal_coverage_50", c.conformal_coverage_50),
        ("conformal_width_50", c.conformal_width_50),
        ("coverage", c.coverage),
        ("width", c.width),
        ("conformal_coverage", c.conformal_coverage),
        ("conformal_width", c.conformal_width),
    ];
    figures
        .extend(["mae_25", "mae_50", "mae_75", "mae_100"].into_iter().zip(row.risk_coverage.iter().copied()));
    figures
}

/// Returns the table of the densities' metrics, as means over folds and seeds.
pub fn calibration(rows: &[DensityRow]) -> Result<String> {
    type Own<'a> = Group<'a, (&'a String, &'a String), DensityRow>;
    let figures = rows.first().map(density_figures).unwrap_or_default();
    let mean = |group: &Own<'_>, k: usize| {
        let values = group.each(|row| density_figures(row)[k].1);
        values.iter().sum::<f64>() / values.len() as f64
    };
    TableSpec::new()
        .text("method", |group: &Own<'_>| group.key.0.clone())
        .text("of", |group| group.key.1.clone())
        .numbers(figures.iter().map(|(name, _)| *name), 2, mean)
        .render(grouped(rows, |row| (&row.method, &row.coordinate)))
}

/// Returns the table of the differences that refinement makes, one row for each method and fold.
pub fn paired(config: &ExperimentConfig, outcome: &Outcome) -> Result<String> {
    let rows = outcome.paired.iter().map(|row| Ok((config.method(&row.method)?.title.clone(), row)));
    let rows = rows.collect::<Result<Vec<_>>>()?;
    TableSpec::new()
        .text("method", |(title, _): &(String, &PairedRow)| title.clone())
        .optional("fold", |(_, row)| row.fold)
        .text("difference", |(_, row)| format!("{:+.3}", row.difference.mean))
        .text("95 %", |(_, row)| {
            format!("{:+.3} to {:+.3}", row.difference.interval[0], row.difference.interval[1])
        })
        .number("nearer", 2, |(_, row)| row.difference.lower)
        .render(rows)
}

/// Returns the table of the energy model's ablation and objectives.
pub fn ablation(config: &ExperimentConfig, outcome: &Outcome) -> Result<String> {
    let title = |key: &String| {
        let known = config.objectives.iter().find(|objective| objective.key == *key);
        known.map_or_else(|| "the table's own".to_owned(), |objective| objective.title.clone())
    };
    TableSpec::new()
        .text("σ or objective", |row: &&AblationRow| {
            row.objective.as_ref().map_or_else(|| joined(&row.sigmas, ", "), title)
        })
        .exact("λ", |row| row.step_length)
        .numbers(["MAE", "before"], 2, |row, k| [row.mae, row.mae_before][k])
        .text("lowered", |row| row.lowered)
        .number("paper: MAE", 2, |row| row.published)
        .render(&outcome.ablation)
}

/// Writes CSV files: `results.csv` with a row for each method and seed, before and after refinement, `calibration.csv`
/// if densities were calibrated, and `ablation.csv` if energy models were compared. Their rows begin with the date, the
/// machine and the images of the measurement. `paired.csv` has the differences that refinement makes.
pub fn csv_files(
    run: &Path,
    config: &ExperimentConfig,
    scale: &str,
    data: &Data,
    outcome: &Outcome,
) -> Result<()> {
    let (mut rows, mut densities) =
        (measured(scale, outcome.part, outcome.images), measured(scale, outcome.part, outcome.images));
    if outcome.rows.iter().any(|row| row.fold.is_some()) {
        rows = rows.optional("fold", |row: &Row| row.fold);
        densities = densities.optional("fold", |row: &DensityRow| row.fold);
    }
    // With a single coordinate its error is the mean itself.
    let coordinates = config.coordinates.iter().filter(|_| config.dim() > 1);
    rows.text("method", |row| row.method.clone())
        .text("refined", |row| row.refined)
        .text("seed", |row| row.seed)
        .number("mae", 4, |row| row.mae)
        .numbers(coordinates, 4, |row, k| row.coordinates.get(k).copied())
        .number("nll", 4, |row| row.nll)
        .write_csv(&run.join("results.csv"), &outcome.rows)?;
    if let Some(first) = outcome.calibration.first() {
        densities
            .text("method", |row| row.method.clone())
            .text("seed", |row| row.seed)
            .text("coordinate", |row| row.coordinate.clone())
            .numbers(density_figures(first).iter().map(|(name, _)| *name), 4, |row, k| {
                density_figures(row)[k].1
            })
            .write_csv(&run.join("calibration.csv"), &outcome.calibration)?;
    }
    if !outcome.ablation.is_empty() {
        measured(scale, "validation", data.validation.faces.len())
            .text("objective", |row: &AblationRow| {
                row.objective.clone().unwrap_or_else(|| format!("sigmas {}", joined(&row.sigmas, " ")))
            })
            .text("seed", |_| 0)
            .exact("step_length", |row| row.step_length)
            .numbers(["mae", "mae_before"], 4, |row, k| [row.mae, row.mae_before][k])
            .text("lowered", |row| row.lowered)
            .exact("published", |row| row.published)
            .write_csv(&run.join("ablation.csv"), &outcome.ablation)?;
    }
    if outcome.paired.is_empty() {
        return Ok(());
    }
    TableSpec::new()
        .optional("fold", |row: &PairedRow| row.fold)
        .text("method", |row| row.method.clone())
        .number("difference", 4, |row| row.difference.mean)
        .numbers(["low", "high"], 4, |row, k| row.difference.interval[k])
        .number("nearer", 4, |row| row.difference.lower)
        .write_csv(&run.join("paired.csv"), &outcome.paired)
}

/// Returns the columns that begin a CSV file: date, machine, scale, split and number of images.
fn measured<'a, R>(scale: &'a str, split: &'a str, images: usize) -> TableSpec<'a, R> {
    let table = TableSpec::measured().text("scale", move |_| scale);
    table.text("split", move |_| split).text("images", move |_| images)
}

/// Draws `densities.png`, a row for each example: the image, then p(y | x) of each coordinate.
pub fn figures(run: &Path, config: &ExperimentConfig, data: &Data, outcome: &Outcome) -> Result<()> {
    if outcome.examples.is_empty() {
        return Ok(());
    }
    let baseline = config.methods.first().map_or("baseline", |method| method.title.as_str());
    let mut rows = Vec::new();
    for example in &outcome.examples {
        let Some(face) = data.results().faces.get(example.index) else { continue };
        let mut panels = vec![face.pixels.decode()?];
        for (k, name) in config.coordinates.iter().enumerate() {
            let [before, after] = example.estimate.each_ref().map(|estimate| estimate[k]);
            panels.push(density_panel(
                &format!("{}: {name}", example.reason),
                &format!("{name} in {}", config.unit),
                &example.density[k],
                &[(example.target[k], "truth"), (before, baseline), (after, "refined")],
            )?);
        }
        rows.push(level(&panels));
    }
    Ok(write_png(&run.join("densities.png"), &grid(&rows, [255; 3])?)?)
}
