//! Precise RoI pooling: the average of the bilinear interpolant over each bin, differentiable in the box.
//!
//! With `F(u, v) = Σ F[y,x]·tent(u−y)·tent(v−x)`, `tent(t) = max(0, 1−|t|)` (pixel centres at integers, zero outside the map), bin
//! (p, q) of a box is `1/A ∬ F` over the bin. The integral separates: `out = Wy · F · Wxᵀ` per channel, where
//! `wx[q,x]` is the mean of `tent(·−x)` over bin q (file `weights`). The gradient in a coordinate is the same product with one
//! axis' weights replaced by their derivatives; the gradient in the map is `Wyᵀ · G · Wx`.
//!
//! The output is continuously differentiable in the box; its gradient has kinks, not jumps, at integer coordinates.
//! A box without area, or inverted, gives zero and a zero gradient.
//!
//! [`prroi_pool()`] works on tensors; [`forward`], [`backward_features`] and [`backward_rois`] work on slices, without a graph; [`Pyramid`] does,
//! with the channels innermost, where boxes have maps of several scales.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod pyramid;
mod tensor;
#[cfg(test)]
mod tests;
mod weights;

pub use super::roi::{ChannelsLast, Real};
pub use cpu::{backward_features, backward_rois, forward};
pub use pyramid::Pyramid;
pub use tensor::{prroi_pool, prroi_pool_box_gradient};

/// The name in errors.
const OP: &str = "prroi_pool";
