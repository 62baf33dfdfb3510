//! Depthwise convolution on a GPU.

use candle_core::backend::BackendStorage;
use candle_core::{CudaStorage, Result};

use super::geometry::Geometry;
use crate::cuda::{Argument, Element, by_type, elements, launch, sizes, unwritten};

/// Most shares of the result's rows whose sums for the weight's gradient are made apart.
const SHARES: usize = 64;

impl Geometry {
    fn parameters(&self) -> Result<[i32; 10]> {
        let ([h, w], [oh, ow], [kh, kw], [top, left]) = (self.input, self.output, self.kernel, self.before);
        sizes([h, w, oh, ow, kh, kw, self.stride, top, left, self.channels])
    }
}

/// y of x, or with `adjoint` dx of dy; w is (kh·kw, C).
pub(super) fn correlate(
    g: &Geometry,
    from: Argument<'_>,
    w: Argument<'_>,
    adjoint: bool,
) -> Result<CudaStorage> {
    fn run<T: Element>(
        g: &Geometry,
        from: Argument<'_>,
        w: Argument<'_>,
        adjoint: bool,
    ) -> Result<CudaStorage> {
        let [h, width, oh, ow, kh, kw, stride, top, left, c] = &g.parameters()?;
        let [rows, columns] = if adjoint { g.input } else { g.output };
        let (device, len) = (from.0.device(), g.batch * rows * columns * g.channels);
        let (from, w) = (elements::<T>(from.0, from.1)?, elements::<T>(w.0, w.1)?);
        let mut to = unwritten::<T>(device, len)?;
        if adjoint {
            launch!(device, DEPTHWISE::"depthwise_input", T, len;
                &from, &w, &mut to, h, width, oh, ow, kh, kw, stride, top, left, c);
        } else {
            launch!(device, DEPTHWISE::"depthwise_forward", T, len;
                &from, &w, &mut to, h, width, oh, ow, kh, kw, stride, top, left, c);
        }
        Ok(CudaStorage::wrap_cuda_slice(to, device.clone()))
    }
    by_type!(from.0, "depthwise conv2d", run(g, from, w, adjoint))
}

/// dw (kh·kw, C) of x and dy: sums over shares of the rows, and their sum.
pub(super) fn weight_gradient(g: &Geometry, x: Argument<'_>, dy: Argument<'_>) -> Result<CudaStorage> {
    fn run<T: Element>(g: &Geometry, x: Argument<'_>, dy: Argument<'_>) -> Result<CudaStorage> {
        let [h, width, oh, ow, kh, kw, stride, top, left, c] = &g.parameters()?;
        let (rows, weights) = (g.batch * g.output[0], g.taps() * g.channels);
        let num_shares = rows.clamp(1, SHARES);
        let [n, k, len] = &sizes([rows, num_shares, weights])?;
        let device = x.0.device();
        let (x, dy) = (elements::<T>(x.0, x.1)?, elements::<T>(dy.0, dy.1)?);
        let mut shares = unwritten::<T>(device, num_shares * weights)?;
        launch!(device, DEPTHWISE::"depthwise_weight", T, num_shares * weights;
            &x, &dy, &mut shares, n, k, h, width, oh, ow, kh, kw, stride, top, left, c);
        let mut dw = unwritten::<T>(device, weights)?;
        launch!(device, DEPTHWISE::"depthwise_gather", T, weights; &shares, &mut dw, k, len);
        Ok(CudaStorage::wrap_cuda_slice(dw, device.clone()))
    }
    by_type!(x.0, "depthwise conv2d", run(g, x, dy))
}
