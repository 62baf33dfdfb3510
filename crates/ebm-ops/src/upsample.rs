//! Nearest-neighbour resizing, whose gradient is added to other gradients of its input.

use candle_core::{DType, Result as CandleResult, Shape, Tensor};
use rayon::prelude::*;

use super::bf16::{in_f32, lacks_bf16_kernel};
use super::float::Float;
use super::kernel::{Apply, Gradients, Kernel};
use super::storage::{unwritten, zeros};
#[cfg(feature = "cuda")]
use crate::cuda;
use crate::{Error, Result};

/// Name in errors.
const OP: &str = "upsample_nearest2d";

/// Resizes by repeating or dropping pixels: `y[n, i, j, c] = x[n, r(i, H, out_h), r(j, W, out_w), c]` with
/// `r(i, size, out) = ⌊i · size / out⌋`.
///
/// x `(N, H, W, C)`, f32, f64 or bf16, gives `(N, out_h, out_w, C)` for any sizes. The index is computed in f32, as PyTorch
/// does (mode `nearest`). For some pairs of sizes it is one less than the exact quotient, where the quotient is an integer.
/// The gradient of a pixel is the sum over its copies.
///
/// # Errors
/// [`Error::Argument`] if x is not of rank 4, is of another type, or a size is zero.
pub fn upsample_nearest2d(x: &Tensor, out_h: usize, out_w: usize) -> Result<Tensor> {
    let refuse = |reason: String| Err(Error::Argument { op: OP, reason });
    let &[batch, height, width, channels] = x.dims() else {
        return refuse(format!("expected x (N, H, W, C), got {:?}", x.dims()));
    };
    if x.elem_count() == 0 || [out_h, out_w].contains(&0) {
        return refuse(format!("x {:?} to {out_h} x {out_w}: no size may be zero", x.dims()));
    }
    if lacks_bf16_kernel(x) {
        return in_f32(x, |x| upsample_nearest2d(x, out_h, out_w));
    }
    if !matches!(x.dtype(), DType::F32 | DType::F64 | DType::BF16) {
        return refuse(format!("expected f32 or f64, got {:?}", x.dtype()));
    }
    let (small, large) = ([height, width], [out_h, out_w]);
    Ok(Nearest { batch, channels, small, large, adjoint: false }.apply([x])?)
}

/// Returns the input index of each of `out` output indices.
fn sources(size: usize, out: usize) -> Vec<usize> {
    let scale = size as f32 / out as f32;
    (0..out).map(|i| ((i as f32 * scale) as usize).min(size - 1)).collect()
}

#[derive(Clone, Copy)]
struct Nearest {
    batch: usize,
    channels: usize,
    small: [usize; 2],
    large: [usize; 2],
    /// Whether the operation goes from the gradient of y to the gradient of x.
    adjoint: bool,
}

impl Nearest {
    /// Returns the input row of each output row, and the input column of each output column.
    fn maps(&self) -> [Vec<usize>; 2] {
        [sources(self.small[0], self.large[0]), sources(self.small[1], self.large[1])]
    }

    fn forward<T: Float>(&self, x: &[T]) -> Vec<T> {
        let ([rows, cols], inner, [height, width]) = (self.maps(), self.channels, self.large);
        let (image, line) = (x.len() / self.batch, self.small[1] * inner);
        let mut y = unwritten(self.batch * height * width * inner);
        let lines = y.par_chunks_exact_mut(width * inner).enumerate();
        lines.with_min_len(NUMBERS.div_ceil(width * inner)).for_each(|(i, to)| {
            let from = &x[i / height * image + rows[i % height] * line..][..line];
            for (to, &col) in to.chunks_exact_mut(inner).zip(&cols) {
                to.copy_from_slice(&from[col * inner..(col + 1) * inner]);
            }
        });
        y
    }

    fn backward<T: Float>(&self, grad: &[T]) -> Vec<T> {
        let ([rows, cols], inner) = (self.maps(), self.channels);
        let line = self.small[1] * inner;
        let mut dx = zeros(self.batch * self.small[0] * line);
        let gradients = grad.par_chunks_exact(grad.len() / self.batch);
        dx.par_chunks_exact_mut(self.small[0] * line).zip(gradients).for_each(|(dx, grad)| {
            for (from, &row) in grad.chunks_exact(self.large[1] * inner).zip(&rows) {
                let to = &mut dx[row * line..][..line];
                for (from, &col) in from.chunks_exact(inner).zip(&cols) {
                    let to = &mut to[col * inner..(col + 1) * inner];
                    to.iter_mut().zip(from).for_each(|(to, from)| *to += *from);
                }
            }
        });
        dx
    }
}

/// Least number of results that a task computes.
const NUMBERS: usize = 1 << 12;

impl Kernel<1> for Nearest {
    const NAME: &'static str = OP;

    fn shape(&self, _: [&Shape; 1]) -> CandleResult<Shape> {
        let [height, width] = if self.adjoint { self.small } else { self.large };
        Ok(Shape::from((self.batch, height, width, self.channels)))
    }

    fn host<T: Float>(&self, [from]: [&[T]; 1]) -> CandleResult<Vec<T>> {
        Ok(if self.adjoint { self.backward(from) } else { self.forward(from) })
    }

    #[cfg(feature = "cuda")]
    fn cuda(&self, [from]: [cuda::Argument<'_>; 1]) -> cuda::Made {
        let ([h, w], [out_h, out_w], [inner]) =
            (cuda::sizes(self.small)?, cuda::sizes(self.large)?, cuda::sizes([self.channels])?);
        let (device, to) = (cuda::device(from), if self.adjoint { self.small } else { self.large });
        let len = self.batch * self.channels * to[0] * to[1];
        cuda::by_any_type!(from, OP, T => {
            let from = cuda::elements::<T>(from)?;
            match self.adjoint {
                false => cuda::made!(
                    device, UPSAMPLE::"upsample_forward", T, len => len; &from; &h, &w, &out_h, &out_w, &inner),
                true => cuda::made!(
                    device, UPSAMPLE::"upsample_backward", T, len => len; &from; &h, &w, &out_h, &out_w, &inner),
            }
        })
    }

    fn gradients(&self, _: [&Tensor; 1], _: &Tensor, grad: &Tensor) -> Gradients<1> {
        Ok([Some(Self { adjoint: !self.adjoint, ..*self }.run([grad])?)])
    }
}
