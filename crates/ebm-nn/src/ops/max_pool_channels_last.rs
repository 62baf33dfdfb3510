//! [`max_pool2d`](super::max_pool2d()) of maps with the channels innermost.

use candle_core::{
    CpuStorage, CustomOp1, CustomOp2, Layout, Result as CandleResult, Shape, Tensor, WithDType,
};
use rayon::prelude::*;

use super::max_pool::{Pool, max_pool2d};
use super::storage::{Float, elements, zeros};
use super::widened::{is_narrow, widened};
use crate::Result;

/// [`max_pool2d`](super::max_pool2d()) of maps with the channels innermost: (N, H, W, C) gives (N, oh, ow, C).
///
/// # Errors
/// As there.
pub fn max_pool2d_channels_last(x: &Tensor, kernel: usize, stride: usize, padding: usize) -> Result<Tensor> {
    if is_narrow(x) {
        return widened(x, |x| max_pool2d_channels_last(x, kernel, stride, padding));
    }
    let view = if x.rank() == 4 { x.permute((0, 3, 1, 2))? } else { x.clone() };
    // On a GPU, convolutions leave maps in the other order.
    if !x.device().is_cpu() && (view.is_contiguous() || !x.device().is_cuda()) {
        return Ok(max_pool2d(&view, kernel, stride, padding)?.permute((0, 2, 3, 1))?);
    }
    let pool = Pool::checked(&view, kernel, stride, padding)?;
    Ok(x.contiguous()?.apply_op1(MaxPool(pool))?)
}

struct MaxPool(Pool);

/// The offset of the first maximum of every channel in a window, and the maxima themselves.
struct Maxima<T> {
    value: Vec<T>,
    at: Vec<usize>,
}

impl<T: Float> Maxima<T> {
    fn new(channels: usize) -> Self {
        Self { value: vec![T::zero(); channels], at: vec![0; channels] }
    }

    /// Finds those of output (i, j) of an image.
    fn find(&mut self, pool: &Pool, image: &[T], i: usize, j: usize) {
        let [_, channels] = pool.planes;
        let [height, width] = pool.input;
        let mut first = true;
        for y in pool.window(i, height) {
            for x in pool.window(j, width) {
                let offset = (y * width + x) * channels;
                let pixel = &image[offset..offset + channels];
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

impl MaxPool {
    fn forward<T: Float>(&self, x: &[T]) -> Vec<T> {
        let ([batch, channels], [height, width]) = (self.0.planes, self.0.output());
        let mut y = zeros(batch * height * width * channels);
        let image = x.len() / batch;
        y.par_chunks_mut(width * channels).enumerate().for_each_init(
            || Maxima::new(channels),
            |maxima, (row, y)| {
                let image = &x[row / height * image..][..image];
                for (j, y) in y.chunks_exact_mut(channels).enumerate() {
                    maxima.find(&self.0, image, row % height, j);
                    y.copy_from_slice(&maxima.value);
                }
            },
        );
        y
    }

    fn backward<T: Float>(&self, x: &[T], dy: &[T]) -> Vec<T> {
        let ([batch, channels], [_, width]) = (self.0.planes, self.0.output());
        let mut dx = zeros(x.len());
        let (image, pooled) = (x.len() / batch, dy.len() / batch);
        dx.par_chunks_mut(image).zip(x.par_chunks(image)).zip(dy.par_chunks(pooled)).for_each(
            |((dx, x), dy)| {
                let mut maxima = Maxima::new(channels);
                for (pixel, dy) in dy.chunks_exact(channels).enumerate() {
                    maxima.find(&self.0, x, pixel / width, pixel % width);
                    for (at, dy) in maxima.at.iter().zip(dy) {
                        dx[*at] += *dy;
                    }
                }
            },
        );
        dx
    }
}

impl CustomOp1 for MaxPool {
    fn name(&self) -> &'static str {
        "max_pool2d"
    }

    fn cpu_fwd(&self, s: &CpuStorage, l: &Layout) -> CandleResult<(CpuStorage, Shape)> {
        let y = match s {
            CpuStorage::F64(_) => f64::to_cpu_storage_owned(self.forward(elements(s, l)?)),
            _ => f32::to_cpu_storage_owned(self.forward(elements(s, l)?)),
        };
        let ([n, c], [h, w]) = (self.0.planes, self.0.output());
        Ok((y, Shape::from((n, h, w, c))))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        s: &candle_core::CudaStorage,
        l: &Layout,
    ) -> CandleResult<(candle_core::CudaStorage, Shape)> {
        let ([n, c], [h, w]) = (self.0.planes, self.0.output());
        Ok((self.0.cuda_forward(s, l, c)?, Shape::from((n, h, w, c))))
    }

    fn bwd(&self, x: &Tensor, _: &Tensor, dy: &Tensor) -> CandleResult<Option<Tensor>> {
        x.apply_op2_no_bwd(&dy.contiguous()?, &Gradient(Self(self.0))).map(Some)
    }
}

/// `(x, dy) -> dx`.
struct Gradient(MaxPool);

impl CustomOp2 for Gradient {
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
        let [_, channels] = self.0.0.planes;
        Ok((self.0.0.cuda_backward((s1, l1), (s2, l2), channels)?, l1.shape().clone()))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Tensor;

    use super::super::testing::{check_gradients, noise_tensor};
    use super::*;

    #[test]
    fn it_is_the_pooling_of_the_other_order() {
        for (kernel, stride, padding) in [(3, 2, 1), (2, 2, 0), (1, 2, 0), (3, 1, 1)] {
            let x = noise_tensor(&[2, 5, 7, 3], 1).unwrap();
            let x = if kernel == 2 { x.affine(f64::NAN, 0.0).unwrap() } else { x };
            let y = max_pool2d_channels_last(&x, kernel, stride, padding).unwrap();
            let view = x.permute((0, 3, 1, 2)).unwrap();
            let expected = max_pool2d(&view, kernel, stride, padding).unwrap().permute((0, 2, 3, 1)).unwrap();
            let flat = |t: Tensor| t.flatten_all().unwrap().to_vec1::<f64>().unwrap();
            for (y, expected) in flat(y).into_iter().zip(flat(expected)) {
                assert!(y == expected || (y.is_nan() && expected.is_nan()));
            }
        }
    }

    #[test]
    fn gradients_against_differences() {
        let x = noise_tensor(&[2, 4, 5, 3], 2).unwrap();
        let pool = |t: &[Tensor]| max_pool2d_channels_last(&t[0], 3, 2, 1).map_err(candle_core::Error::wrap);
        check_gradients(pool, &[x], 1e-6, 1e-8).unwrap();
    }
}
