//! RoIAlign: the mean of bilinear samples on a regular grid in each bin.

use candle_core::Tensor;

use super::{Axes, AxisWeights, RoiPool, Span};
use crate::error::Result;
use crate::float::Float;

/// Pools boxes by RoIAlign (He et al. 2017, "Mask R-CNN") with torchvision's conventions.
///
/// `features` is (N, C, H, W), `rois` (R, 5) with rows (image index, x0, y0, x1, y1) in pixels of the image, `out` = (ph,
/// pw), and `spatial_scale` = map pixels per image pixel. The result is (R, C, ph, pw), in f32 or f64. Each bin averages
/// `sampling_ratio`² samples, or ⌈box size / bins⌉ each way if it is 0. With `aligned` the box is shifted by half a pixel.
/// Without, as in the detector, a box is at least one pixel wide and high. Samples further than one pixel outside the map
/// count as zero, and nearer ones take the border's value.
///
/// Differentiable in `features` only: the gradient in the coordinates is zero, as in torchvision. Channels-last views (see
/// [`channels_last`](crate::nhwc::channels_last)) are read in place.
///
/// # Errors
/// [`Error::Argument`](crate::Error::Argument) if shapes or types do not fit, `out` has a zero, the scale is not positive and
/// finite, or (on the CPU) a row of `rois` is not finite or names an image that is not in the batch.
pub fn roi_align(
    features: &Tensor,
    rois: &Tensor,
    out: (usize, usize),
    spatial_scale: f64,
    sampling_ratio: usize,
    aligned: bool,
) -> Result<Tensor> {
    RoiPool { axes: Axes::Align { sampling_ratio, aligned }, out, spatial_scale }.forward(features, rois)
}

/// Fills the weights of an axis of a box by bin, on a map of `size` pixels along it.
pub(super) fn axis<T: Float>(
    sampling_ratio: usize,
    aligned: bool,
    Span { start, end }: Span,
    bins: usize,
    size: usize,
    to: &mut AxisWeights<T>,
) {
    to.clear();
    let shift = if aligned { 0.5 } else { 0.0 };
    let start = start - shift;
    let length = (end - shift - start).max(if aligned { f64::NEG_INFINITY } else { 1.0 });
    let bin_length = length / bins as f64;
    let grid = if sampling_ratio > 0 { sampling_ratio as f64 } else { bin_length.ceil().max(0.0) };
    let step = bin_length / grid;
    for bin in 0..bins {
        let origin = start + bin as f64 * bin_length;
        // If a grid reaches far outside, only its samples in [-1, size] are visited.
        let (skipped, visited) = if sampling_ratio > 0 {
            (0.0, sampling_ratio)
        } else {
            let skipped = ((-2.0 - origin) / step).floor().clamp(0.0, grid);
            (skipped, (grid - skipped).min(2.0 * size as f64 + 8.0) as usize)
        };
        for sample in 0..visited {
            let position = origin + (skipped + sample as f64 + 0.5) * step;
            add_sample(position, size, 1.0 / grid, to);
        }
        to.end_row();
    }
}

/// Adds the two weights of linear interpolation at `position`, which is clamped to the map if less than a
/// pixel outside.
fn add_sample<T: Float>(position: f64, size: usize, weight: f64, to: &mut AxisWeights<T>) {
    if size == 0 || !(-1.0..=size as f64).contains(&position) {
        return;
    }
    let position = position.clamp(0.0, (size - 1) as f64);
    let low = position as usize;
    let fraction = position - low as f64;
    to.add(low, weight * (1.0 - fraction));
    if fraction > 0.0 {
        to.add(low + 1, weight * fraction);
    }
}
