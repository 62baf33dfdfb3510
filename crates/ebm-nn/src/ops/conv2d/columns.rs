//! The convolution as a product with the image's columns, for GPUs without cuDNN: candle's own has no right
//! gradient there.

use candle_core::{CpuStorage, Result as CandleResult, Shape, Tensor};

use super::geometry::{Block, Geometry};
use super::im2col::{col2im, im2col};
use crate::Result;
use crate::ops::float::Float;
use crate::ops::kernel::{Apply, Argument, Kernel, by_type};

/// Numbers of columns that are made at a time, unless an image has more: 1 GiB of f32.
const COLUMNS: usize = 1 << 28;

/// x (N, C, H, W), w (O, C, kh, kw) -> (N, O, oh, ow), differentiable in both.
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

/// x (N, C, H, W) -> its columns (N, C · kh · kw, oh · ow), or the adjoint of that.
#[derive(Clone, Copy)]
struct Columns {
    geometry: Geometry,
    adjoint: bool,
}

impl Columns {
    fn gathered<T: Float>(&self, from: &[T]) -> Vec<T> {
        let g = &self.geometry;
        let mut to = vec![T::zero(); self.len()];
        let (image, columns) = (g.channels * g.plane(), g.depth() * g.pixels());
        for n in 0..g.batch {
            let (image, columns) = (n * image..(n + 1) * image, n * columns..(n + 1) * columns);
            if self.adjoint {
                col2im(&from[columns], g, &(0..g.pixels()), &mut to[image]);
            } else {
                let block = Block { images: n..n + 1, pixels: 0..g.pixels() };
                im2col(from, g, &(0..g.channels), &block, &mut to[columns]);
            }
        }
        to
    }

    fn len(&self) -> usize {
        let g = &self.geometry;
        g.batch * if self.adjoint { g.channels * g.plane() } else { g.depth() * g.pixels() }
    }
}

impl Kernel<1> for Columns {
    fn name(&self) -> &'static str {
        if self.adjoint { "col2im" } else { "im2col" }
    }

    fn shape(&self, _: [&Shape; 1]) -> CandleResult<Shape> {
        let g = &self.geometry;
        Ok(match self.adjoint {
            true => Shape::from((g.batch, g.channels, g.height, g.width)),
            false => Shape::from((g.batch, g.depth(), g.pixels())),
        })
    }

    fn cpu(&self, arguments: [Argument<'_>; 1]) -> CandleResult<CpuStorage> {
        by_type!(self.name(), arguments, |[from]| self.gathered(from))
    }

    #[cfg(feature = "cuda")]
    fn cuda(&self, [from]: [crate::cuda::Argument<'_>; 1]) -> CandleResult<candle_core::CudaStorage> {
        cuda::columns(self, from.0, from.1)
    }

    fn gradients(&self, _: [&Tensor; 1], _: &Tensor, grad: &Tensor) -> CandleResult<[Option<Tensor>; 1]> {
        Ok([Some(Self { adjoint: !self.adjoint, ..*self }.run([grad])?)])
    }
}

#[cfg(feature = "cuda")]
mod cuda {
    use candle_core::backend::BackendStorage;
    use candle_core::{CudaStorage, Layout, Result};

    use super::Columns;
    use crate::cuda::{Element, by_type, elements, launch, sizes, unwritten};

    pub(super) fn columns(op: &Columns, s: &CudaStorage, l: &Layout) -> Result<CudaStorage> {
        fn run<T: Element>(op: &Columns, s: &CudaStorage, l: &Layout) -> Result<CudaStorage> {
            let g = &op.geometry;
            let ([kernel_h, kernel_w], [pad_h, pad_w], [out_h, out_w]) = (g.kernel, g.padding, g.output());
            let sizes = sizes([g.height, g.width, kernel_h, kernel_w, g.stride, pad_h, pad_w, out_h, out_w])?;
            let [h, w, kh, kw, stride, ph, pw, oh, ow] = &sizes;
            let device = s.device();
            let from = elements::<T>(s, l)?;
            let len = op.len();
            let mut to = unwritten::<T>(device, len)?;
            if op.adjoint {
                launch!(device, COLUMNS::"col2im", T, len; &from, &mut to, h, w, kh, kw, stride, ph, pw, oh, ow);
            } else {
                launch!(device, COLUMNS::"im2col", T, len; &from, &mut to, h, w, kh, kw, stride, ph, pw, oh, ow);
            }
            Ok(CudaStorage::wrap_cuda_slice(to, device.clone()))
        }
        by_type!(s, "conv2d", run(op, s, l))
    }
}
