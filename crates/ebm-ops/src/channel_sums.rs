//! Sums of each channel over the rows of a tensor (…, C) on a GPU.

use candle_core::{DType, Result, Shape, Tensor};

use crate::cuda::{self, Argument, Made, by_any_type, elements, launch, made, sizes, unwritten};
use crate::kernel::Kernel;

/// Threads of a block of `moments.cu`, and channels that a block adds up.
const THREADS: usize = 256;
const ACROSS: usize = 32;
/// Least number of rows that a block adds up, unless there are fewer.
const ROWS: usize = 1 << 8;
/// Largest number of shares that the rows are cut into.
const SHARES: usize = 1 << 8;

/// Returns Σ g of each channel of g (…, C), in f64 as (C). The order of summation is fixed.
pub(crate) fn channel_sums(g: &Tensor) -> Result<Tensor> {
    let [_, channels] = extents(g.shape());
    let stats = Tensor::zeros((2, channels), DType::F64, g.device())?;
    Sums { eps: 1.0 }.run([g, g, &stats])?.get(1)
}

/// Returns the sizes of a shape (…, C): rows, and channels.
pub(crate) fn extents(shape: &Shape) -> [usize; 2] {
    let channels = shape.dims().last().copied().unwrap_or(1);
    [shape.elem_count() / channels.max(1), channels]
}

/// Kernel of statistics of each channel, (2, C) in f64: x gives (mean, biased variance); x, a gradient g and the statistics
/// of x give (Σ g·x̂, Σ g).
pub(crate) struct Sums {
    pub(crate) eps: f64,
}

impl<const N: usize> Kernel<N> for Sums {
    const NAME: &'static str = "batch-norm";

    fn shape(&self, arguments: [&Shape; N]) -> Result<Shape> {
        Ok(Shape::from((2, extents(arguments[0])[1])))
    }

    fn cuda(&self, arguments: [Argument<'_>; N]) -> Made {
        let (x, grad) = (arguments[0], arguments.get(1).copied());
        let ([rows, channels], device) = (extents(x.1.shape()), cuda::device(x));
        let num_shares = rows.div_ceil(ROWS).clamp(1, SHARES);
        let ([n, c, k], groups) = (sizes([rows, channels, num_shares])?, channels.div_ceil(ACROSS));
        let (has_grad, total) = (i32::from(grad.is_some()), rows as f64);
        let (moments, none) = (1 - has_grad, unwritten::<f64>(device, 1)?);
        let stats = match arguments.get(2) {
            Some(stats) => elements::<f64>(*stats)?,
            None => none.slice(..),
        };
        let mut shares = unwritten::<f64>(device, 2 * num_shares * channels)?;
        by_any_type!(x, "batch-norm", T => {
            let (x, grad) = (elements::<T>(x)?, elements::<T>(grad.unwrap_or(x))?);
            launch!(device, MOMENTS::"norm_partial", T, num_shares * groups * THREADS;
                &x, &grad, &stats, &mut shares, &has_grad, &n, &c, &k);
            made!(device, MOMENTS::"norm_gather", f64, groups * THREADS => 2 * channels;
                &shares, &stats; &moments, &c, &k, &total, &self.eps)
        })
    }
}
