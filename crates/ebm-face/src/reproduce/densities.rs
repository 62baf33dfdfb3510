//! What the densities of a table's networks say, alone and of their own errors.

use std::rc::Rc;

use candle_core::{DType, Tensor};
use ebm_core::{Grid, GridDensity};
use ebm_eval::AbsoluteError;
use ebm_eval::calibration::risk_at_coverage;
use ebm_experiment::{Calibration, Predictions};

use super::networks::Entry;
use super::results::{DensityRow, Example, Row};
use crate::Result;
use crate::config::ExperimentConfig;
use crate::evaluation::{densities, estimates, nll, numbers};
use crate::network::{ENERGY, Head};
use crate::prediction::PROMINENCE;
use crate::training::Batch;

/// Coordinates of a y whose densities are computed for every image: with one more the product of their grids
/// is too large.
const MAX_DIM: usize = 2;
/// Images that are searched for the densities of such a y.
const SEARCHED: usize = 48;

/// The fewest validation images: a region of nine of ten y can not be told from fewer.
pub(super) const FEWEST: usize = 9;

/// The energy model alone, for the table of errors, and for each coordinate how good an entry's densities
/// are, where there are enough validation images beside those of the results.
pub(super) fn density_rows(config: &ExperimentConfig, entry: &Entry) -> Result<(Vec<Row>, Vec<DensityRow>)> {
    let (dim, grids) = (config.dim(), vec![config.density; config.dim()]);
    let of = |seen: &Batch| if dim > MAX_DIM { Ok(None) } else { densities(&entry.head, &seen.x, &grids) };
    let Some(found) = of(&entry.results)? else { return Ok((Vec::new(), Vec::new())) };
    let (rows, estimates) = if entry.head.is_energy() {
        (alone(entry, &found)?, medians(&found)?)
    } else {
        let outputs = entry.head.features(&entry.results.x)?;
        (Vec::new(), numbers(&estimates(&entry.head, &outputs)?)?)
    };
    if Rc::ptr_eq(&entry.validation, &entry.results) || entry.validation.y.dim(0)? < FEWEST {
        return Ok((rows, Vec::new()));
    }
    let Some(held_out) = of(&entry.validation)? else { return Ok((rows, Vec::new())) };
    let held_out = by_coordinate(held_out, &entry.validation.y)?;
    let mut calibration = Vec::new();
    for (k, (found, held_out)) in by_coordinate(found, &entry.results.y)?.iter().zip(&held_out).enumerate() {
        let estimates = estimates.iter().skip(k).step_by(dim);
        let errors: Vec<f64> = estimates.zip(&found.y).map(|(estimate, y)| (estimate - y).abs()).collect();
        let risk_coverage =
            risk_at_coverage(&errors, &found.widths(Calibration::NARROW)?, &DensityRow::ANSWERED)?;
        calibration.push(DensityRow {
            fold: None,
            method: entry.method.clone(),
            seed: entry.seed,
            coordinate: config.coordinates[k].clone(),
            calibration: found.calibration(held_out)?,
            risk_coverage,
        });
    }
    Ok((rows, calibration))
}

/// p(y | x) of each coordinate: of all images, or of the first [`SEARCHED`] where y has three coordinates.
pub(super) fn coordinate_densities(head: &Head, seen: &Batch, grid: &Grid) -> Result<Vec<Vec<GridDensity>>> {
    let (count, dim) = seen.y.dims2()?;
    let count = if dim > MAX_DIM { SEARCHED.min(count) } else { count };
    Ok(densities(head, &seen.x.narrow(0, 0, count)?, &vec![*grid; dim])?.unwrap_or_default())
}

/// The energy model without a baseline: mean, median and mode of the density of each coordinate.
fn alone(entry: &Entry, densities: &[Vec<GridDensity>]) -> Result<Vec<Row>> {
    let Batch { x, y } = &*entry.results;
    let likelihood = nll(&entry.head, x, y, densities)?;
    let of = |value: fn(&GridDensity) -> f64| densities.iter().flatten().map(value).collect::<Vec<f64>>();
    let row = |name: &str, values: Vec<f64>| -> Result<Row> {
        let error = AbsoluteError::new(&values, &numbers(y)?, y.dim(1)?)?;
        Ok(Row { nll: likelihood, ..Row::new(&format!("{ENERGY}_{name}"), false, entry.seed, error) })
    };
    Ok(vec![
        row("mean", of(GridDensity::mean))?,
        row("median", medians(densities)?)?,
        row("mode", of(GridDensity::mode))?,
    ])
}

fn medians(densities: &[Vec<GridDensity>]) -> Result<Vec<f64>> {
    Ok(densities.iter().flatten().map(|p| p.quantile(0.5)).collect::<ebm_core::Result<Vec<f64>>>()?)
}

/// The densities of each coordinate beside its targets, of y `(N, D)`.
fn by_coordinate(densities: Vec<Vec<GridDensity>>, y: &Tensor) -> Result<Vec<Predictions>> {
    let y = y.to_dtype(DType::F64)?.t()?.to_vec2::<f64>()?;
    let mut all: Vec<Predictions> = y.into_iter().map(|y| Predictions { densities: Vec::new(), y }).collect();
    for of_image in densities {
        for (predictions, density) in all.iter_mut().zip(of_image) {
            predictions.densities.push(density);
        }
    }
    Ok(all)
}

/// The most certain and the least certain images, and those with the most modes.
pub(super) fn examples(
    head: &Head,
    seen: &Batch,
    estimates: &[Tensor; 2],
    grid: &Grid,
) -> Result<Vec<Example>> {
    let densities = coordinate_densities(head, seen, grid)?;
    let entropy = |index: usize| densities[index].iter().map(GridDensity::entropy).sum::<f64>();
    let modes = |index: usize| densities[index].iter().map(|p| p.modes(PROMINENCE).len()).sum::<usize>();
    let mut by_entropy: Vec<usize> = (0..densities.len()).collect();
    by_entropy.sort_by(|&a, &b| entropy(a).total_cmp(&entropy(b)));
    let mut by_modes = by_entropy.clone();
    // Stable: among equals the most certain one, whose modes are the clearest.
    by_modes.sort_by_key(|&index| std::cmp::Reverse(modes(index)));
    by_modes.retain(|&index| modes(index) > seen.y.dims()[1]);
    let ends = [by_entropy.first(), by_entropy.get(densities.len() / 2), by_entropy.last()];
    let named = ends.into_iter().zip(["certain", "typical", "uncertain"]);
    let several = by_modes.iter().take(3).map(|index| (Some(index), "multimodal"));
    let mut chosen: Vec<Example> = Vec::new();
    let row = |tensor: &Tensor, index: usize| tensor.get(index)?.to_dtype(DType::F64)?.to_vec1::<f64>();
    for (index, reason) in named.chain(several) {
        if let Some(&index) = index
            && chosen.iter().all(|known| known.index != index)
        {
            let estimate = [row(&estimates[0], index)?, row(&estimates[1], index)?];
            let (target, density) = (row(&seen.y, index)?, densities[index].clone());
            chosen.push(Example { index, reason, target, estimate, density });
        }
    }
    Ok(chosen)
}
