//! Nearest-neighbour resizing whose gradient adds to what else reads its input.

#[cfg(feature = "cuda")]
mod cuda;

use candle_core::{CpuStorage, CustomOp1, DType, Layout, Result as CandleResult, Shape, Tensor, WithDType};
use rayon::prelude::*;

use super::storage::{Float, elements};
use super::widened::{is_narrow, on_gpu, widened};
use crate::{Error, Result};

/// Resizes by repeating or dropping pixels: `y[n, c, i, j] = x[n, c, r(i, H, out_h), r(j, W, out_w)]` with
/// `r(i, size, out) = ⌊i · size / out⌋`.
///
/// x `(N, C, H, W)`, f32, f64 or bf16, gives `(N, C, out_h, out_w)` for any sizes. The index is computed in f32 as
/// PyTorch computes it (mode `nearest`), which for some size pairs is one less than the exact quotient where
/// that is an integer. The gradient of a pixel is the sum over its copies.
///
/// # Errors
/// [`Error::Argument`] where x is not of rank 4, is of another type, or a size is zero.
pub fn upsample_nearest2d(x: &Tensor, out_h: usize, out_w: usize) -> Result<Tensor> {
    let refuse = |reason: String| Err(Error::Argument { op: "upsample_nearest2d", reason });
    let &[batch, channels, height, width] = x.dims() else {
        return refuse(format!("expected x (N, C, H, W), got {:?}", x.dims()));
    };
    if x.elem_count() == 0 || out_h == 0 || out_w == 0 {
        return refuse(format!("x {:?} to {out_h} x {out_w}: no size may be zero", x.dims()));
    }
    if is_narrow(x) {
        return widened(x, |x| upsample_nearest2d(x, out_h, out_w));
    }
    if !matches!(x.dtype(), DType::F32 | DType::F64) && !on_gpu(x) {
        return refuse(format!("expected f32 or f64, got {:?}", x.dtype()));
    }
    let op = Nearest { planes: [batch, channels], small: [height, width], large: [out_h, out_w] };
    Ok(x.contiguous()?.apply_op1(op)?)
}

/// The input index of each of `out` output indices.
pub(crate) fn sources(size: usize, out: usize) -> Vec<usize> {
    let scale = size as f32 / out as f32;
    (0..out).map(|i| ((i as f32 * scale) as usize).min(size - 1)).collect()
}

#[derive(Clone, Copy)]
struct Nearest {
    planes: [usize; 2],
    small: [usize; 2],
    large: [usize; 2],
}

impl Nearest {
    /// For each output row, the input row; for each output column, the input column.
    fn maps(&self) -> [Vec<usize>; 2] {
        [sources(self.small[0], self.large[0]), sources(self.small[1], self.large[1])]
    }

    /// `(elements of an input plane, elements of an output plane)`.
    fn plane_sizes(&self) -> (usize, usize) {
        (self.small.iter().product(), self.large.iter().product())
    }

    fn forward<T: Float>(&self, x: &[T]) -> Vec<T> {
        let [rows, cols] = self.maps();
        let ((small, large), width) = (self.plane_sizes(), self.small[1]);
        let mut y = vec![T::zero(); self.planes.iter().product::<usize>() * large];
        y.par_chunks_exact_mut(large).zip(x.par_chunks_exact(small)).for_each(|(y, x)| {
            for (to, &row) in y.chunks_exact_mut(self.large[1]).zip(&rows) {
                let from = &x[row * width..][..width];
                to.iter_mut().zip(&cols).for_each(|(to, &col)| *to = from[col]);
            }
        });
        y
    }

    fn backward<T: Float>(&self, grad: &[T]) -> Vec<T> {
        let [rows, cols] = self.maps();
        let ((small, large), width) = (self.plane_sizes(), self.small[1]);
        let mut dx = vec![T::zero(); self.planes.iter().product::<usize>() * small];
        dx.par_chunks_exact_mut(small).zip(grad.par_chunks_exact(large)).for_each(|(dx, grad)| {
            for (from, &row) in grad.chunks_exact(self.large[1]).zip(&rows) {
                let to = &mut dx[row * width..][..width];
                from.iter().zip(&cols).for_each(|(from, &col)| to[col] += *from);
            }
        });
        dx
    }
}

impl CustomOp1 for Nearest {
    fn name(&self) -> &'static str {
        "upsample_nearest2d"
    }

    fn cpu_fwd(&self, s: &CpuStorage, l: &Layout) -> CandleResult<(CpuStorage, Shape)> {
        let y = match s {
            CpuStorage::F64(_) => f64::to_cpu_storage_owned(self.forward(elements(s, l)?)),
            _ => f32::to_cpu_storage_owned(self.forward(elements(s, l)?)),
        };
        let ([n, c], [h, w]) = (self.planes, self.large);
        Ok((y, Shape::from((n, c, h, w))))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        s: &candle_core::CudaStorage,
        l: &Layout,
    ) -> CandleResult<(candle_core::CudaStorage, Shape)> {
        let ([n, c], [h, w]) = (self.planes, self.large);
        Ok((self.cuda(s, l, false)?, Shape::from((n, c, h, w))))
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, grad: &Tensor) -> CandleResult<Option<Tensor>> {
        grad.contiguous()?.apply_op1_no_bwd(&NearestGradient(*self)).map(Some)
    }
}

/// The adjoint: `gradient of y -> gradient of x`.
struct NearestGradient(Nearest);

impl CustomOp1 for NearestGradient {
    fn name(&self) -> &'static str {
        "upsample_nearest2d gradient"
    }

    fn cpu_fwd(&self, s: &CpuStorage, l: &Layout) -> CandleResult<(CpuStorage, Shape)> {
        let dx = match s {
            CpuStorage::F64(_) => f64::to_cpu_storage_owned(self.0.backward(elements(s, l)?)),
            _ => f32::to_cpu_storage_owned(self.0.backward(elements(s, l)?)),
        };
        let ([n, c], [h, w]) = (self.0.planes, self.0.small);
        Ok((dx, Shape::from((n, c, h, w))))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        s: &candle_core::CudaStorage,
        l: &Layout,
    ) -> CandleResult<(candle_core::CudaStorage, Shape)> {
        let ([n, c], [h, w]) = (self.0.planes, self.0.small);
        Ok((self.0.cuda(s, l, true)?, Shape::from((n, c, h, w))))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;
    use proptest::prelude::*;

    use super::super::testing::{check_gradients, noise_tensor};
    use super::*;

    fn wrapped(x: &Tensor, out_h: usize, out_w: usize) -> CandleResult<Tensor> {
        upsample_nearest2d(x, out_h, out_w).map_err(candle_core::Error::wrap)
    }

    #[test]
    fn repeats_and_drops_pixels() {
        assert_eq!(sources(3, 6), [0, 0, 1, 1, 2, 2]);
        assert_eq!(sources(3, 5), [0, 0, 1, 1, 2]);
        assert_eq!(sources(5, 3), [0, 1, 3]);
        assert_eq!(sources(1, 4), [0; 4]);
        // Rounding in f32, as PyTorch's: exactly, 7 * 62 / 14 is 31.
        assert_eq!(sources(62, 14)[7], 30);
        let x = Tensor::new(&[[[[1.0f32, 2.0]]]], &Device::Cpu).unwrap();
        let y = upsample_nearest2d(&x, 2, 3).unwrap();
        assert_eq!(y.dims(), [1, 1, 2, 3]);
        assert_eq!(y.flatten_all().unwrap().to_vec1::<f32>().unwrap(), [1.0, 1.0, 2.0, 1.0, 1.0, 2.0]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn gradients_match_central_differences(
            n in 1usize..3, c in 1usize..4, h in 1usize..6, w in 1usize..6, out_h in 1usize..12, out_w in 1usize..12,
        ) {
            let x = noise_tensor(&[n, c, h, w], 9).unwrap();
            let checked = check_gradients(|t| wrapped(&t[0], out_h, out_w), &[x], 1e-4, 1e-8);
            prop_assert!(checked.is_ok(), "{}", checked.unwrap_err());
        }
    }

    #[test]
    fn the_gradient_adds_to_other_uses_of_the_input() {
        // A feature pyramid reads a merged map twice: here candle's own operation overwrites the other
        // gradient.
        let pyramid = |up: fn(&Tensor) -> CandleResult<Tensor>| {
            move |t: &[Tensor]| {
                let merged = (&t[0] * 1.5)?;
                up(&merged)?.add(&t[1])?.flatten_all()?.sum_all()? + (&merged * &t[0])?.sum_all()?
            }
        };
        let inputs = [noise_tensor(&[1, 2, 3, 3], 10).unwrap(), noise_tensor(&[1, 2, 6, 6], 11).unwrap()];
        assert!(check_gradients(pyramid(|m| m.upsample_nearest2d(6, 6)), &inputs, 1e-4, 1e-3).is_err());
        check_gradients(pyramid(|m| wrapped(m, 6, 6)), &inputs, 1e-4, 1e-8).unwrap();
    }

    #[test]
    fn unusable_arguments_are_refused_with_a_reason() {
        let t = |shape: &[usize]| Tensor::zeros(shape, DType::F32, &Device::Cpu).unwrap();
        let x = t(&[1, 2, 4, 4]);
        for (x, h, w, reason) in [
            (&t(&[4, 4]), 2, 2, "(N, C, H, W)"),
            (&t(&[0, 2, 4, 4]), 2, 2, "zero"),
            (&x, 0, 2, "zero"),
            (&x, 2, 0, "zero"),
            (&x.to_dtype(DType::U8).unwrap(), 2, 2, "f32 or f64"),
        ] {
            match upsample_nearest2d(x, h, w) {
                Err(Error::Argument { op: "upsample_nearest2d", reason: given }) => {
                    assert!(given.contains(reason), "{given}")
                }
                other => panic!("{reason}: {other:?}"),
            }
        }
    }
}
