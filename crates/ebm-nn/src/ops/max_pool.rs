//! Maximum pooling that differentiates for any kernel and stride.

#[cfg(feature = "cuda")]
mod cuda;

use candle_core::{
    CpuStorage, CustomOp1, CustomOp2, DType, Layout, Result as CandleResult, Shape, Tensor, WithDType,
};
use rayon::prelude::*;

use super::storage::{Float, elements};
use super::widened::{is_narrow, on_gpu, widened};
use crate::{Error, Result};

/// Maximum over square windows: `y[n, c, i, j] = max_{u, v < kernel} x[n, c, i·stride + u - padding, j·stride
/// + v - padding]`, where positions outside the image do not count.
///
/// x `(N, C, H, W)`, f32, f64 or bf16, gives `(N, C, ⌊(H + 2·padding - kernel) / stride⌋ + 1, …)`. The gradient
/// goes to the first maximum of a window in row order, and adds up where windows overlap. NaN wins, as it
/// would with PyTorch.
///
/// # Errors
/// [`Error::Argument`] where x is not of rank 4, has a zero extent or is of another type, kernel or
/// stride is zero, the padding exceeds half the kernel (a window could lie outside), or the kernel exceeds
/// the padded image.
pub fn max_pool2d(x: &Tensor, kernel: usize, stride: usize, padding: usize) -> Result<Tensor> {
    if is_narrow(x) {
        return widened(x, |x| max_pool2d(x, kernel, stride, padding));
    }
    let pool = Pool::checked(x, kernel, stride, padding)?;
    Ok(x.contiguous()?.apply_op1(MaxPool(pool))?)
}

#[derive(Clone, Copy)]
pub(super) struct Pool {
    /// Images and channels.
    pub(super) planes: [usize; 2],
    pub(super) input: [usize; 2],
    kernel: usize,
    stride: usize,
    padding: usize,
}

impl Pool {
    /// That of x (N, C, H, W).
    pub(super) fn checked(x: &Tensor, kernel: usize, stride: usize, padding: usize) -> Result<Self> {
        let refuse = |reason: String| Err(Error::Argument { op: "max_pool2d", reason });
        let &[batch, channels, height, width] = x.dims() else {
            return refuse(format!("expected x (N, C, H, W), got {:?}", x.dims()));
        };
        if x.elem_count() == 0 {
            return refuse(format!("x {:?} must have no zero extent", x.dims()));
        }
        if kernel == 0 || stride == 0 || padding > kernel / 2 {
            return refuse(format!(
                "kernel {kernel} and stride {stride} must be positive, padding {padding} at most kernel / 2"
            ));
        }
        if height + 2 * padding < kernel || width + 2 * padding < kernel {
            return refuse(format!(
                "a kernel of {kernel} does not fit {height} x {width} with padding {padding}"
            ));
        }
        if !matches!(x.dtype(), DType::F32 | DType::F64) && !on_gpu(x) {
            return refuse(format!("expected f32 or f64, got {:?}", x.dtype()));
        }
        Ok(Pool { planes: [batch, channels], input: [height, width], kernel, stride, padding })
    }

    /// The positions that output `i` of an axis reads.
    pub(super) fn window(&self, i: usize, size: usize) -> std::ops::Range<usize> {
        let start = i * self.stride;
        start.saturating_sub(self.padding)..(start + self.kernel - self.padding).min(size)
    }

    pub(super) fn output(&self) -> [usize; 2] {
        self.input.map(|size| (size + 2 * self.padding - self.kernel) / self.stride + 1)
    }

    /// Calls `found(output element, input element, value)` with the first maximum of every window of a plane.
    fn maxima<T: Float>(&self, plane: &[T], mut found: impl FnMut(usize, usize, T)) {
        let [height, width] = self.input;
        let [out_h, out_w] = self.output();
        for oy in 0..out_h {
            let rows = self.window(oy, height);
            for ox in 0..out_w {
                let cols = self.window(ox, width);
                let mut at = rows.start * width + cols.start;
                let mut best = plane[at];
                for y in rows.clone() {
                    for x in cols.clone() {
                        let value = plane[y * width + x];
                        // NaN does not even compare with itself.
                        if value > best || value.partial_cmp(&value).is_none() {
                            (at, best) = (y * width + x, value);
                        }
                    }
                }
                found(oy * out_w + ox, at, best);
            }
        }
    }

    fn forward<T: Float>(&self, x: &[T]) -> Vec<T> {
        let (plane, out) = (self.input.iter().product(), self.output().iter().product());
        let mut y = vec![T::zero(); self.planes.iter().product::<usize>() * out];
        y.par_chunks_exact_mut(out).zip(x.par_chunks_exact(plane)).for_each(|(y, x)| {
            self.maxima(x, |to, _, value| y[to] = value);
        });
        y
    }

    fn backward<T: Float>(&self, x: &[T], grad: &[T]) -> Vec<T> {
        let (plane, out): (usize, usize) = (self.input.iter().product(), self.output().iter().product());
        let mut dx = vec![T::zero(); x.len()];
        let planes = x.par_chunks_exact(plane).zip(grad.par_chunks_exact(out));
        dx.par_chunks_exact_mut(plane).zip(planes).for_each(|(dx, (x, grad))| {
            self.maxima(x, |from, at, _| dx[at] += grad[from]);
        });
        dx
    }
}

struct MaxPool(Pool);

impl CustomOp1 for MaxPool {
    fn name(&self) -> &'static str {
        "max_pool2d"
    }

    fn cpu_fwd(&self, s: &CpuStorage, l: &Layout) -> CandleResult<(CpuStorage, Shape)> {
        let y = match s {
            CpuStorage::F64(_) => f64::to_cpu_storage_owned(self.0.forward(elements(s, l)?)),
            _ => f32::to_cpu_storage_owned(self.0.forward(elements(s, l)?)),
        };
        let ([n, c], [h, w]) = (self.0.planes, self.0.output());
        Ok((y, Shape::from((n, c, h, w))))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        s: &candle_core::CudaStorage,
        l: &Layout,
    ) -> CandleResult<(candle_core::CudaStorage, Shape)> {
        let ([n, c], [h, w]) = (self.0.planes, self.0.output());
        Ok((self.0.cuda_forward(s, l, 1)?, Shape::from((n, c, h, w))))
    }

    fn bwd(&self, x: &Tensor, _: &Tensor, grad: &Tensor) -> CandleResult<Option<Tensor>> {
        x.apply_op2_no_bwd(&grad.contiguous()?, &MaxPoolGradient(self.0)).map(Some)
    }
}

/// `(x, gradient of y) -> gradient of x`.
struct MaxPoolGradient(Pool);

impl CustomOp2 for MaxPoolGradient {
    fn name(&self) -> &'static str {
        "max_pool2d gradient"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
    ) -> CandleResult<(CpuStorage, Shape)> {
        let dx = match s1 {
            CpuStorage::F64(_) => {
                f64::to_cpu_storage_owned(self.0.backward(elements(s1, l1)?, elements(s2, l2)?))
            }
            _ => f32::to_cpu_storage_owned(self.0.backward(elements(s1, l1)?, elements(s2, l2)?)),
        };
        Ok((dx, l1.shape().clone()))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        s1: &candle_core::CudaStorage,
        l1: &Layout,
        s2: &candle_core::CudaStorage,
        l2: &Layout,
    ) -> CandleResult<(candle_core::CudaStorage, Shape)> {
        Ok((self.0.cuda_backward((s1, l1), (s2, l2), 1)?, l1.shape().clone()))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};
    use proptest::prelude::*;

    use super::super::testing::{check_gradients, noise_tensor};
    use super::*;

    fn wrapped(x: &Tensor, kernel: usize, stride: usize, padding: usize) -> CandleResult<Tensor> {
        max_pool2d(x, kernel, stride, padding).map_err(candle_core::Error::wrap)
    }

    /// The gradient of `sum(max_pool2d(x) * weights)`.
    fn gradient(x: &Tensor, weights: &Tensor, (k, s, p): (usize, usize, usize)) -> Vec<f64> {
        let x = Var::from_tensor(x).unwrap();
        let loss = (max_pool2d(&x, k, s, p).unwrap() * weights).unwrap().sum_all().unwrap();
        loss.backward().unwrap().get(&x).unwrap().flatten_all().unwrap().to_vec1().unwrap()
    }

    const POOLS: [(usize, usize, usize); 6] =
        [(3, 2, 1), (1, 2, 0), (2, 2, 0), (3, 1, 1), (3, 3, 0), (2, 3, 1)];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn gradients_match_central_differences(
            n in 1usize..3, c in 1usize..4, h in 3usize..10, w in 3usize..10,
            (kernel, stride, padding) in prop::sample::select(POOLS.to_vec()),
        ) {
            let x = noise_tensor(&[n, c, h, w], 7).unwrap();
            let checked = check_gradients(|t| wrapped(&t[0], kernel, stride, padding), &[x], 1e-7, 1e-6);
            prop_assert!(checked.is_ok(), "{}", checked.unwrap_err());
        }
    }

    #[test]
    fn padding_never_wins_and_the_first_maximum_takes_the_gradient() {
        // All negative: zero padding would win.
        let x = Tensor::full(-1.0f64, (1, 1, 4, 4), &Device::Cpu).unwrap();
        let y = max_pool2d(&x, 3, 2, 1).unwrap();
        assert_eq!(y.flatten_all().unwrap().to_vec1::<f64>().unwrap(), vec![-1.0; 4]);
        // Windows start at elements (0, 0), (0, 1), (1, 0) and (1, 1) of the image.
        let weights = Tensor::new(&[[[[1.0f64, 2.0], [4.0, 8.0]]]], &Device::Cpu).unwrap();
        let mut expected = vec![0.0; 16];
        (expected[0], expected[1], expected[4], expected[5]) = (1.0, 2.0, 4.0, 8.0);
        assert_eq!(gradient(&x, &weights, (3, 2, 1)), expected);
    }

    #[test]
    fn overlapping_windows_add_their_gradients() {
        let mut values = vec![0.0f64; 25];
        values[12] = 1.0;
        let x = Tensor::from_vec(values, (1, 1, 5, 5), &Device::Cpu).unwrap();
        let weights = Tensor::new(&[[[[1.0f64, 2.0], [4.0, 8.0]]]], &Device::Cpu).unwrap();
        assert_eq!(gradient(&x, &weights, (3, 2, 0))[12], 15.0);
    }

    #[test]
    fn nan_is_passed_on() {
        let x = Tensor::new(&[[[[f32::NAN, 1.0], [2.0, 3.0]]]], &Device::Cpu).unwrap();
        assert!(
            max_pool2d(&x, 2, 2, 0).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap()[0].is_nan()
        );
    }

    #[test]
    fn candles_gradient_is_wrong_where_ours_is_right() {
        let x = noise_tensor(&[1, 1, 6, 6], 8).unwrap();
        assert!(
            check_gradients(|t| t[0].max_pool2d_with_stride(2, 2), std::slice::from_ref(&x), 1e-7, 1e-3)
                .is_err()
        );
        assert!(
            check_gradients(|t| t[0].max_pool2d_with_stride(3, 2), std::slice::from_ref(&x), 1e-7, 1e-3)
                .is_err()
        );
        check_gradients(|t| wrapped(&t[0], 2, 2, 0), &[x], 1e-7, 1e-6).unwrap();
    }

    #[test]
    fn unusable_arguments_are_refused_with_a_reason() {
        let t = |shape: &[usize]| Tensor::zeros(shape, DType::F32, &Device::Cpu).unwrap();
        let x = t(&[1, 2, 4, 4]);
        for (x, k, s, p, reason) in [
            (&t(&[4, 4]), 2, 2, 0, "(N, C, H, W)"),
            (&t(&[0, 2, 4, 4]), 2, 2, 0, "zero extent"),
            (&x, 0, 2, 0, "positive"),
            (&x, 2, 0, 0, "positive"),
            (&x, 2, 2, 2, "kernel / 2"),
            (&x, 5, 1, 0, "does not fit"),
            (&x.to_dtype(DType::U8).unwrap(), 2, 2, 0, "f32 or f64"),
        ] {
            match max_pool2d(x, k, s, p) {
                Err(Error::Argument { op: "max_pool2d", reason: given }) => {
                    assert!(given.contains(reason), "{given}")
                }
                other => panic!("{reason}: {other:?}"),
            }
        }
    }
}
