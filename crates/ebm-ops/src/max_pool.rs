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
