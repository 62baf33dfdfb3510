//! Precise RoI pooling: the average of the bilinear interpolant over each bin, differentiable in the box.
//!
//! With `F(u, v) = Σ F[y,x]·tent(u−y)·tent(v−x)`, `tent(t) = max(0, 1−|t|)` (pixel centres at integers, zero
//! outside the map), bin (p, q) of a box is `1/A ∬ F` over the bin. The integral separates:
//! `out = Wy · F · Wxᵀ` per channel, where `wx[q,x]` is the mean of `tent(·−x)` over bin q (file `weights`).
//! The gradient in a coordinate is the same product with one axis' weights replaced by their derivatives; the
//! gradient in the map is `Wyᵀ · G · Wx`.
//!
//! The output is continuously differentiable in the box. Its gradient has kinks, not jumps, at integer coordinates. A box
//! without area, or inverted, gives zero and a zero gradient.
//!
//! [`prroi_pool()`] works on tensors. [`Pyramid`] works on slices, without a graph and with the channels innermost, for boxes
//! on maps of several scales. [`Levels`] does the same on tensors on any device.

mod levels;
mod pyramid;
mod weights;

use candle_core::Tensor;

use super::{Axes, RoiPool};
use crate::error::Result;
pub use levels::Levels;
pub use pyramid::Pyramid;
pub(super) use weights::axis;

/// Name in errors.
pub(super) const OP: &str = "prroi_pool";

/// Pools boxes by precise RoI pooling (Jiang et al. 2018, "Acquisition of Localization Confidence for Accurate Object
/// Detection").
///
/// `features` is (N, C, H, W), `rois` (R, 5) with rows (image index, x0, y0, x1, y1) in pixels of the image, `out` = (ph,
/// pw), and `spatial_scale` = map pixels per image pixel. The result is (R, C, ph, pw), in f32 or f64. Differentiable once,
/// in `features` and in the four coordinates. A gradient is computed only for an argument that is tracked.
///
/// Channels-last views (see [`channels_last`](crate::nhwc::channels_last)) are read in place. Other maps are copied to
/// channels-last in each call, and the copy is kept for the backward pass if `rois` is tracked.
///
/// # Errors
/// [`Error::Argument`](crate::Error::Argument) if shapes or types do not fit, `out` has a zero, the scale is not positive and
/// finite, or (on the CPU) a row of `rois` is not finite or names an image that is not in the batch.
pub fn prroi_pool(
    features: &Tensor,
    rois: &Tensor,
    out: (usize, usize),
    spatial_scale: f64,
) -> Result<Tensor> {
    RoiPool { axes: Axes::Precise, out, spatial_scale }.forward(features, rois)
}
