//! Label of the classifier: a Gaussian about the target.

use candle_core::{Device, Tensor};

use crate::Result;

/// Returns the shift of the output of a same-size convolution, in cells: 0.5 for an even kernel, else 0.
pub(super) fn kernel_shift(kernel: usize) -> f64 {
    if kernel.is_multiple_of(2) { 0.5 } else { 0.0 }
}

/// Returns a Gaussian label `(1, size, size)` with standard deviation `sigma` cells, for a filter of `kernel²` taps.
/// Its centre is `offset` = (y, x) cells from the centre of the grid.
pub(super) fn gaussian_label(
    size: usize,
    kernel: usize,
    sigma: f64,
    offset: [f64; 2],
    device: &Device,
) -> Result<Tensor> {
    let middle = (size as f64 - 1.0) / 2.0;
    let profile = |offset: f64| -> Vec<f64> {
        let distance = |cell: usize| cell as f64 - middle - offset - kernel_shift(kernel);
        (0..size).map(|cell| (-0.5 * (distance(cell) / sigma).powi(2)).exp()).collect()
    };
    let [rows, columns] = offset.map(profile);
    let values = rows.iter().flat_map(|y| columns.iter().map(move |x| (y * x) as f32)).collect();
    Ok(Tensor::from_vec(values, (1, size, size), device)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_its_golden_values() {
        let label = gaussian_label(18, 4, 0.9, [0.0, 0.0], &Device::Cpu).unwrap();
        let row = label.squeeze(0).unwrap().to_vec2::<f32>().unwrap()[9].clone();
        let beside = (-0.5f32 / 0.81).exp();
        for (cell, expected) in [(8, beside), (9, 1.0), (10, beside)] {
            assert!((row[cell] - expected).abs() < 1e-6, "{cell}: {}", row[cell]);
        }
    }

    #[test]
    fn an_offset_moves_it() {
        let at = |offset| gaussian_label(18, 4, 0.9, offset, &Device::Cpu).unwrap().squeeze(0).unwrap();
        let (centred, moved) =
            (at([0.0, 0.0]).to_vec2::<f32>().unwrap(), at([2.0, -3.0]).to_vec2::<f32>().unwrap());
        for y in 2..18 {
            for x in 0..15 {
                assert!((moved[y][x] - centred[y - 2][x + 3]).abs() < 1e-6);
            }
        }
    }
}
