//! What operations on the CPU need of candle's storage.

use candle_core::{CpuStorage, DType, Layout, Result, Tensor, WithDType, bail};
use rayon::prelude::*;

/// Numbers from which on [`zeros`] uses all threads.
const LARGE: usize = 1 << 19;

/// `len` zeros. Large blocks are written by all threads: memory that the system has yet to provide costs more
/// than the writing.
pub(crate) fn zeros<T: WithDType>(len: usize) -> Vec<T> {
    if len < LARGE {
        return vec![T::zero(); len];
    }
    rayon::iter::repeat_n(T::zero(), len).with_min_len(LARGE / 8).collect()
}

/// `f` of the numbers of `a` and `b` in pairs, by all threads.
pub(crate) fn zip_map<T: WithDType>(a: &[T], b: &[T], f: impl Fn(T, T) -> T + Sync) -> Vec<T> {
    const CHUNK: usize = 1 << 14;
    let mut y = vec![T::zero(); a.len()];
    y.par_chunks_mut(CHUNK).zip(a.par_chunks(CHUNK)).zip(b.par_chunks(CHUNK)).for_each(|((y, a), b)| {
        for ((y, &a), &b) in y.iter_mut().zip(a).zip(b) {
            *y = f(a, b);
        }
    });
    y
}

/// A copy of the numbers of a tensor in its order, as f32: what packed parameters are made of.
///
/// # Errors
/// When candle cannot copy them.
pub(crate) fn numbers(tensor: &Tensor) -> Result<Vec<f32>> {
    tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1()
}

/// The elements of a contiguous tensor, in order: what a custom operation's `cpu_fwd` works on.
///
/// # Errors
/// For a strided tensor, or one of another type.
pub fn elements<'a, T: WithDType>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [T]> {
    window(storage.as_slice::<T>()?, layout)
}

/// The part of `values` that a contiguous layout covers.
pub(crate) fn window<'a, T>(values: &'a [T], layout: &Layout) -> Result<&'a [T]> {
    let (start, end) = offsets(layout)?;
    Ok(&values[start..end])
}

/// [`window`], to be written to.
pub(crate) fn window_mut<'a, T>(values: &'a mut [T], layout: &Layout) -> Result<&'a mut [T]> {
    let (start, end) = offsets(layout)?;
    Ok(&mut values[start..end])
}

fn offsets(layout: &Layout) -> Result<(usize, usize)> {
    match layout.contiguous_offsets() {
        Some(offsets) => Ok(offsets),
        None => {
            bail!("expected a contiguous tensor, got strides {:?} for {:?}", layout.stride(), layout.shape())
        }
    }
}
