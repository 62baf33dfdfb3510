//! The gradient in the bias: the sums of the output's gradient over each filter.

use rayon::prelude::*;

use crate::ops::float::Float;
use crate::ops::layout::Order;

/// Pixels that are added up in the element type before the sums go on in f64.
const PIXELS: usize = 256;
/// Partial sums of a run of numbers, for the compiler to keep in a vector.
const LANES: usize = 16;

/// `db[o] = Σ dy` over the maps of filter o, for dy of `filters` channels of `pixels` each.
pub(super) fn bias_gradient<T: Float>(dy: &[T], (filters, pixels): (usize, usize), order: Order) -> Vec<T> {
    let mut sums = vec![0f64; filters];
    let partial: Vec<Vec<T>> = match order {
        Order::ChannelsFirst => dy
            .par_chunks(filters * pixels)
            .map(|image| image.chunks_exact(pixels).map(run_sum).collect())
            .collect(),
        Order::ChannelsLast => {
            dy.par_chunks(PIXELS * filters).map(|rows| column_sums(rows, filters)).collect()
        }
    };
    for partial in partial {
        sums.iter_mut().zip(partial).for_each(|(sum, part)| *sum += part.to_f64());
    }
    sums.into_iter().map(T::from_f64).collect()
}

fn column_sums<T: Float>(rows: &[T], columns: usize) -> Vec<T> {
    let mut sums = vec![T::zero(); columns];
    for row in rows.chunks_exact(columns) {
        sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += *value);
    }
    sums
}

fn run_sum<T: Float>(run: &[T]) -> T {
    let mut total = 0.0;
    for block in run.chunks(PIXELS) {
        let mut lanes = [T::zero(); LANES];
        for values in block.chunks(LANES) {
            lanes.iter_mut().zip(values).for_each(|(lane, value)| *lane += *value);
        }
        total += lanes.iter().map(|lane| lane.to_f64()).sum::<f64>();
    }
    T::from_f64(total)
}
