//! The figures of `ebm reproduce toy`.

use std::path::Path;

use anyhow::Result;
use candle_core::{DType, Tensor};
use ebm_core::{Grid, GridDensity};
use ebm_toy::calibration::LEVEL;
use ebm_toy::dataset::RANGE;
use ebm_toy::{Job, Problem, Row, Trained};

use super::toy::SHOWN;
use crate::plot::{self, DensityMaps, DensityPanel, SeedPlot, SeedRow, density_curve::DensityCurves};

/// Columns of a panel's density over x.
const COLUMNS: usize = 360;
/// Points on y, of which the panels show the part in [`SHOWN_Y`].
const ROWS: usize = 481;
/// The range of y in the published figure.
const SHOWN_Y: [f64; 2] = [-1.5, 1.5];
/// Where one density is shown as a curve: two modes in the first problem.
const CURVE_X: f64 = -1.5;
const CURVE_POINTS: usize = 2401;
/// KL of the best Gaussian for each x of the first problem, which no Gaussian model can beat.
const BEST_GAUSSIAN: f64 = 0.69995;

/// For each problem: the true density beside those of the models of the first seed, and KL by method and seed.
pub fn figures(run: &Path, jobs: &[Job<'_>], rows: &[Row], trained: &[Trained]) -> Result<()> {
    for problem in Problem::ALL {
        let own: Vec<usize> = (0..jobs.len()).filter(|&index| jobs[index].problem == problem).collect();
        let Some(&first) = own.first() else { continue };
        density_maps(run, jobs, trained, &own, first)?;

        let mut seeds: Vec<SeedRow> = Vec::new();
        for &index in &own {
            match seeds.iter_mut().find(|row| row.label == rows[index].method) {
                Some(row) => row.values.push(rows[index].kl),
                None => {
                    seeds.push(SeedRow { label: rows[index].method.clone(), values: vec![rows[index].kl] })
                }
            }
        }
        let references = match problem {
            Problem::Dataset1 => vec![(BEST_GAUSSIAN, "best Gaussian".to_owned())],
            Problem::Dataset2 => Vec::new(),
        };
        let figure = SeedPlot {
            title: problem.title(),
            x_label: "KL(truth ‖ model) in nats",
            rows: &seeds,
            references: &references,
            logarithmic: true,
        };
        plot::write(&figure, &run.join(format!("seeds_{}", problem.name())))?;
    }
    Ok(())
}

fn density_maps(
    run: &Path,
    jobs: &[Job<'_>],
    trained: &[Trained],
    own: &[usize],
    first: usize,
) -> Result<()> {
    let problem = jobs[first].problem;
    let x = Grid::new(RANGE[0], RANGE[1], COLUMNS)?.points();
    let y = Grid::new(RANGE[0], RANGE[1], ROWS)?;
    let in_panel = |y: f64| (SHOWN_Y[0]..=SHOWN_Y[1]).contains(&y);
    let shown: Vec<f64> = y.points().into_iter().filter(|&y| in_panel(y)).collect();
    let truth: Vec<Vec<f64>> =
        x.iter().map(|&x| shown.iter().map(|&y| problem.log_prob(x, y).exp()).collect()).collect();
    let mut columns = vec![("Ground truth", truth)];
    for method in SHOWN {
        // The first seed, not the best one.
        if let Some(&index) = own.iter().find(|&&index| jobs[index].method.name == method) {
            let title = if method == "ML-IS" { "Energy-based model" } else { method };
            columns.push((title, density(&trained[index], &x, &y, in_panel)?));
            if method == "ML-IS" {
                curves(run, problem, &trained[index])?;
            }
        }
    }
    let points = &jobs[first].points;
    let points: Vec<(f64, f64)> =
        points.x.iter().zip(&points.y).map(|(&x, &y)| (f64::from(x), f64::from(y))).collect();
    let panels: Vec<DensityPanel> = columns
        .iter()
        .enumerate()
        .map(|(index, (title, density))| DensityPanel {
            title,
            density,
            points: if index == 0 { &points } else { &[] },
        })
        .collect();
    let [low, high] = [shown.first(), shown.last()].map(|y| y.copied().unwrap_or_default());
    let figure = DensityMaps { x: RANGE[0]..RANGE[1], y: low..high, panels: &panels };
    plot::write(&figure, &run.join(format!("figure2_{}", problem.name())))?;
    Ok(())
}

/// p(y | x) at one x: the model's beside the true one, with the model's 90 % highest-density region.
fn curves(run: &Path, problem: Problem, trained: &Trained) -> Result<()> {
    let y = Grid::new(RANGE[0], RANGE[1], CURVE_POINTS)?;
    let points = y.points();
    let inside = |y: f64| (SHOWN_Y[0]..=SHOWN_Y[1]).contains(&y);
    let grid: Vec<f64> = points.iter().copied().filter(|&y| inside(y)).collect();
    let truth = grid.iter().map(|&y| problem.log_prob(CURVE_X, y).exp()).collect();
    let density = densities(trained, &[CURVE_X], &y)?.remove(0);
    let region = density.highest_density_region(LEVEL)?;
    let model = grid.iter().map(|&y| density.log_prob(y).exp()).collect();
    let figure = DensityCurves {
        title: &format!("{}, x = {CURVE_X}", problem.title()),
        y_label: "y",
        grid: &grid,
        curves: &[("Energy-based model".to_owned(), model), ("Ground truth".to_owned(), truth)],
        regions: &region.intervals,
        marks: &[],
    };
    plot::write(&figure, &run.join(format!("density_{}", problem.name())))?;
    Ok(())
}

/// The model's normalised density at the points of `y` that are shown, for each x.
fn density(trained: &Trained, x: &[f64], y: &Grid, shown: impl Fn(f64) -> bool) -> Result<Vec<Vec<f64>>> {
    let densities = densities(trained, x, y)?.into_iter().map(|density| {
        let pairs = y.points().into_iter().zip(density.log_prob_values().to_vec());
        pairs.filter(|(y, _)| shown(*y)).map(|(_, log_p)| log_p.exp()).collect()
    });
    Ok(densities.collect())
}

fn densities(trained: &Trained, x: &[f64], y: &Grid) -> Result<Vec<GridDensity>> {
    let column = |values: &[f64]| -> Result<Tensor> {
        Ok(Tensor::new(values, &candle_core::Device::Cpu)?.to_dtype(DType::F32)?.unsqueeze(1)?)
    };
    let f = trained.log_density(&column(x)?, &column(&y.points())?.t()?)?.to_dtype(DType::F64)?;
    f.to_vec2::<f64>()?.into_iter().map(|f| Ok(GridDensity::from_scores(y, &f)?)).collect()
}
