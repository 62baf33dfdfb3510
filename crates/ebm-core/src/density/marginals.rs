//! p(y | x) of a y with two or three coordinates, on a product of grids.

use candle_core::{DType, Device, Tensor};

use super::scores::{candidates_per_pass, scores};
use super::{Grid, GridDensity};
use crate::log_sum::LogSum;
use crate::{EnergyModel, Error, Result, check};

/// See [`Conditional::marginals`](crate::Conditional::marginals).
pub(crate) fn grid_marginals<M: EnergyModel>(
    model: &M,
    features: &M::Features,
    batch: usize,
    dtype: DType,
    device: &Device,
    grids: &[Grid],
) -> Result<Vec<Vec<GridDensity>>> {
    check::setting("batch", batch > 0, batch, "at least 1")?;
    let total = grids.iter().try_fold(1usize, |total, grid| total.checked_mul(grid.num_points()));
    let total = total.filter(|_| (1..=3).contains(&grids.len())).ok_or_else(|| Error::Setting {
        name: "grids",
        value: format!("{grids:?}"),
        expected: "one to three; in more dimensions use ImportanceDensity",
    })?;

    let mut sums: Vec<Vec<Vec<LogSum<f64>>>> =
        vec![grids.iter().map(|grid| vec![LogSum::empty(); grid.num_points()]).collect(); batch];
    let pass = candidates_per_pass(batch);
    for start in (0..total).step_by(pass) {
        let places: Vec<Vec<usize>> =
            (start..total.min(start + pass)).map(|index| place(index, grids)).collect();
        let points = places.iter().flat_map(|place| grids.iter().zip(place).map(|(grid, &k)| grid.point(k)));
        let y = Tensor::from_vec(points.collect(), (1, places.len(), grids.len()), &Device::Cpu)?;
        let y = y.to_dtype(dtype)?.to_device(device)?;
        let f = scores(model, features, &y.broadcast_as((batch, places.len(), grids.len()))?)?;
        for (sums, f) in sums.iter_mut().zip(f) {
            for (place, f) in places.iter().zip(f) {
                let term = f + grids.iter().zip(place).map(|(grid, &k)| grid.log_weight(k)).sum::<f64>();
                for (axis, &k) in sums.iter_mut().zip(place) {
                    axis[k].add(term);
                }
            }
        }
    }

    let marginals = |(x, axes): (usize, Vec<Vec<LogSum<f64>>>)| {
        let densities = axes.into_iter().zip(grids).map(|(axis, grid)| {
            // The coordinate's own weight belongs to its own integral.
            let f = axis.iter().enumerate().map(|(k, sum)| sum.value() - grid.log_weight(k));
            GridDensity::normalise(*grid, f.collect(), x)
        });
        densities.collect()
    };
    sums.into_iter().enumerate().map(marginals).collect()
}

/// The place on each grid of point `index` of their product; the last grid varies fastest.
fn place(mut index: usize, grids: &[Grid]) -> Vec<usize> {
    let mut place = vec![0; grids.len()];
    for (k, grid) in place.iter_mut().zip(grids).rev() {
        *k = index % grid.num_points();
        index /= grid.num_points();
    }
    place
}
