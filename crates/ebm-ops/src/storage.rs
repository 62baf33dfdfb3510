//! Access to candle's storage for operations on the CPU.

use candle_core::{CpuStorage, DType, Layout, Result, Tensor, WithDType, bail};
use rayon::prelude::*;

use super::float::Float;
use crate::Error;

/// Numbers from which on [`zeros`] uses all threads.
const LARGE: usize = 1 << 19;

/// Returns `len` zeros. All threads write large blocks, because memory that the system has yet to provide costs more than the
/// writing.
pub(crate) fn zeros<T: WithDType>(len: usize) -> Vec<T> {
    if len < LARGE {
        return vec![T::zero(); len];
    }
    rayon::iter::repeat_n(T::zero(), len).with_min_len(LARGE / 8).collect()
}

/// Returns `len` numbers that are not set, for a kernel that writes every one before any is read. Zeros would cost a pass
/// over memory. In tests and other builds with assertions the numbers are NaN, which shows a number that was not written.
pub(crate) fn unwritten<T: Float>(len: usize) -> Vec<T> {
    if cfg!(debug_assertions) {
        return vec![T::from_f64(f64::NAN); len];
    }
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        let mut numbers = Vec::<T>::with_capacity(len);
        #[expect(unsafe_code, reason = "there is no safe way to memory that was not written")]
        // SAFETY: the capacity is `len`. Every pattern of bits is a valid f32 and a valid f64, the only types that implement
        // `Float`. The assembly is given the vector's memory and may write it, so to the compiler the memory is written.
        unsafe {
            std::arch::asm!("/* {0} */", in(reg) numbers.as_mut_ptr(), options(nostack, preserves_flags));
            numbers.set_len(len);
        }
        numbers
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    zeros(len)
}

/// Returns `f` of the numbers of `a` and `b` in pairs. All threads take part.
pub(crate) fn zip_map<T: Float>(a: &[T], b: &[T], f: impl Fn(T, T) -> T + Sync) -> Vec<T> {
    const CHUNK: usize = 1 << 14;
    let mut y = unwritten(a.len());
    y.par_chunks_mut(CHUNK).zip(a.par_chunks(CHUNK)).zip(b.par_chunks(CHUNK)).for_each(|((y, a), b)| {
        for ((y, &a), &b) in y.iter_mut().zip(a).zip(b) {
            *y = f(a, b);
        }
    });
    y
}

/// Copies the numbers of a tensor in its order, as f32, for packed parameters.
///
/// # Errors
/// Returns an error if candle cannot copy them.
pub(crate) fn numbers(tensor: &Tensor) -> Result<Vec<f32>> {
    tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1()
}

/// Returns the numbers of a bias of this length, or zeros if there is none.
///
/// # Errors
/// [`Error::Argument`] of `op` if the bias has another shape.
pub(crate) fn bias_numbers(op: &'static str, bias: Option<&Tensor>, len: usize) -> crate::Result<Vec<f32>> {
    match bias {
        None => Ok(vec![0.0; len]),
        Some(bias) if bias.dims() == [len] => Ok(numbers(bias)?),
        Some(bias) => {
            let reason = format!("expected a bias ({len}), got {:?}", bias.dims());
            Err(Error::Argument { op, reason })
        }
    }
}

/// Returns the elements of a contiguous tensor, in order, for the `cpu_fwd` of a custom operation.
///
/// # Errors
/// Returns an error for a strided tensor and for another type.
pub fn elements<'a, T: WithDType>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [T]> {
    window(storage.as_slice::<T>()?, layout)
}

/// Returns the part of `values` that a contiguous layout covers.
pub(crate) fn window<'a, T>(values: &'a [T], layout: &Layout) -> Result<&'a [T]> {
    let (start, end) = offsets(layout)?;
    Ok(&values[start..end])
}

/// Returns the [`window`] for writing.
pub(crate) fn window_mut<'a, T>(values: &'a mut [T], layout: &Layout) -> Result<&'a mut [T]> {
    let (start, end) = offsets(layout)?;
    Ok(&mut values[start..end])
}

/// Returns the start and the end of the numbers of a contiguous layout.
pub(crate) fn offsets(layout: &Layout) -> Result<(usize, usize)> {
    match layout.contiguous_offsets() {
        Some(offsets) => Ok(offsets),
        None => {
            bail!("expected a contiguous tensor, got strides {:?} for {:?}", layout.stride(), layout.shape())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_were_not_written_are_seen() {
        let numbers = unwritten::<f32>(3);
        assert_eq!(numbers.len(), 3);
        assert!(!cfg!(debug_assertions) || numbers.iter().all(|number| number.is_nan()));
    }
}
