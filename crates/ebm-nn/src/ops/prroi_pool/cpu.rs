//! PrRoIPool on slices.

use rayon::prelude::*;

use super::super::roi::{
    self, BoxWeights, ChannelsLast, GradTile, Real, Roi, RoiKernel, by_place, check_settings, detect, parse,
    roi_grad_box,
};
use super::{OP, weights};
use crate::error::{Error, Result};

/// Pools `features` in R boxes, `rois` being R rows of (image index, x0, y0, x1, y1): the output (R, C, ph, pw).
/// Coordinates times `spatial_scale` are pixels of the map.
///
/// # Errors
/// [`Error::Argument`] where `out` has a zero, the scale is not positive and finite, a row of `rois` is incomplete or not
/// finite, or names an image that is not in the batch.
pub fn forward<T: Real>(
    features: &ChannelsLast<'_, T>,
    rois: &[T],
    out: (usize, usize),
    spatial_scale: f64,
) -> Result<Vec<T>> {
    let shape = features.shape();
    let boxes = boxes(rois, shape.0, out, spatial_scale)?;
    Ok(roi::forward(features, &boxes, out, fill(shape, out)))
}

/// The gradient in the map, (N, C, H, W), from `grad` (R, C, ph, pw); `shape` is the map's (N, C, H, W).
///
/// The map itself is not needed. Every sum has one order, whatever the number of threads.
///
/// # Errors
/// As [`forward`], and where `grad` has not R·C·ph·pw elements.
pub fn backward_features<T: Real>(
    shape: (usize, usize, usize, usize),
    rois: &[T],
    out: (usize, usize),
    spatial_scale: f64,
    grad: &[T],
) -> Result<Vec<T>> {
    let boxes = boxes(rois, shape.0, out, spatial_scale)?;
    check_grad(grad.len(), boxes.len(), shape.1, out)?;
    Ok(roi::backward_features(shape, &boxes, out, grad, fill(shape, out)))
}

/// The gradient in the boxes, (R, 5), from `grad` (R, C, ph, pw). The image index' gradient is zero.
///
/// # Errors
/// As [`forward`], and where `grad` has not R·C·ph·pw elements.
pub fn backward_rois<T: Real>(
    features: &ChannelsLast<'_, T>,
    rois: &[T],
    out: (usize, usize),
    spatial_scale: f64,
    grad: &[T],
) -> Result<Vec<T>> {
    let shape @ (images, c, _, w) = features.shape();
    let boxes = boxes(rois, images, out, spatial_scale)?;
    check_grad(grad.len(), boxes.len(), c, out)?;
    let mut result = vec![T::zero(); rois.len()];
    let bins = out.0 * out.1;
    if c == 0 {
        return Ok(result);
    }
    let level = detect();
    let fill = fill(shape, out);
    let work = result.chunks_exact_mut(5).zip(grad.chunks_exact(c * bins)).zip(&boxes).collect();
    by_place(work).into_par_iter().for_each_init(
        || (BoxWeights::default(), GradTile::new(c, bins), RoiKernel::new(c)),
        |(weights, tile, scratch), ((result, grad), roi)| {
            fill(roi, weights);
            if weights.is_zero() {
                return;
            }
            weights.transpose();
            tile.load(grad, c, bins);
            let mut coordinates = [0.0; 4];
            roi_grad_box(level, features.image(roi.image), w, weights, &tile.tile, scratch, &mut coordinates);
            for (to, value) in result.iter_mut().skip(1).zip(coordinates) {
                *to = T::from_f64(value * spatial_scale);
            }
        },
    );
    Ok(result)
}

fn boxes<T: Real>(rois: &[T], images: usize, out: (usize, usize), spatial_scale: f64) -> Result<Vec<Roi>> {
    check_settings(OP, out, spatial_scale)?;
    parse(OP, rois, images, spatial_scale)
}

fn check_grad(len: usize, boxes: usize, channels: usize, out: (usize, usize)) -> Result<()> {
    if len == boxes * channels * out.0 * out.1 {
        return Ok(());
    }
    let reason =
        format!("the gradient has {len} numbers; expected are {boxes} x {channels} x {} x {}", out.0, out.1);
    Err(Error::Argument { op: OP, reason })
}

fn fill<T: Real>(
    shape: (usize, usize, usize, usize),
    out: (usize, usize),
) -> impl Fn(&Roi, &mut BoxWeights<T>) + Sync {
    move |roi, to| weights::fill(roi, out, (shape.2, shape.3), to)
}
