//! Densities of a table's networks: their calibration, and estimates from the energy model's density alone.

use std::rc::Rc;

use candle_core::{DType, Tensor};
use ebm_core::{Grid, GridDensity};
use ebm_eval::AbsoluteError;
use ebm_eval::calibration::risk_at_coverage;
use ebm_experiment::{Calibration, Predictions};

use super::networks::TrainedHead;
use super::results::{DensityRow, Example, Row};
use crate::Result;
use crate::config::ExperimentConfig;
use crate::evaluation::{densities, estimates, nll, numbers};
use crate::network::{ENERGY, Head};
use crate::prediction::PROMINENCE;
use crate::training::Batch;

/// Maximum dimension of y to compute the densities of every image. With three, the product of the grids is too large.
const MAX_DIM: usize = 2;
/// Number of images whose densities are computed if y has more coordinates.
const MAX_IMAGES: usize = 48;

/// Minimum number of validation images. Fewer cannot calibrate a region that holds 90 % of the targets.
pub(super) const MIN_VALIDATION: usize = 9;

/// Returns rows for the table of errors, if `entry` is an energy model, and a row on the densities of each coordinate,
/// if enough validation images exist that are not the images of the results.
pub(super) fn density_rows(
    config: &ExperimentConfig,
    entry: &TrainedHead,
) -> Result<(Vec<Row>, Vec<DensityRow>)> {
    let (dim, grids) = (config.dim(), vec![config.density; config.dim()]);
    let of = |batch: &Batch| if dim > MAX_DIM { Ok(None) } else { densities(&entry.head, &batch.x, &grids) };
    let Some(found) = of(&entry.results)? else { return Ok((Vec::new(), Vec::new())) };
    let (rows, estimates) = if entry.head.is_energy() {
        (energy_rows(entry, &found)?, medians(&found)?)
    } else {
        let outputs = entry.head.features(&entry.results.x)?;
        (Vec::new(), numbers(&estimates(&entry.head, &outputs)?)?)
    };
    if Rc::ptr_eq(&entry.validation, &entry.results) || entry.validation.y.dim(0)? < MIN_VALIDATION {
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

/// Returns p(y | x) of each coordinate for all images, or for the first [`MAX_IMAGES`] if y has three coordinates.
pub(super) fn coordinate_densities(head: &Head, batch: &Batch, grid: &Grid) -> Result<Vec<Vec<GridDensity>>> {
    let (count, dim) = batch.y.dims2()?;
    let count = if dim > MAX_DIM { MAX_IMAGES.min(count) } else { count };
    Ok(densities(head, &batch.x.narrow(0, 0, count)?, &vec![*grid; dim])?.unwrap_or_default())
}

/// Returns the rows of the energy model alone: mean, median and mode of each coordinate's density as estimates.
fn energy_rows(entry: &TrainedHead, densities: &[Vec<GridDensity>]) -> Result<Vec<Row>> {
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

/// Returns the densities of each coordinate with its targets, from y `(N, D)`.
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

/// Returns the images with the lowest, the median and the highest entropy, and those with the most modes.
pub(super) fn examples(
    head: &Head,
    batch: &Batch,
    estimates: &[Tensor; 2],
    grid: &Grid,
) -> Result<Vec<Example>> {
    let densities = coordinate_densities(head, batch, grid)?;
    let entropy = |index: usize| densities[index].iter().map(GridDensity::entropy).sum::<f64>();
    let modes = |index: usize| densities[index].iter().map(|p| p.modes(PROMINENCE).len()).sum::<usize>();
    let mut by_entropy: Vec<usize> = (0..densities.len()).collect();
    by_entropy.sort_by(|&a, &b| entropy(a).total_cmp(&entropy(b)));
    let mut by_modes = by_entropy.clone();
    // The sort is stable: among equals, the most certain image comes first. Its modes are the clearest.
    by_modes.sort_by_key(|&index| std::cmp::Reverse(modes(index)));
    by_modes.retain(|&index| modes(index) > batch.y.dims()[1]);
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
            let (target, density) = (row(&batch.y, index)?, densities[index].clone());
            chosen.push(Example { index, reason, target, estimate, density });
        }
    }
    Ok(chosen)
}
