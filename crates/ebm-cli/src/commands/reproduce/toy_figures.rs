//! Figures of `ebm reproduce toy`.

use std::path::Path;

use anyhow::Result;
use ebm_core::Grid;
use ebm_experiment::Calibration;
use ebm_plot::{DensityCurves, DensityMaps, DensityPanel, SeedPlot, SeedRow};
use ebm_toy::dataset::RANGE;
use ebm_toy::{Dataset, Points, Problem, Reference, Row, Trained};

use super::toy::{SHOWN, distance, names, of_dataset};
use crate::table_spec::grouped;

/// Number of columns of a panel's density over x.
const COLUMNS: usize = 360;
/// Number of grid points on y. Panels show the part in [`SHOWN_Y`].
const ROWS: usize = 481;
/// Range of y in the published figure.
const SHOWN_Y: [f64; 2] = [-1.5, 1.5];
/// x at which a density is drawn as a curve. The first problem has two modes there.
const CURVE_X: f64 = -1.5;
const CURVE_POINTS: usize = 2401;
/// KL divergence of the best Gaussian for each x of the first problem, which no Gaussian model can beat.
const BEST_GAUSSIAN: f64 = 0.69995;

/// Draws, for each dataset, the true density, if it is known, beside the densities of the first seed's models, and the
/// distances by method and seed.
pub fn figures(run: &Path, datasets: &[Dataset], results: &[(Row, Trained)]) -> Result<()> {
    for dataset in datasets {
        density_maps(run, dataset, results)?;
        let methods = grouped(of_dataset(dataset, results).map(|(row, _)| row), |row| &row.method);
        let seeds =
            methods.iter().map(|method| SeedRow { label: method.key.clone(), values: method.each(distance) });
        let truth = matches!(dataset.reference, Reference::Truth(_));
        let references = match dataset.problem {
            Problem::Dataset1 if truth => vec![(BEST_GAUSSIAN, "best Gaussian".to_owned())],
            _ => Vec::new(),
        };
        let [title, x_label, _] = names(dataset);
        let (rows, references) = (&seeds.collect::<Vec<_>>(), &references);
        // A divergence is positive.
        let figure = SeedPlot { title, x_label, rows, references, logarithmic: truth };
        ebm_plot::write(&figure, &run.join(format!("seeds_{}", dataset.name)))?;
    }
    Ok(())
}

fn density_maps(run: &Path, dataset: &Dataset, results: &[(Row, Trained)]) -> Result<()> {
    let problem = matches!(dataset.reference, Reference::Truth(_)).then_some(dataset.problem);
    // Points given by the user may be anywhere in the range.
    let shown_y = if problem.is_some() { SHOWN_Y } else { RANGE };
    let x = Grid::new(RANGE[0], RANGE[1], COLUMNS)?.points();
    let y = Grid::new(RANGE[0], RANGE[1], ROWS)?;
    let in_panel = |y: f64| (shown_y[0]..=shown_y[1]).contains(&y);
    let shown: Vec<f64> = y.points().into_iter().filter(|&y| in_panel(y)).collect();
    let mut columns: Vec<(&str, Vec<Vec<f64>>)> = Vec::new();
    if let Some(problem) = problem {
        let at = |x: f64| shown.iter().map(|&y| problem.log_prob(x, y).exp()).collect();
        columns.push(("Ground truth", x.iter().map(|&x| at(x)).collect()));
    }
    for method in SHOWN {
        // The first seed, not the best one.
        if let Some((_, trained)) = of_dataset(dataset, results).find(|(row, _)| row.method == method) {
            let title = if method == "ML-IS" { "Energy-based model" } else { method };
            columns.push((title, density(trained, &x, &y, in_panel)?));
            if let Some(problem) = problem.filter(|_| method == "ML-IS") {
                curves(run, problem, trained)?;
            }
        }
    }
    if columns.is_empty() {
        return Ok(());
    }
    let Points { x: xs, y: ys } = &dataset.points;
    let points: Vec<(f64, f64)> = xs.iter().zip(ys).map(|(&x, &y)| (f64::from(x), f64::from(y))).collect();
    let panels: Vec<DensityPanel> = columns
        .iter()
        .enumerate()
        .map(|(index, (title, density))| DensityPanel {
            title,
            density,
            points: if index == 0 || problem.is_none() { &points } else { &[] },
        })
        .collect();
    let [low, high] = [shown.first(), shown.last()].map(|y| y.copied().unwrap_or_default());
    let figure = DensityMaps { x: RANGE[0]..RANGE[1], y: low..high, names: ["x", "y"], panels: &panels };
    ebm_plot::write(&figure, &run.join(format!("figure2_{}", dataset.name)))?;
    Ok(())
}

/// Draws p(y | x) at one x: the model's beside the true one, with the model's 90 % highest-density region.
fn curves(run: &Path, problem: Problem, trained: &Trained) -> Result<()> {
    let y = Grid::new(RANGE[0], RANGE[1], CURVE_POINTS)?;
    let points = y.points();
    let inside = |y: f64| (SHOWN_Y[0]..=SHOWN_Y[1]).contains(&y);
    let grid: Vec<f64> = points.iter().copied().filter(|&y| inside(y)).collect();
    let truth = grid.iter().map(|&y| problem.log_prob(CURVE_X, y).exp()).collect();
    let density = trained.densities(&[CURVE_X], &y)?.remove(0);
    let region = density.highest_density_region(Calibration::LEVEL)?;
    let model = grid.iter().map(|&y| density.log_prob(y).exp()).collect();
    let figure = DensityCurves {
        title: &format!("{}, x = {CURVE_X}", problem.title()),
        y_label: "y",
        grid: &grid,
        curves: &[("Energy-based model".to_owned(), model), ("Ground truth".to_owned(), truth)],
        regions: &region.intervals,
        marks: &[],
    };
    ebm_plot::write(&figure, &run.join(format!("density_{}", problem.name())))?;
    Ok(())
}

/// Returns the model's normalised density at the shown points of `y`, for each x.
fn density(trained: &Trained, x: &[f64], y: &Grid, shown: impl Fn(f64) -> bool) -> Result<Vec<Vec<f64>>> {
    let densities = trained.densities(x, y)?.into_iter().map(|density| {
        let pairs = y.points().into_iter().zip(density.log_prob_values().to_vec());
        pairs.filter(|(y, _)| shown(*y)).map(|(_, log_p)| log_p.exp()).collect()
    });
    Ok(densities.collect())
}
