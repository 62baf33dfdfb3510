//! The convolution as a product with the image's columns. In f64 it is the reference for tests of the kernels in f32. It also
//! serves GPUs without cuDNN, where candle's own convolution has no right gradient.

use std::ops::Range;

use candle_core::{Result as CandleResult, Shape, Tensor};
use rayon::prelude::*;

use super::geometry::Geometry;
use crate::Result;
#[cfg(feature = "cuda")]
use crate::cuda;
use crate::float::Float;
use crate::kernel::{Apply, Gradients, Kernel};

/// Numbers of columns that are computed at a time, unless one image has more: 1 GiB of f32.
const COLUMNS: usize = 1 << 28;

/// Computes x (N, C, H, W), w (O, C, kh, kw) -> (N, O, oh, ow), differentiable in both.
pub(super) fn conv2d(x: &Tensor, w: &Tensor, g: &Geometry) -> Result<Tensor> {
    let [out_h, out_w] = g.output();
    let w = w.reshape((1, g.filters, g.depth()))?;
    let each = (COLUMNS / (g.depth() * g.pixels())).clamp(1, g.batch);
    let mut parts = Vec::new();
    for start in (0..g.batch).step_by(each) {
        let batch = each.min(g.batch - start);
        let x = x.narrow(0, start, batch)?;
        let columns = if g.is_pointwise() {
            x.contiguous()?.reshape((batch, g.channels, g.plane()))?
        } else {
            Columns { geometry: Geometry { batch, ..*g }, adjoint: false }.apply([&x])?
        };
        parts.push(w.broadcast_as((batch, g.filters, g.depth()))?.contiguous()?.matmul(&columns)?);
    }
    let y = if parts.len() == 1 { parts.remove(0) } else { Tensor::cat(&parts, 0)? };
    Ok(y.reshape((g.batch, g.filters, out_h, out_w))?)
}

/// Kernel from x (N, C, H, W) to its columns (N, C · kh · kw, oh · ow), or its adjoint.
#[derive(Clone, Copy)]
struct Columns {
    geometry: Geometry,
    adjoint: bool,
}

impl Columns {
    fn len(&self) -> usize {
        let g = &self.geometry;
        g.batch * if self.adjoint { g.channels * g.plane() } else { g.depth() * g.pixels() }
    }
}

/// Returns the outputs of an axis whose input at this tap lies within the image.
fn valid(g: &Geometry, axis: usize, tap: usize) -> Range<usize> {
    let (size, padding) = ([g.height, g.width][axis], g.padding[axis]);
    let end = (size + padding).saturating_sub(tap).div_ceil(g.stride).min(g.output()[axis]);
    padding.saturating_sub(tap).div_ceil(g.stride).min(end)..end
}

/// Calls `run(number in the columns, number in the image, length)` for each run of an image's columns that lies within the
/// image. Number `c + i` of the columns is number `p + i * stride` of the image.
fn runs(g: &Geometry, mut run: impl FnMut(usize, usize, usize)) {
    let [kernel_h, kernel_w] = g.kernel;
    for row in 0..g.depth() {
        let (c, u, v) = (row / g.taps(), row / kernel_w % kernel_h, row % kernel_w);
        let across = valid(g, 1, v);
        for i in valid(g, 0, u).filter(|_| !across.is_empty()) {
            let (y, x) = (i * g.stride + u - g.padding[0], across.start * g.stride + v - g.padding[1]);
            let column = row * g.pixels() + i * g.output()[1] + across.start;
            run(column, c * g.plane() + y * g.width + x, across.len());
        }
    }
}

impl Kernel<1> for Columns {
    const NAME: &'static str = "im2col";

    fn shape(&self, _: [&Shape; 1]) -> CandleResult<Shape> {
        let g = &self.geometry;
        Ok(match self.adjoint {
            true => Shape::from((g.batch, g.channels, g.height, g.width)),
            false => Shape::from((g.batch, g.depth(), g.pixels())),
        })
    }

    fn host<T: Float>(&self, [from]: [&[T]; 1]) -> CandleResult<Vec<T>> {
        let (g, mut to) = (&self.geometry, vec![T::zero(); self.len()]);
        let images = to.par_chunks_mut(self.len() / g.batch).zip(from.par_chunks(from.len() / g.batch));
        images.for_each(|(to, from)| {
            runs(g, |column, pixel, len| {
                if self.adjoint {
                    let to = to[pixel..].iter_mut().step_by(g.stride);
                    to.zip(&from[column..column + len]).for_each(|(to, from)| *to += *from);
                } else {
                    let from = from[pixel..].iter().step_by(g.stride);
                    to[column..column + len].iter_mut().zip(from).for_each(|(to, from)| *to = *from);
                }
            });
        });
        Ok(to)
    }

    #[cfg(feature = "cuda")]
    fn cuda(&self, [from]: [cuda::Argument<'_>; 1]) -> cuda::Made {
        let (g, device, len) = (&self.geometry, cuda::device(from), self.len());
        let ([kernel_h, kernel_w], [pad_h, pad_w], [out_h, out_w]) = (g.kernel, g.padding, g.output());
        let sizes = [g.height, g.width, kernel_h, kernel_w, g.stride, pad_h, pad_w, out_h, out_w];
        let [h, w, kh, kw, stride, ph, pw, oh, ow] = &cuda::sizes(sizes)?;
        cuda::by_type!(from, "conv2d", T => {
            let from = cuda::elements::<T>(from)?;
            match self.adjoint {
                false => cuda::made!(
                    device, COLUMNS::"im2col", T, len => len; &from; h, w, kh, kw, stride, ph, pw, oh, ow),
                true => cuda::made!(
                    device, COLUMNS::"col2im", T, len => len; &from; h, w, kh, kw, stride, ph, pw, oh, ow),
            }
        })
    }

    fn gradients(&self, _: [&Tensor; 1], _: &Tensor, grad: &Tensor) -> Gradients<1> {
        Ok([Some(Self { adjoint: !self.adjoint, ..*self }.run([grad])?)])
    }
}
