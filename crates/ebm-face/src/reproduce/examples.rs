//! A few images with their densities.

use candle_core::{DType, Tensor};
use ebm_core::{Grid, GridDensity};

use super::densities::coordinate_densities;
use super::networks::Seen;
use super::results::Example;
use crate::Result;
use crate::network::Head;
use crate::prediction::PROMINENCE;

/// The most certain and the least certain images, and those with the most modes.
pub(super) fn examples(
    head: &Head,
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
