//! The sum of a convolution with one output channel, after its products.
//!
//! With x as rows of channels, `(N·H·W, C)`, and the filter as a matrix `(C, k²)`, the convolution is `sum_taps(x · filter)`.
//! Memory never holds k² copies of x, and a product with k² columns runs as fast as any other.

use std::ops::Range;

use candle_core::{DType, Result as CandleResult, Shape, Tensor};
use rayon::prelude::*;

use super::float::Float;
use super::kernel::{Apply, Gradients, Kernel};
#[cfg(feature = "cuda")]
use crate::cuda;
use crate::{Error, Result};

/// Returns `y[n, i, j] = Σ p[n, i + u − ⌊k/2⌋, j + v − ⌊k/2⌋, u·k + v]` over the taps (u, v) inside the map: the sum of a
/// same-size convolution (cross-correlation) with zero padding.
///
/// p `(N, H, W, k²)`, f32 or f64, gives `(N, H, W)`. The gradient is [`spread_taps`].
///
/// # Errors
/// [`Error::Argument`] if p is not of rank 4, its last size is not a square, or it is of another type.
pub fn sum_taps(p: &Tensor) -> Result<Tensor> {
    let refuse = |reason| Err(Error::Argument { op: "sum_taps", reason });
    let &[n, height, width, taps] = p.dims() else {
        return refuse(format!("expected p (N, H, W, k²), got {:?}", p.dims()));
    };
    let kernel = taps.isqrt();
    if kernel * kernel != taps || taps == 0 {
        return refuse(format!("p has {taps} taps; a square k² is expected"));
    }
    apply(p, Taps { shape: [n, height, width], kernel, spread: false })
}

/// Computes the adjoint of [`sum_taps`]: g `(N, H, W)` gives `(N, H, W, k²)`, with zeros for taps that belong to no output.
///
/// # Errors
/// [`Error::Argument`] if g is not of rank 3, `kernel` is 0, or g is of another type.
pub fn spread_taps(g: &Tensor, kernel: usize) -> Result<Tensor> {
    let refuse = |reason| Err(Error::Argument { op: "spread_taps", reason });
    let &[n, height, width] = g.dims() else {
        return refuse(format!("expected g (N, H, W), got {:?}", g.dims()));
    };
    if kernel == 0 {
        return refuse("a kernel of 0 taps".to_owned());
    }
    apply(g, Taps { shape: [n, height, width], kernel, spread: true })
}

fn apply(x: &Tensor, op: Taps) -> Result<Tensor> {
    if !matches!(x.dtype(), DType::F32 | DType::F64) {
        let name = if op.spread { "spread_taps" } else { "sum_taps" };
        return Err(Error::Argument {
            op: name,
            reason: format!("expected f32 or f64, got {:?}", x.dtype()),
        });
    }
    Ok(op.apply([x])?)
}

#[derive(Clone, Copy)]
struct Taps {
    /// Sizes N, H and W.
    shape: [usize; 3],
    kernel: usize,
    /// Whether the operation is the adjoint.
    spread: bool,
}

impl Taps {
    /// Returns the outputs of a side of `size` that tap `tap` reaches, and the input that the first of them reads.
    fn reach(&self, tap: usize, size: usize) -> (Range<usize>, usize) {
        let half = self.kernel / 2;
        let first = half.saturating_sub(tap).min(size);
        let last = (size + half).saturating_sub(tap).min(size);
        (first..last.max(first), (first + tap).saturating_sub(half))
    }
}

impl Kernel<1> for Taps {
    const NAME: &'static str = "sum_taps";

    fn shape(&self, _: [&Shape; 1]) -> CandleResult<Shape> {
        let [n, height, width] = self.shape;
        Ok(match self.spread {
            true => Shape::from((n, height, width, self.kernel * self.kernel)),
            false => Shape::from((n, height, width)),
        })
    }

    fn host<T: Float>(&self, [x]: [&[T]; 1]) -> CandleResult<Vec<T>> {
        let ([n, height, width], kernel) = (self.shape, self.kernel);
        let (plane, taps) = (height * width, kernel * kernel);
        let mut y = vec![T::zero(); n * plane * if self.spread { taps } else { 1 }];
        if y.is_empty() {
            return Ok(y);
        }
        let (from, to) = if self.spread { (plane, plane * taps) } else { (plane * taps, plane) };
        y.par_chunks_exact_mut(to).zip(x.par_chunks_exact(from)).for_each(|(y, x)| {
            for tap in 0..taps {
                let (rows, first_row) = self.reach(tap / kernel, height);
                let (columns, first_column) = self.reach(tap % kernel, width);
                for (i, row) in rows.zip(first_row..) {
                    let sums = i * width + columns.start..i * width + columns.end;
                    let products = (row * width + first_column) * taps + tap;
                    if self.spread {
                        let to = y[products..].iter_mut().step_by(taps);
                        to.zip(&x[sums]).for_each(|(to, from)| *to = *from);
                    } else {
                        let from = x[products..].iter().step_by(taps);
                        y[sums].iter_mut().zip(from).for_each(|(to, from)| *to += *from);
                    }
                }
            }
        });
        Ok(y)
    }

    #[cfg(feature = "cuda")]
    fn cuda(&self, [x]: [cuda::Argument<'_>; 1]) -> cuda::Made {
        let ([n, height, width], device) = (self.shape, cuda::device(x));
        let [h, w, kernel] = cuda::sizes([height, width, self.kernel])?;
        let len = n * height * width * if self.spread { self.kernel * self.kernel } else { 1 };
        cuda::by_type!(x, "sum_taps", T => {
            let from = cuda::elements::<T>(x)?;
            match self.spread {
                false => cuda::made!(device, SUM_TAPS::"sum_taps", T, len => len; &from; &h, &w, &kernel),
                true => cuda::made!(device, SUM_TAPS::"spread_taps", T, len => len; &from; &h, &w, &kernel),
            }
        })
    }

    fn gradients(&self, _: [&Tensor; 1], _: &Tensor, grad: &Tensor) -> Gradients<1> {
        Ok([Some(Self { spread: !self.spread, ..*self }.run([grad])?)])
    }
}
