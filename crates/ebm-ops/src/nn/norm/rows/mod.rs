//! Normalisation by the batch's statistics of maps with the channels innermost, with a residual and an activation in the same
//! pass: z = γ (x − μ)·inv_std + β [+ residual], then ReLU, ReLU6 or PReLU if wanted. CPU only.
//!
//! A map is read once for its statistics and once to be normalised. It is read with its gradient once for the sums and once
//! for the gradient in it. z is computed again where its sign matters, because this is cheaper than a pass over memory.

mod activation_fn;

use candle_core::{CpuStorage, DType, Result, Shape, Tensor};

use self::activation_fn::{ActivationFn, Clamp, Identity, Slope};
use super::{Fused, NormEpilogue};
use crate::kernel::{Apply, Argument, Gradients, Kernel, by_type};
use crate::rows::{Loop, ROWS, blocks, each, rows, sums};
use crate::{Activation, Float};

/// Returns y of x (…, C), and the batch's mean and biased variance, each (C) in f64. The caller applies PReLU after a
/// residual.
pub fn fused<'a>(
    x: &Tensor,
    [weight, bias]: [&Tensor; 2],
    epilogue: NormEpilogue<'a>,
    eps: f64,
) -> Result<Fused<'a>> {
    let NormEpilogue { residual, mut activation, mut slope } = epilogue;
    let mut rest = NormEpilogue::default();
    if slope.is_some() {
        activation = Activation::None;
    }
    if residual.is_some() {
        rest.slope = slope.take();
    }
    let x = x.contiguous()?;
    let moments = Moments.run([&x])?;
    let (mean, var) = (moments.get(0)?, moments.get(1)?);
    let op =
        Normalise { mean: mean.to_vec1()?, inv_std: (&var + eps)?.sqrt()?.recip()?.to_vec1()?, activation };
    let affine: Vec<&Tensor> = [weight, bias].into_iter().chain(slope).collect();
    let affine = Tensor::stack(&affine, 0)?;
    let y = match residual {
        Some(residual) => op.apply([&x, &affine, residual])?,
        None => op.apply([&x, &affine])?,
    };
    Ok(((y, mean, var), rest))
}

/// Kernel of the mean and the biased variance of each channel: (…, C) -> (2, C) in f64.
struct Moments;

/// Kernel (x, affine[, residual]) -> y, where `affine` is (γ, β), (2, C), or with the slope of PReLU (3, C).
struct Normalise {
    mean: Vec<f64>,
    inv_std: Vec<f64>,
    activation: Activation,
}

/// Loop that computes, for a block of rows (…, C), the sums of each channel, its means, and the sums of squares around these.
/// The block is read while it lies in the caches.
struct AroundMeans<'a, T> {
    x: &'a [T],
    channels: usize,
}

impl<T: Float> Loop<T> for AroundMeans<'_, T> {
    #[inline(always)]
    fn run(&self, first: usize, to: &mut [T]) {
        let (channels, rows) = (self.channels, rows(self.x, first, self.channels));
        let ([sum, centre, squares], count) = (parts(to, channels), T::from_f64(rows.len() as f64));
        for row in rows.clone() {
            for c in 0..channels {
                sum[c] += row[c];
            }
        }
        for c in 0..channels {
            centre[c] = sum[c] / count;
        }
        for row in rows {
            for c in 0..channels {
                squares[c] += (row[c] - centre[c]) * (row[c] - centre[c]);
            }
        }
    }
}

fn moments<T: Float>(x: &[T], channels: usize) -> Vec<f64> {
    let blocks = blocks(3 * channels, channels, x.len(), &AroundMeans { x, channels });
    let count = (x.len() / channels) as f64;
    let mut mean = vec![0.0; channels];
    for block in &blocks {
        mean.iter_mut().zip(block).for_each(|(mean, sum)| *mean += sum.to_f64() / count);
    }
    // Σ (x − μ)² = Σ (x − c)² + 2 (c − μ) Σ (x − c) + n (c − μ)² for each block, where c are rounded means.
    let mut variance = vec![0.0; channels];
    for (block, number) in blocks.iter().zip(0..) {
        let n = ROWS.min(x.len() / channels - number * ROWS) as f64;
        for c in 0..channels {
            let [sum, centre, squares] = [0, 1, 2].map(|part| block[part * channels + c].to_f64());
            let off = centre - mean[c];
            variance[c] += (squares + 2.0 * off * (sum - n * centre) + n * off * off) / count;
        }
    }
    mean.into_iter().chain(variance).collect()
}

/// Splits off N parts of `len` numbers.
#[inline(always)]
fn parts<T, const N: usize>(mut all: &mut [T], len: usize) -> [&mut [T]; N] {
    std::array::from_fn(|_| {
        let (part, rest) = std::mem::take(&mut all).split_at_mut(len);
        all = rest;
        part
    })
}

impl Kernel<1> for Moments {
    const NAME: &'static str = "batch-norm-moments";

    fn shape(&self, [x]: [&Shape; 1]) -> Result<Shape> {
        Ok(Shape::from((2, channels(x))))
    }

    fn cpu(&self, arguments: [Argument<'_>; 1]) -> Result<CpuStorage> {
        let channels = channels(arguments[0].1.shape());
        by_type!("batch-norm", arguments, |[x]| moments(x, channels))
    }
}

fn channels(shape: &Shape) -> usize {
    shape.dims().last().copied().unwrap_or(1)
}

/// Affine map z = scale · x + shift of each channel, and the slope of PReLU, else 0.
struct Map<T> {
    scale: Vec<T>,
    shift: Vec<T>,
    slope: Vec<T>,
}

/// Runs `$run` with `$activation_fn` bound to the function after the normalisation.
macro_rules! by_activation_fn {
    ($op:expr, $affine:expr, $type:ty, |$activation_fn:ident| $run:expr) => {
        if $affine.len() > 2 * $op.mean.len() {
            let $activation_fn = Slope;
            $run
        } else if $op.activation == Activation::None {
            let $activation_fn = Identity;
            $run
        } else {
            let $activation_fn = Clamp($op.activation.bounds().map(<$type>::from_f64));
            $run
        }
    };
}

impl Normalise {
    fn map<T: Float>(&self, affine: &[T]) -> Map<T> {
        let channels = self.mean.len();
        let (weight, rest) = affine.split_at(channels);
        let (bias, slope) = rest.split_at(channels);
        let scale = |c: usize| weight[c].to_f64() * self.inv_std[c];
        let shift = |c: usize| T::from_f64(bias[c].to_f64() - self.mean[c] * scale(c));
        Map {
            scale: (0..channels).map(|c| T::from_f64(scale(c))).collect(),
            shift: (0..channels).map(shift).collect(),
            slope: if slope.is_empty() { vec![T::zero(); channels] } else { slope.to_vec() },
        }
    }
}

impl<T> Map<T> {
    #[inline(always)]
    fn lines(&self, channels: usize) -> [&[T]; 3] {
        [&self.scale, &self.shift, &self.slope].map(|line| &line[..channels])
    }
}

/// Loop that computes z and the function after it.
struct Forward<'a, T, F> {
    x: &'a [T],
    residual: Option<&'a [T]>,
    map: &'a Map<T>,
    activation_fn: F,
}

impl<T: Float, F: ActivationFn<T>> Loop<T> for Forward<'_, T, F> {
    #[inline(always)]
    fn run(&self, first: usize, y: &mut [T]) {
        let (channels, activation_fn) = (self.map.scale.len(), self.activation_fn);
        let [scale, shift, slope] = self.map.lines(channels);
        let lines = y.chunks_exact_mut(channels).zip(rows(self.x, first, channels));
        match self.residual.map(|residual| rows(residual, first, channels)) {
            Some(residual) => {
                for ((y, x), residual) in lines.zip(residual) {
                    for c in 0..channels {
                        y[c] = activation_fn.value(x[c] * scale[c] + shift[c] + residual[c], slope[c]);
                    }
                }
            }
            None => {
                for (y, x) in lines {
                    for c in 0..channels {
                        y[c] = activation_fn.value(x[c] * scale[c] + shift[c], slope[c]);
                    }
                }
            }
        }
    }
}

/// x, and the gradient g in the value of the function after z.
struct Behind<'a, T, F> {
    x: &'a [T],
    g: &'a [T],
    map: &'a Map<T>,
    activation_fn: F,
}

impl<const N: usize> Kernel<N> for Normalise {
    const NAME: &'static str = "batch-norm";

    fn host<T: Float>(&self, all: [&[T]; N]) -> Result<Vec<T>> {
        let (x, affine, residual) = (all[0], all[1], all.get(2).copied());
        let (channels, map) = (self.mean.len(), self.map(affine));
        Ok(by_activation_fn!(self, affine, T, |activation_fn| {
            each(channels, x.len(), &Forward { x, residual, map: &map, activation_fn })
        }))
    }

    /// Returns the gradients. With h = g times the derivative of the function after z, x̂ = (x − μ)·inv_std and m values per
    /// channel: ∂β = Σh, ∂γ = Σ h·x̂, ∂residual = h, ∂x = γ·inv_std·(h − ∂β/m − x̂·∂γ/m). The gradient in the slope of PReLU
    /// is the sum of g·z where z is not positive.
    fn gradients(&self, arguments: [&Tensor; N], y: &Tensor, g: &Tensor) -> Gradients<N> {
        let (x, affine) = (arguments[0], arguments[1]);
        let mut gradients = std::array::from_fn(|_| None);
        // The gradient in a residual is h, which is written to memory then.
        let (activation, g) = match arguments.get(2) {
            Some(_) => (Activation::None, self.activation.gradient(g, y)?),
            None => (self.activation, g.contiguous()?),
        };
        if let (Some(residual), Some(gradient)) = (arguments.get(2), gradients.get_mut(2)) {
            *gradient = residual.track_op().then(|| g.clone());
        }
        let op = Self { mean: self.mean.clone(), inv_std: self.inv_std.clone(), activation };
        let sums = GradSums(&op).run([x, affine, &g])?;
        if x.track_op() {
            let count = (x.elem_count() / self.mean.len()) as f64;
            let gamma = affine.get(0)?.to_dtype(DType::F64)?.to_vec1::<f64>()?;
            let sums = sums.to_vec2::<f64>()?;
            let (d_weight, d_bias) = (&sums[0], &sums[1]);
            let coefficients = (0..gamma.len()).map(|c| {
                let p = gamma[c] * self.inv_std[c];
                let q = -p * self.inv_std[c] * d_weight[c] / count;
                [p, q, -p * d_bias[c] / count - q * self.mean[c]]
            });
            let combine = Combine { op: &op, coefficients: coefficients.collect() };
            gradients[0] = Some(combine.run([x, affine, &g])?);
        }
        gradients[1] = affine.track_op().then(|| sums.to_dtype(affine.dtype())).transpose()?;
        Ok(gradients)
    }
}

/// Kernel (x, affine, g) -> gradient in `affine`, in f64: Σ h·x̂ and Σ h of each channel, and with a slope Σ g·z where z is
/// not positive.
struct GradSums<'a>(&'a Normalise);

impl GradSums<'_> {
    fn sums<T: Float>(&self, x: &[T], affine: &[T], g: &[T]) -> Vec<f64> {
        let (channels, map) = (self.0.mean.len(), &self.0.map(affine));
        let mean: Vec<T> = self.0.mean.iter().map(|mean| T::from_f64(*mean)).collect();
        let mut sums = by_activation_fn!(self.0, affine, T, |activation_fn| {
            let of = Sums { of: Behind { x, g, map, activation_fn }, mean };
            sums(3 * channels, channels, x.len(), &of)
        });
        sums.iter_mut().zip(&self.0.inv_std).for_each(|(sum, inv_std)| *sum *= inv_std);
        sums.truncate(affine.len());
        sums
    }
}

/// Loop that computes, for a block and the channels' means, Σ h (x − μ), Σ h, and the gradient in the slope.
struct Sums<'a, T, F> {
    of: Behind<'a, T, F>,
    mean: Vec<T>,
}

impl<T: Float, F: ActivationFn<T>> Loop<T> for Sums<'_, T, F> {
    #[inline(always)]
    fn run(&self, first: usize, sums: &mut [T]) {
        let (Behind { x, g, map, activation_fn }, channels) = (&self.of, self.mean.len());
        let ([scale, shift, slope], mean) = (map.lines(channels), &self.mean[..channels]);
        let [products, plain, slopes] = parts(sums, channels);
        for (x, g) in rows(x, first, channels).zip(rows(g, first, channels)) {
            for c in 0..channels {
                let z = x[c] * scale[c] + shift[c];
                let h = activation_fn.gradient(g[c], z, slope[c]);
                products[c] += h * (x[c] - mean[c]);
                plain[c] += h;
                slopes[c] += activation_fn.slope_gradient(g[c], z);
            }
        }
    }
}

impl Kernel<3> for GradSums<'_> {
    const NAME: &'static str = "batch-norm-grad-sums";

    fn shape(&self, [_, affine, _]: [&Shape; 3]) -> Result<Shape> {
        Ok(affine.clone())
    }

    /// Computes the sums in f64 for both types.
    fn cpu(&self, arguments: [Argument<'_>; 3]) -> Result<CpuStorage> {
        by_type!("batch-norm", arguments, |[x, affine, g]| self.sums(x, affine, g))
    }
}

/// Kernel (x, affine, g) -> p·h + q·x + r with (p, q, r) of each channel.
struct Combine<'a> {
    op: &'a Normalise,
    coefficients: Vec<[f64; 3]>,
}

/// Loop that computes p·h + q·x + r.
struct Combined<'a, T, F> {
    of: Behind<'a, T, F>,
    coefficients: [Vec<T>; 3],
}

impl<T: Float, F: ActivationFn<T>> Loop<T> for Combined<'_, T, F> {
    #[inline(always)]
    fn run(&self, first: usize, dx: &mut [T]) {
        let (Behind { x, g, map, activation_fn }, channels) = (&self.of, self.of.map.scale.len());
        let [scale, shift, slope] = map.lines(channels);
        let [p, q, r] = self.coefficients.each_ref().map(|line| &line[..channels]);
        let inputs = rows(x, first, channels).zip(rows(g, first, channels));
        for (dx, (x, g)) in dx.chunks_exact_mut(channels).zip(inputs) {
            for c in 0..channels {
                let h = activation_fn.gradient(g[c], x[c] * scale[c] + shift[c], slope[c]);
                dx[c] = p[c] * h + q[c] * x[c] + r[c];
            }
        }
    }
}

impl Kernel<3> for Combine<'_> {
    const NAME: &'static str = "batch-norm-grad";

    fn host<T: Float>(&self, [x, affine, g]: [&[T]; 3]) -> Result<Vec<T>> {
        let map = &self.op.map(affine);
        let coefficient = |i: usize| self.coefficients.iter().map(|all| T::from_f64(all[i])).collect();
        let coefficients = [0, 1, 2].map(coefficient);
        Ok(by_activation_fn!(self.op, affine, T, |activation_fn| {
            let of = Combined { of: Behind { x, g, map, activation_fn }, coefficients };
            each(self.op.mean.len(), x.len(), &of)
        }))
    }
}
