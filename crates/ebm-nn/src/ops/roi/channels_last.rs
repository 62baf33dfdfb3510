//! Maps with the channels innermost.

use std::borrow::Cow;

use candle_core::{CpuStorage, CustomOp1, DType, Layout, Shape, Tensor};
use rayon::prelude::*;

use super::super::storage::{elements, zeros};
use super::kernels::transpose;
use super::simd::Real;
use crate::error::{Error, Result};

/// Pixels or channels that one task moves.
const BLOCK: usize = 64;

/// A batch of maps stored as (N, H, W, C).
#[derive(Clone, Debug)]
pub struct ChannelsLast<'a, T: Real> {
    data: Cow<'a, [T]>,
    shape: [usize; 4],
}

impl<'a, T: Real> ChannelsLast<'a, T> {
    /// Takes numbers that are stored as (N, H, W, C); `shape` is (N, C, H, W).
    ///
    /// # Errors
    /// [`Error::Argument`] where the number of elements is not N·C·H·W.
    pub fn new(data: impl Into<Cow<'a, [T]>>, shape: (usize, usize, usize, usize)) -> Result<Self> {
        let data = data.into();
        let (n, c, h, w) = shape;
        check_len(data.len(), [n, c, h, w])?;
        Ok(Self { data, shape: [n, c, h, w] })
    }

    /// Copies numbers that are stored as (N, C, H, W), in parallel.
    ///
    /// # Errors
    /// [`Error::Argument`] where the number of elements is not N·C·H·W.
    pub fn from_channels_first(data: &[T], shape: (usize, usize, usize, usize)) -> Result<Self> {
        let (n, c, h, w) = shape;
        check_len(data.len(), [n, c, h, w])?;
        Ok(Self { data: Cow::Owned(swap(data, n, c, h * w)), shape: [n, c, h, w] })
    }

    /// A tensor (N, C, H, W) on the CPU in either layout: borrowed where the channels are innermost already, copied
    /// where it is contiguous.
    ///
    /// # Errors
    /// For another layout, number of dimensions or type.
    pub fn of_storage(storage: &'a CpuStorage, layout: &Layout) -> candle_core::Result<Self> {
        super::tensor::features_of(storage, layout)
    }

    /// (N, C, H, W).
    #[must_use]
    pub fn shape(&self) -> (usize, usize, usize, usize) {
        let [n, c, h, w] = self.shape;
        (n, c, h, w)
    }

    /// The numbers of image `n` as (H, W, C).
    pub(crate) fn image(&self, n: usize) -> &[T] {
        let [_, c, h, w] = self.shape;
        &self.data[n * c * h * w..(n + 1) * c * h * w]
    }

    /// The numbers as (N, H, W, C), in place.
    #[must_use]
    pub fn data(&self) -> &[T] {
        &self.data
    }

    /// A tensor (N, C, H, W) on the CPU, stored as here.
    ///
    /// # Errors
    /// When candle refuses the shape.
    pub fn into_tensor(self) -> Result<Tensor> {
        let [n, c, h, w] = self.shape;
        let stored = Tensor::from_vec(self.data.into_owned(), (n, h, w, c), &candle_core::Device::Cpu)?;
        Ok(stored.permute((0, 3, 1, 2))?)
    }

    /// The numbers as (N, H, W, C).
    #[must_use]
    pub fn into_data(self) -> Cow<'a, [T]> {
        self.data
    }
}

fn check_len(len: usize, shape: [usize; 4]) -> Result<()> {
    let expected = shape.iter().try_fold(1usize, |product, &d| product.checked_mul(d));
    if expected == Some(len) {
        return Ok(());
    }
    Err(Error::Argument {
        op: "channels_last",
        reason: format!("{len} numbers cannot be a map of shape (N, C, H, W) = {shape:?}"),
    })
}

/// Turns `n` matrices of (rows × columns) into (columns × rows), in parallel.
pub(in crate::ops) fn swap<T: Real>(data: &[T], n: usize, rows: usize, columns: usize) -> Vec<T> {
    let mut out = zeros(data.len());
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

/// The same map (N, C, H, W) stored with the channels innermost, as a view whose strides say so.
///
/// [`prroi_pool`](crate::ops::prroi_pool()) and [`roi_align`](crate::ops::roi_align()) read such a view in place, and copy
/// any other at every call. Call it once where the same map is pooled repeatedly, as in a refinement. Differentiable.
///
/// # Errors
/// Fails where the tensor has not four dimensions or is neither f32 nor f64.
pub fn channels_last(features: &Tensor) -> Result<Tensor> {
    features.dims4()?;
    let innermost = features.permute((0, 2, 3, 1))?;
    if innermost.is_contiguous() {
        return Ok(features.clone());
    }
    if !features.device().is_cpu() {
        return Ok(innermost.contiguous()?.permute((0, 3, 1, 2))?);
    }
    let stored = features.contiguous()?.apply_op1(ToChannelsLast)?;
    Ok(stored.permute((0, 3, 1, 2))?)
}

/// A map with the channels innermost, (N, H, W, C), as a contiguous one (N, C, H, W). Differentiable.
///
/// # Errors
/// Fails where the tensor has not four dimensions or is neither f32, f64 nor bf16.
pub fn channels_first(map: &Tensor) -> Result<Tensor> {
    map.dims4()?;
    if !map.device().is_cpu() || map.dtype() == DType::BF16 {
        return Ok(map.permute((0, 3, 1, 2))?.contiguous()?);
    }
    Ok(map.contiguous()?.apply_op1(ToChannelsFirst)?)
}

/// (N, H, W, C), contiguous -> (N, C, H, W).
struct ToChannelsFirst;

impl CustomOp1 for ToChannelsFirst {
    fn name(&self) -> &'static str {
        "channels_first"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> candle_core::Result<(CpuStorage, Shape)> {
        fn run<T: Real>(storage: &CpuStorage, layout: &Layout) -> candle_core::Result<CpuStorage> {
            let (n, h, w, c) = layout.shape().dims4()?;
            Ok(T::to_cpu_storage_owned(swap(elements::<T>(storage, layout)?, n, h * w, c)))
        }
        let (n, h, w, c) = layout.shape().dims4()?;
        let out = match storage {
            CpuStorage::F64(_) => run::<f64>(storage, layout)?,
            _ => run::<f32>(storage, layout)?,
        };
        Ok((out, Shape::from((n, c, h, w))))
    }

    fn bwd(&self, _arg: &Tensor, _res: &Tensor, grad: &Tensor) -> candle_core::Result<Option<Tensor>> {
        Ok(Some(grad.contiguous()?.apply_op1_no_bwd(&ToChannelsLast)?))
    }
}

/// (N, C, H, W), contiguous -> (N, H, W, C).
struct ToChannelsLast;

impl CustomOp1 for ToChannelsLast {
    fn name(&self) -> &'static str {
        "channels_last"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> candle_core::Result<(CpuStorage, Shape)> {
        fn run<T: Real>(storage: &CpuStorage, layout: &Layout) -> candle_core::Result<CpuStorage> {
            let (n, c, h, w) = layout.shape().dims4()?;
            Ok(T::to_cpu_storage_owned(swap(elements::<T>(storage, layout)?, n, c, h * w)))
        }
        let (n, c, h, w) = layout.shape().dims4()?;
        let out = match storage {
            CpuStorage::F64(_) => run::<f64>(storage, layout)?,
            _ => run::<f32>(storage, layout)?,
        };
        Ok((out, Shape::from((n, h, w, c))))
    }

    fn bwd(&self, _arg: &Tensor, _res: &Tensor, grad: &Tensor) -> candle_core::Result<Option<Tensor>> {
        Ok(Some(grad.permute((0, 3, 1, 2))?))
    }
}
