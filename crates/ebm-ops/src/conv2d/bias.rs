//! The gradient in the bias: the sums of the output's gradient over each filter.

use rayon::prelude::*;

use super::geometry::Geometry;
use crate::layout::Order;

/// Pixels that are added up in f32 before the sums go on in f64.
const PIXELS: usize = 256;
/// Partial sums of a run of numbers, for the compiler to keep in a vector.
const LANES: usize = 16;

/// `db[o] = Σ dy` over the maps of filter o, for dy in this order.
pub(super) fn bias_gradient(dy: &[f32], g: &Geometry, order: Order) -> Vec<f32> {
    let (filters, pixels) = (g.filters, g.pixels());
    let mut sums = vec![0f64; filters];
    let partial: Vec<Vec<f32>> = match order {
        Order::ChannelsFirst => dy
            .par_chunks(filters * pixels)
            .map(|image| image.chunks_exact(pixels).map(run_sum).collect())
            .collect(),
        Order::ChannelsLast => {
            dy.par_chunks(PIXELS * filters).map(|rows| column_sums(rows, filters)).collect()
        }
    };
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

fn run_sum(run: &[f32]) -> f32 {
    let mut total = 0.0;
    for block in run.chunks(PIXELS) {
        let mut lanes = [0f32; LANES];
        for values in block.chunks(LANES) {
            lanes.iter_mut().zip(values).for_each(|(lane, value)| *lane += *value);
        }
        total += lanes.iter().map(|lane| f64::from(*lane)).sum::<f64>();
    }
    total as f32
}
