//! The gradient in the bias: sums of the output's gradient over each filter.

use rayon::prelude::*;

/// Pixels that are added up in f32, before the sums are added in f64.
const PIXELS: usize = 256;

/// Returns `db[o] = Σ dy` over the maps of filter o, for dy with the filters innermost.
pub(super) fn bias_gradient(dy: &[f32], filters: usize) -> Vec<f32> {
    let partial: Vec<Vec<f32>> =
        dy.par_chunks(PIXELS * filters).map(|rows| column_sums(rows, filters)).collect();
    let mut sums = vec![0f64; filters];
    for partial in partial {
        sums.iter_mut().zip(partial).for_each(|(sum, part)| *sum += f64::from(part));
    }
    sums.into_iter().map(|sum| sum as f32).collect()
}

fn column_sums(rows: &[f32], columns: usize) -> Vec<f32> {
    let mut sums = vec![0.0; columns];
    for row in rows.chunks_exact(columns) {
        sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += *value);
    }
    sums
}
