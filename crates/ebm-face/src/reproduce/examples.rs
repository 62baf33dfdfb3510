//! A few images with their densities.

use candle_core::{DType, Device, Tensor};
use ebm_core::{EnergyModel, Grid, GridDensity};

use super::densities::coordinate_densities;
use super::heads::Seen;
use super::results::Example;
use crate::evaluation::numbers;
use crate::{EnergyHead, Result};

/// How far, in nats, log p has to fall between two modes that count.
const PROMINENCE: f64 = 0.3;

/// The most certain and the least certain images, and those with the most modes.
pub(super) fn examples(
    head: &EnergyHead,
    seen: &Seen,
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
    let ends = [by_entropy.first(), by_entropy.get(densities.len() / 2), by_entropy.last()];
    let named = ends.into_iter().zip(["certain", "typical", "uncertain"]);
    let mut chosen: Vec<(usize, &'static str)> = Vec::new();
    let several = by_modes
        .iter()
        .filter(|&&index| modes(index) > seen.y.dims()[1])
        .map(|index| (Some(index), "multimodal"));
    for (index, reason) in named.chain(several.take(3)) {
        if let Some(&index) = index
            && chosen.iter().all(|(known, _)| *known != index)
        {
            chosen.push((index, reason));
        }
    }
    let row = |tensor: &Tensor, index: usize| tensor.get(index)?.to_dtype(DType::F64)?.to_vec1::<f64>();
    chosen
        .into_iter()
        .map(|(index, reason)| {
            Ok(Example {
                index,
                reason,
                target: row(&seen.y, index)?,
                estimate: [row(&estimates[0], index)?, row(&estimates[1], index)?],
                density: densities[index].clone(),
                joint: joint(head, &seen.g_x.narrow(0, index, 1)?, grid, seen.y.dim(1)?)?,
            })
        })
        .collect()
}

/// p(y | x) of a y with two coordinates at the points of the grid for both: a list for each value of the
/// first. None for other y.
fn joint(head: &EnergyHead, g_x: &Tensor, grid: &Grid, dim: usize) -> Result<Option<Vec<Vec<f64>>>> {
    if dim != 2 {
        return Ok(None);
    }
    let (features, points) = (head.features(g_x)?, grid.points());
    let conditional = head.bind(&features, 1);
    let mut columns = Vec::with_capacity(points.len());
    for &first in &points {
        let y: Vec<f32> = points.iter().flat_map(|&second| [first as f32, second as f32]).collect();
        let f = conditional.score(&Tensor::from_vec(y, (1, points.len(), 2), &Device::Cpu)?)?;
        columns.push(numbers(&f.detach())?);
    }
    let marginals = conditional.marginals(&[*grid; 2])?;
    let log_z = marginals.first().and_then(|axes| axes.first()).map_or(0.0, GridDensity::log_z);
    columns.iter_mut().flatten().for_each(|value| *value = (*value - log_z).exp());
    Ok(Some(columns))
}
