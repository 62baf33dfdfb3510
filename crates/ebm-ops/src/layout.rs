//! The two orders of a map's numbers, and conversions between them.

use std::borrow::Cow;

use candle_core::{CpuStorage, DType, Layout, Shape, Tensor};
use rayon::prelude::*;

use super::float::Float;
use super::kernel::{Apply, Argument, Gradients, Kernel, by_type};
use super::storage::{elements, unwritten};
#[cfg(feature = "cuda")]
use crate::cuda;
use crate::error::{Error, Result};

/// Pixels or channels that one task moves.
const BLOCK: usize = 64;

/// Position of the channels in a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Shape (N, C, H, W).
    ChannelsFirst,
    /// Shape (N, H, W, C).
    ChannelsLast,
}

/// Batch of maps stored as (N, H, W, C).
#[derive(Clone, Debug)]
pub struct ChannelsLast<'a, T: Float> {
    data: Cow<'a, [T]>,
    shape: [usize; 4],
}

impl<'a, T: Float> ChannelsLast<'a, T> {
    /// Takes numbers that are stored as (N, H, W, C); `shape` is (N, C, H, W).
    ///
    /// # Errors
    /// [`Error::Argument`] where the number of elements is not N·C·H·W.
    pub fn new(data: impl Into<Cow<'a, [T]>>, shape: (usize, usize, usize, usize)) -> Result<Self> {
        let data = data.into();
        let shape: [usize; 4] = shape.into();
        if shape.iter().try_fold(1usize, |product, &d| product.checked_mul(d)) == Some(data.len()) {
            return Ok(Self { data, shape });
        }
        let reason = format!("{} numbers cannot be a map of shape (N, C, H, W) = {shape:?}", data.len());
        Err(Error::Argument { op: "channels_last", reason })
    }

    /// Reads a tensor (N, C, H, W) on the CPU in either layout. The numbers are borrowed if the channels are innermost
    /// already, and copied if the tensor is contiguous.
    ///
    /// # Errors
    /// Fails for another layout, number of dimensions or type.
    pub fn of_storage(storage: &'a CpuStorage, layout: &Layout) -> candle_core::Result<Self> {
        let (shape, innermost) = (layout.shape().dims4()?, layout.permute(&[0, 2, 3, 1])?);
        let data: Cow<'a, [T]> = if innermost.is_contiguous() {
            elements::<T>(storage, &innermost)?.into()
        } else {
            swap(elements::<T>(storage, layout)?, shape.0, shape.1, shape.2 * shape.3).into()
        };
        Self::new(data, shape).map_err(candle_core::Error::wrap)
    }

    /// Returns the shape as (N, C, H, W).
    pub fn shape(&self) -> (usize, usize, usize, usize) {
        let [n, c, h, w] = self.shape;
        (n, c, h, w)
    }

    /// Returns the numbers of image `n` as (H, W, C).
    pub(crate) fn image(&self, n: usize) -> &[T] {
        let [_, c, h, w] = self.shape;
        &self.data[n * c * h * w..(n + 1) * c * h * w]
    }

    /// Returns the numbers as (N, H, W, C), without a copy.
    pub fn data(&self) -> &[T] {
        &self.data
    }
}

/// Transposes `n` matrices of (rows × columns) in parallel.
pub(super) fn swap<T: Float>(data: &[T], n: usize, rows: usize, columns: usize) -> Vec<T> {
    let mut out = unwritten(data.len());
    if data.is_empty() {
        return out;
    }
    for (from, to) in data.chunks_exact(rows * columns).zip(out.chunks_exact_mut(rows * columns)).take(n) {
        to.par_chunks_mut(BLOCK * rows).enumerate().for_each(|(block, to)| {
            transpose(&from[block * BLOCK..], columns, rows, to.len() / rows, to, rows);
        });
    }
    out
}

/// Stores the map (N, C, H, W) with the channels innermost, and returns it as a view (N, C, H, W) with such strides.
///
/// [`prroi_pool`](crate::roi::prroi_pool()) and [`roi_align`](crate::roi::roi_align()) read such a view in place, and copy
/// any other map at every call. Call this function once if the same map is pooled repeatedly, as in a refinement.
/// Differentiable.
///
/// # Errors
/// Fails if the tensor does not have four dimensions or is neither f32, f64 nor bf16.
pub fn channels_last(features: &Tensor) -> Result<Tensor> {
    features.dims4()?;
    let innermost = features.permute((0, 2, 3, 1))?;
    if innermost.is_contiguous() {
        return Ok(features.clone());
    }
    if !has_kernel(features) {
        return Ok(innermost.contiguous()?.permute((0, 3, 1, 2))?);
    }
    let stored = Reorder(Order::ChannelsLast).apply([features])?;
    Ok(stored.permute((0, 3, 1, 2))?)
}

/// Returns a map with the channels innermost, (N, H, W, C), as a contiguous map (N, C, H, W). Differentiable.
///
/// # Errors
/// Fails if the tensor does not have four dimensions or is neither f32, f64 nor bf16.
pub(crate) fn channels_first(map: &Tensor) -> Result<Tensor> {
    map.dims4()?;
    if !has_kernel(map) {
        return Ok(map.permute((0, 3, 1, 2))?.contiguous()?);
    }
    Ok(Reorder(Order::ChannelsFirst).apply([map])?)
}

/// Returns a map (N, C, H, W) with the channels innermost, (N, H, W, C), as [`channels_last`] stores it. Differentiable.
///
/// # Errors
/// Fails if the tensor does not have four dimensions or is neither f32, f64 nor bf16.
pub fn to_channels_last(map: &Tensor) -> Result<Tensor> {
    Ok(channels_last(map)?.permute((0, 2, 3, 1))?)
}

/// Returns a map with the channels innermost, (N, H, W, C), as (N, C, H, W). The result is a view, except where gradients go
/// through it, because a view would slow them down. Differentiable.
///
/// # Errors
/// Fails if the tensor does not have four dimensions or is neither f32, f64 nor bf16.
pub fn of_channels_last(map: &Tensor) -> Result<Tensor> {
    if map.track_op() {
        return channels_first(map);
    }
    map.dims4()?;
    Ok(map.permute((0, 3, 1, 2))?)
}

/// Returns `true` if [`Reorder`] has a kernel for this tensor.
fn has_kernel(map: &Tensor) -> bool {
    map.device().is_cuda() || (map.device().is_cpu() && matches!(map.dtype(), DType::F32 | DType::F64))
}

/// Operation that turns a map of the other order into this order.
struct Reorder(Order);

impl Reorder {
    /// Returns the number of images, and the rows and columns of the matrix of an image that is transposed.
    fn sizes(&self, map: &Shape) -> candle_core::Result<[usize; 3]> {
        let (n, a, b, c) = map.dims4()?;
        Ok(match self.0 {
            Order::ChannelsFirst => [n, a * b, c],
            Order::ChannelsLast => [n, a, b * c],
        })
    }
}

impl Kernel<1> for Reorder {
    const NAME: &'static str = "reorder";

    fn shape(&self, [map]: [&Shape; 1]) -> candle_core::Result<Shape> {
        let (n, a, b, c) = map.dims4()?;
        Ok(match self.0 {
            Order::ChannelsFirst => Shape::from((n, c, a, b)),
            Order::ChannelsLast => Shape::from((n, b, c, a)),
        })
    }

    fn cpu(&self, arguments: [Argument<'_>; 1]) -> candle_core::Result<CpuStorage> {
        let [n, rows, columns] = self.sizes(arguments[0].1.shape())?;
        by_type!("reorder", arguments, |[map]| swap(map, n, rows, columns))
    }

    #[cfg(feature = "cuda")]
    fn cuda(&self, [map]: [cuda::Argument<'_>; 1]) -> cuda::Made {
        /// Side of the squares that a block of `reorder.cu` transposes, and threads of a block.
        const SIDE: usize = 32;
        const THREADS: usize = 256;
        let ([n, rows, columns], device) = (self.sizes(map.1.shape())?, cuda::device(map));
        let ([r, c], threads) =
            (cuda::sizes([rows, columns])?, n * rows.div_ceil(SIDE) * columns.div_ceil(SIDE) * THREADS);
        cuda::by_any_type!(map, "reorder", T => {
            let from = cuda::elements::<T>(map)?;
            cuda::made!(device, REORDER::"reorder", T, threads => cuda::len(map); &from; &r, &c)
        })
    }

    fn gradients(&self, _: [&Tensor; 1], _: &Tensor, grad: &Tensor) -> Gradients<1> {
        Ok([Some(match self.0 {
            Order::ChannelsFirst => Self(Order::ChannelsLast).run([grad])?,
            // On a GPU a contiguous gradient is added up much faster than a view.
            Order::ChannelsLast if grad.device().is_cuda() => Self(Order::ChannelsFirst).run([grad])?,
            Order::ChannelsLast => grad.permute((0, 3, 1, 2))?,
        })])
    }
}

/// Transposes (rows × columns), rows `from_stride` apart, to (columns × rows), rows `to_stride` apart.
pub(super) fn transpose<T: Float>(
    from: &[T],
    from_stride: usize,
    rows: usize,
    columns: usize,
    to: &mut [T],
    to_stride: usize,
) {
    // A block of 16 × 16 touches one or two cache lines per row on either side.
    const SIDE: usize = 16;
    for r in (0..rows).step_by(SIDE) {
        let r_end = (r + SIDE).min(rows);
        for c in (0..columns).step_by(SIDE) {
            let c_end = (c + SIDE).min(columns);
            for column in c..c_end {
                let to = &mut to[column * to_stride + r..column * to_stride + r_end];
                for (to, row) in to.iter_mut().zip(r..r_end) {
                    *to = from[row * from_stride + column];
                }
            }
        }
    }
}
