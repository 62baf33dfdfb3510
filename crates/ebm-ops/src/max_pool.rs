//! Maximum pooling with a gradient for any kernel and stride.

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
const OP: &str = "max_pool2d";

/// Pools by the maximum over square windows:
/// `y[n, i, j, c] = max_{u, v < kernel} x[n, i·stride + u - padding, j·stride + v - padding, c]`. Positions outside the image
/// do not count.
///
/// x `(N, H, W, C)`, f32, f64 or bf16, gives `(N, ⌊(H + 2·padding - kernel) / stride⌋ + 1, …, C)`. The gradient goes to the
/// first maximum of a window in row order, and adds up where windows overlap. NaN is greater than every number, as in
/// PyTorch.
///
/// # Errors
/// [`Error::Argument`] if x is not of rank 4, has a zero extent or is of another type, if kernel or stride is zero, if the
/// padding exceeds half the kernel (a window could lie outside), or if the kernel exceeds the padded image.
pub fn max_pool2d(x: &Tensor, kernel: usize, stride: usize, padding: usize) -> Result<Tensor> {
    if lacks_bf16_kernel(x) {
        return in_f32(x, |x| max_pool2d(x, kernel, stride, padding));
    }
    Ok(MaxPool::checked(x, Window { kernel, stride, padding })?.apply([x])?)
}

/// Geometry of the pooling windows.
#[derive(Clone, Copy)]
struct Window {
    kernel: usize,
    stride: usize,
    padding: usize,
}

#[derive(Clone, Copy)]
struct MaxPool {
    batch: usize,
    channels: usize,
    /// Height and width of the input.
    input: [usize; 2],
    window: Window,
}

impl MaxPool {
    fn checked(x: &Tensor, window: Window) -> Result<Self> {
        let refuse = |reason: String| Err(Error::Argument { op: OP, reason });
        let Window { kernel, stride, padding } = window;
        let &[batch, height, width, channels] = x.dims() else {
            return refuse(format!("expected x (N, H, W, C), got {:?}", x.dims()));
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
        if !matches!(x.dtype(), DType::F32 | DType::F64 | DType::BF16) {
            return refuse(format!("expected f32 or f64, got {:?}", x.dtype()));
        }
        Ok(Self { batch, channels, input: [height, width], window })
    }

    /// Returns the positions that output `i` of an axis reads.
    fn range(&self, i: usize, size: usize) -> std::ops::Range<usize> {
        let Window { kernel, stride, padding } = self.window;
        let start = i * stride;
        start.saturating_sub(padding)..(start + kernel - padding).min(size)
    }

    /// Returns height and width of the result.
    fn output(&self) -> [usize; 2] {
        let Window { kernel, stride, padding } = self.window;
        self.input.map(|size| (size + 2 * padding - kernel) / stride + 1)
    }

    fn forward<T: Float>(&self, x: &[T]) -> Vec<T> {
        let (images, inner, [height, width]) = (self.batch, self.channels, self.output());
        let mut y = unwritten(images * height * width * inner);
        let image = x.len() / images;
        let rows = y.par_chunks_mut(width * inner).enumerate().with_min_len(NUMBERS.div_ceil(width * inner));
        rows.for_each(|(row, y)| {
            let image = &x[row / height * image..][..image];
            for (j, y) in y.chunks_exact_mut(inner).enumerate() {
                self.maxima(image, row % height, j, y);
            }
        });
        y
    }

    fn backward<T: Float>(&self, x: &[T], dy: &[T]) -> Vec<T> {
        let (images, inner, [_, width]) = (self.batch, self.channels, self.output());
        let mut dx = zeros(x.len());
        let (image, pooled) = (x.len() / images, dy.len() / images);
        dx.par_chunks_mut(image).zip(x.par_chunks(image)).zip(dy.par_chunks(pooled)).for_each(
            |((dx, x), dy)| {
                let mut maxima = Maxima::new(inner);
                for (pixel, dy) in dy.chunks_exact(inner).enumerate() {
                    maxima.find(self, x, pixel / width, pixel % width);
                    for (at, dy) in maxima.at.iter().zip(dy) {
                        dx[*at] += *dy;
                    }
                }
            },
        );
        dx
    }

    /// Computes the maxima of output (i, j) of an image, without their positions.
    fn maxima<T: Float>(&self, image: &[T], i: usize, j: usize, best: &mut [T]) {
        let (inner, [height, width]) = (best.len(), self.input);
        let mut first = true;
        for y in self.range(i, height) {
            for x in self.range(j, width) {
                let pixel = &image[(y * width + x) * inner..][..inner];
                if std::mem::take(&mut first) {
                    best.copy_from_slice(pixel);
                    continue;
                }
                for (best, value) in best.iter_mut().zip(pixel) {
                    // Stores in either case, so that many numbers are compared at a time. NaN stays: it does not even compare
                    // with itself.
                    let stays = *best >= *value || (*best).partial_cmp(&*best).is_none();
                    *best = if stays { *best } else { *value };
                }
            }
        }
    }
}

/// Least number of results that a task computes.
const NUMBERS: usize = 1 << 10;

/// First maximum of every channel in a window, and its offset, for the gradient.
struct Maxima<T> {
    value: Vec<T>,
    at: Vec<usize>,
}

impl<T: Float> Maxima<T> {
    fn new(inner: usize) -> Self {
        Self { value: vec![T::zero(); inner], at: vec![0; inner] }
    }

    /// Finds the maxima of output (i, j) of an image.
    fn find(&mut self, pool: &MaxPool, image: &[T], i: usize, j: usize) {
        let (inner, [height, width]) = (self.value.len(), pool.input);
        let mut first = true;
        for y in pool.range(i, height) {
            for x in pool.range(j, width) {
                let offset = (y * width + x) * inner;
                let pixel = &image[offset..offset + inner];
                for (((best, at), value), here) in
                    self.value.iter_mut().zip(&mut self.at).zip(pixel).zip(offset..)
                {
                    // NaN does not even compare with itself.
                    if first || *value > *best || value.partial_cmp(value).is_none() {
                        (*best, *at) = (*value, here);
                    }
                }
                first = false;
            }
        }
    }
}

/// Kernels `x -> y` and `(x, dy) -> dx`.
impl<const N: usize> Kernel<N> for MaxPool {
    const NAME: &'static str = OP;

    fn shape(&self, arguments: [&Shape; N]) -> CandleResult<Shape> {
        let [height, width] = self.output();
        let result = Shape::from((self.batch, height, width, self.channels));
        Ok(if N == 1 { result } else { arguments[0].clone() })
    }

    fn host<T: Float>(&self, all: [&[T]; N]) -> CandleResult<Vec<T>> {
        Ok(match all.get(1) {
            None => self.forward(all[0]),
            Some(dy) => self.backward(all[0], dy),
        })
    }

    #[cfg(feature = "cuda")]
    fn cuda(&self, arguments: [cuda::Argument<'_>; N]) -> cuda::Made {
        let (x, [height, width], [out_h, out_w]) = (arguments[0], self.input, self.output());
        let Window { kernel, stride, padding } = self.window;
        let sizes = cuda::sizes([height, width, out_h, out_w, kernel, stride, padding, self.channels])?;
        let [h, w, oh, ow, kernel, stride, padding, inner] = &sizes;
        let (device, pooled) = (cuda::device(x), self.batch * self.channels * out_h * out_w);
        let len = cuda::len(x);
        cuda::by_any_type!(x, OP, T => {
            let x = cuda::elements::<T>(x)?;
            let Some(dy) = arguments.get(1) else {
                return cuda::made!(device, MAX_POOL::"max_pool_forward", T, pooled => pooled;
                    &x; h, w, oh, ow, kernel, stride, padding, inner);
            };
            let dy = cuda::elements::<T>(*dy)?;
            cuda::made!(device, MAX_POOL::"max_pool_backward", T, len => len;
                &x, &dy; h, w, oh, ow, kernel, stride, padding, inner)
        })
    }

    fn gradients(&self, arguments: [&Tensor; N], _: &Tensor, dy: &Tensor) -> Gradients<N> {
        let mut gradients = [const { None }; N];
        gradients[0] = Some(self.run([arguments[0], dy])?);
        Ok(gradients)
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};
    use proptest::prelude::*;

    use super::*;
    use crate::layout::{channels_first, to_channels_last};
    use crate::tests::{check_gradients, noise_tensor};

    /// Pools maps (N, C, H, W).
    fn first(x: &Tensor, kernel: usize, stride: usize, padding: usize) -> Result<Tensor> {
        channels_first(&max_pool2d(&to_channels_last(x)?, kernel, stride, padding)?)
    }

    fn wrapped(x: &Tensor, kernel: usize, stride: usize, padding: usize) -> CandleResult<Tensor> {
        first(x, kernel, stride, padding).map_err(candle_core::Error::wrap)
    }

    /// Returns the gradient of `sum(first(x) * weights)`.
    fn gradient(x: &Tensor, weights: &Tensor, (k, s, p): (usize, usize, usize)) -> Vec<f64> {
        let x = Var::from_tensor(x).unwrap();
        let loss = (first(&x, k, s, p).unwrap() * weights).unwrap().sum_all().unwrap();
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
        // All numbers are negative, so zero padding would win.
        let x = Tensor::full(-1.0f64, (1, 1, 4, 4), &Device::Cpu).unwrap();
        let y = first(&x, 3, 2, 1).unwrap();
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
        assert!(first(&x, 2, 2, 0).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap()[0].is_nan());
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
            (&t(&[4, 4]), 2, 2, 0, "(N, H, W, C)"),
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

    #[test]
    fn gradients_with_the_channels_innermost() {
        let x = noise_tensor(&[2, 4, 5, 3], 2).unwrap();
        let pool = |t: &[Tensor]| max_pool2d(&t[0], 3, 2, 1).map_err(candle_core::Error::wrap);
        check_gradients(pool, &[x], 1e-6, 1e-8).unwrap();
    }
}
