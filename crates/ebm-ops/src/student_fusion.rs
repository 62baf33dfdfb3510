//! A head that scores y for x about an estimate of y: Student's t and a bounded summand of free shape, in one pass.
//!
//! `f(x, y) = −(ν + 1)/2 Σ_d ln(1 + u_d²/ν) + w · max(a + W g(u), 0) + bias` with `u = (y − μ)/s`, ν > 1, and g(u) the
//! `tanh(u/τ)` of five widths τ. μ, log s and a depend on x alone. As tensor operations it would write and read `(B, M, H)`
//! numbers and take 5 D hyperbolic tangents of each candidate one after the other. Here some candidates of an input pass at
//! once, in the first cache.

use candle_core::{CpuStorage, Result as CandleResult, Shape, Tensor};

use super::elementary::Elementary;
use super::kernel::{Apply, Argument, Gradients, Kernel, by_type};
use super::simd::Vectorized;
use crate::{Error, Result};

/// Name in errors.
const OP: &str = "student_fusion";
/// Widths τ of tanh(u/τ): small ones resolve the middle, large ones the tails.
const WIDTHS: [f64; 5] = [0.5, 1.0, 2.0, 4.0, 8.0];
/// Partial sums over candidates.
const LANES: usize = 8;
/// Candidates that pass at once, a multiple of [`LANES`].
const BLOCK: usize = 96;

/// Head of Student's t and late fusion, for y of D = 1, 2 or 3 coordinates, on the CPU.
#[derive(Clone, Debug)]
pub struct StudentFusion {
    sizes: Sizes,
    /// W, w, bias and log(ν − 1), end to end.
    theta: Tensor,
}

#[derive(Clone, Copy, Debug)]
struct Sizes {
    /// D.
    dim: usize,
    /// H.
    hidden: usize,
}

impl StudentFusion {
    /// Number of columns of W for each coordinate.
    pub const FEATURES: usize = WIDTHS.len();

    /// Makes the head from W (H, 5D), whose columns are the widths τ in ascending order, each with its D coordinates; w (1, H)
    /// with its `bias` (1); and `log_tails`, log(ν − 1), (1). All are f32 or all f64.
    ///
    /// # Errors
    /// [`Error::Argument`] if a shape does not fit, or D is not 1, 2 or 3.
    pub fn new(join: &Tensor, out: &Tensor, bias: &Tensor, log_tails: &Tensor) -> Result<Self> {
        let (hidden, width) = join.dims2()?;
        let dim = width / WIDTHS.len();
        if !(1..=3).contains(&dim)
            || width % WIDTHS.len() != 0
            || out.dims() != [1, hidden]
            || bias.dims() != [1]
            || log_tails.dims() != [1]
        {
            let dims = [join, out, bias, log_tails].map(Tensor::dims);
            return refuse(format!(
                "W {:?}, w {:?}, {:?} and {:?} do not fit",
                dims[0], dims[1], dims[2], dims[3]
            ));
        }
        let theta = Tensor::cat(&[&join.flatten_all()?, &out.flatten_all()?, bias, log_tails], 0)?;
        Ok(Self { sizes: Sizes { dim, hidden }, theta })
    }

    /// Scores `y` (B, M, D) -> f (B, M) for `x` (B, 2D + H), which holds μ, log s and a of each input. Differentiable in both
    /// and in the parameters. The result has the same bits for every number of threads.
    ///
    /// # Errors
    /// [`Error::Argument`] if a shape or a type does not fit.
    pub fn forward(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let Sizes { dim, hidden } = self.sizes;
        let batch = x.dims().first().copied().unwrap_or_default();
        if x.dims() != [batch, 2 * dim + hidden]
            || !matches!(*y.dims(), [rows, _, d] if rows == batch && d == dim)
            || [x, y].into_iter().any(|t| t.dtype() != self.theta.dtype())
        {
            let (x, y, width) = (x.dims(), y.dims(), 2 * dim + hidden);
            return refuse(format!(
                "expected x (B, {width}) and y (B, M, {dim}) of the parameters' type, got {x:?} and {y:?}"
            ));
        }
        Ok(Score(self.sizes).apply([x, y, &self.theta])?)
    }
}

fn refuse<T>(reason: String) -> Result<T> {
    Err(Error::Argument { op: OP, reason })
}

/// Kernel (x, y, θ) -> f.
struct Score(Sizes);

impl Score {
    fn scores<T: Elementary>(&self, all: [&[T]; 3]) -> Vec<T> {
        let mut f = vec![T::zero(); all[1].len() / self.0.dim];
        self.pass(all, None, &mut f);
        f
    }

    /// Computes f of all candidates, or, from its gradients, the gradients of x, θ and y, end to end.
    fn pass<T: Elementary>(&self, [x, y, theta]: [&[T]; 3], g: Option<&[T]>, to: &mut [T]) {
        T::run(Pass { sizes: self.0, x, y, theta, g, to });
    }
}

impl Kernel<3> for Score {
    const NAME: &'static str = OP;

    fn shape(&self, [_, y, _]: [&Shape; 3]) -> CandleResult<Shape> {
        let (batch, count, _) = y.dims3()?;
        Ok(Shape::from((batch, count)))
    }

    fn cpu(&self, arguments: [Argument<'_>; 3]) -> CandleResult<CpuStorage> {
        by_type!(OP, arguments, |all| self.scores(all))
    }

    fn gradients(&self, [x, y, theta]: [&Tensor; 3], _: &Tensor, g: &Tensor) -> Gradients<3> {
        let all = Gradient(Self(self.0)).run([x, y, theta, g])?;
        let mut start = 0;
        let mut part = |of: &Tensor| {
            start += of.elem_count();
            all.narrow(0, start - of.elem_count(), of.elem_count())?.reshape(of.shape()).map(Some)
        };
        let (x, theta) = (part(x)?, part(theta)?);
        Ok([x, if y.track_op() { part(y)? } else { None }, theta])
    }
}

/// Kernel (x, y, θ, gradient of f) -> gradients of x, θ and y, end to end.
struct Gradient(Score);

impl Gradient {
    fn made<T: Elementary>(&self, [x, y, theta, g]: [&[T]; 4]) -> Vec<T> {
        let mut to = vec![T::zero(); x.len() + theta.len() + y.len()];
        self.0.pass([x, y, theta], Some(g), &mut to);
        to
    }
}

impl Kernel<4> for Gradient {
    const NAME: &'static str = OP;

    fn shape(&self, [x, y, theta, _]: [&Shape; 4]) -> CandleResult<Shape> {
        Ok(Shape::from(x.elem_count() + theta.elem_count() + y.elem_count()))
    }

    fn cpu(&self, arguments: [Argument<'_>; 4]) -> CandleResult<CpuStorage> {
        by_type!(OP, arguments, |all| self.made(all))
    }
}

struct Pass<'a, T> {
    sizes: Sizes,
    x: &'a [T],
    y: &'a [T],
    theta: &'a [T],
    g: Option<&'a [T]>,
    to: &'a mut [T],
}

/// A number for each of some candidates.
type Numbers<T> = [T; BLOCK];

/// Number K of widths.
const K: usize = WIDTHS.len();

/// Candidates of an input that pass at once.
struct Block<T> {
    /// Number of candidates, with zeros behind the last up to a multiple of [`LANES`].
    count: usize,
    /// u of each coordinate.
    u: [Numbers<T>; 3],
    /// g(u) of each coordinate.
    g: [[Numbers<T>; K]; 3],
}

/// Parameters of the head and of an input.
struct Input<'a, T> {
    /// W, K · D columns for each unit.
    join: &'a [T],
    out: &'a [T],
    bias: T,
    nu: T,
    location: &'a [T],
    inverse_scale: [T; 3],
    a: &'a [T],
}

impl<T: Elementary> Input<'_, T> {
    /// Returns the columns of W of the coordinate d, in the row of unit j.
    #[inline(always)]
    fn weights(&self, j: usize, d: usize) -> [T; K] {
        let dim = self.location.len();
        std::array::from_fn(|k| self.join[(j * K + k) * dim + d])
    }
}

impl<T: Elementary> Vectorized for Pass<'_, T> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { sizes: Sizes { dim, hidden }, x, y, theta, g, to } = self;
        let width = 2 * dim + hidden;
        let count = y.len() / dim / (x.len() / width).max(1);
        if count == 0 {
            return;
        }
        let (join, rest) = theta.split_at(K * dim * hidden);
        let (out, last) = rest.split_at(hidden);
        let (bias, nu) = (last[0], T::one() + last[1].exp());
        let mut block = Block::<T>::new();
        let (dx, rest) = to.split_at_mut(if g.is_some() { x.len() } else { 0 });
        let (dtheta, results) = rest.split_at_mut(if g.is_some() { theta.len() } else { 0 });
        let per_result = if g.is_some() { dim } else { 1 };
        for (row, (x, y)) in x.chunks_exact(width).zip(y.chunks_exact(count * dim)).enumerate() {
            let (location, rest) = x.split_at(dim);
            let (log_scale, a) = rest.split_at(dim);
            let mut inverse_scale = [T::zero(); 3];
            inverse_scale.iter_mut().zip(log_scale).for_each(|(to, log)| *to = (T::zero() - *log).exp());
            let input = Input { join, out, bias, nu, location, inverse_scale, a };
            let results = &mut results[row * count * per_result..][..count * per_result];
            for (part, y) in y.chunks(BLOCK * dim).enumerate() {
                let first = part * BLOCK;
                block.fill::<FMA>(&input, y);
                let results = &mut results[first * per_result..][..y.len() / dim * per_result];
                match g {
                    None => block.score::<FMA>(&input, results),
                    Some(g) => {
                        let g = &g[row * count + first..][..y.len() / dim];
                        block.back::<FMA>(&input, g, [&mut dx[row * width..][..width], dtheta, results]);
                    }
                }
            }
        }
    }
}

impl<T: Elementary> Block<T> {
    fn new() -> Self {
        Self { count: 0, u: [[T::zero(); BLOCK]; 3], g: [[[T::zero(); BLOCK]; K]; 3] }
    }

    /// Computes u and g(u) of the candidates `y`.
    #[inline(always)]
    fn fill<const FMA: bool>(&mut self, input: &Input<'_, T>, y: &[T]) {
        let dim = input.location.len();
        self.count = (y.len() / dim).next_multiple_of(LANES).min(BLOCK);
        for (d, u) in self.u.iter_mut().enumerate().take(dim) {
            let u = &mut u[..self.count];
            u.fill(T::zero());
            for (u, y) in u.iter_mut().zip(y.chunks_exact(dim)) {
                *u = (y[d] - input.location[d]) * input.inverse_scale[d];
            }
            for (g, width) in self.g[d].iter_mut().zip(WIDTHS) {
                let inverse = T::from_f64(1.0 / width);
                for (g, u) in g.iter_mut().zip(u.iter()) {
                    *g = (*u * inverse).tanh::<FMA>();
                }
            }
        }
    }

    /// Computes `a + W g(u)` of the hidden unit j.
    #[inline(always)]
    fn unit<const FMA: bool>(&self, input: &Input<'_, T>, j: usize, z: &mut [T]) {
        z.fill(input.a[j]);
        for (d, g) in self.g.iter().enumerate().take(input.location.len()) {
            let (weights, g) = (input.weights(j, d), g.each_ref().map(|g| &g[..z.len()]));
            for (m, z) in z.iter_mut().enumerate() {
                for k in 0..K {
                    *z = z.add_product::<FMA>(weights[k], g[k][m]);
                }
            }
        }
    }

    #[inline(always)]
    fn score<const FMA: bool>(&self, input: &Input<'_, T>, to: &mut [T]) {
        let (inverse_nu, factor) = (T::one() / input.nu, (input.nu + T::one()) * T::from_f64(-0.5));
        let mut f = [input.bias; BLOCK];
        let f = &mut f[..self.count];
        for u in &self.u[..input.location.len()] {
            for (f, u) in f.iter_mut().zip(u) {
                *f = f.add_product::<FMA>(factor, (*u * *u * inverse_nu).ln_one_plus::<FMA>());
            }
        }
        let mut z = [T::zero(); BLOCK];
        let z = &mut z[..self.count];
        for (j, out) in input.out.iter().enumerate() {
            self.unit::<FMA>(input, j, z);
            for (f, z) in f.iter_mut().zip(&*z) {
                // NaN stays NaN.
                *f = f.add_product::<FMA>(*out, if *z <= T::zero() { T::zero() } else { *z });
            }
        }
        to.copy_from_slice(&f[..to.len()]);
    }

    /// Adds to the gradients of x and θ, and sets those of y, from the gradients `df` of f.
    #[inline(always)]
    fn back<const FMA: bool>(&self, input: &Input<'_, T>, df: &[T], [dx, dtheta, dy]: [&mut [T]; 3]) {
        let (dim, hidden, count) = (input.location.len(), input.a.len(), self.count);
        let mut gradient = [T::zero(); BLOCK];
        gradient[..df.len()].copy_from_slice(df);
        let df = &gradient[..count];
        let mut dg = [[[T::zero(); BLOCK]; K]; 3];
        let (mut open, mut value) = ([T::zero(); BLOCK], [T::zero(); BLOCK]);
        let (open, value) = (&mut open[..count], &mut value[..count]);
        let (djoin, rest) = dtheta.split_at_mut(K * dim * hidden);
        let (dout, dlast) = rest.split_at_mut(hidden);
        let (dscale, da) = dx.split_at_mut(2 * dim);
        for j in 0..hidden {
            let out = input.out[j];
            self.unit::<FMA>(input, j, value);
            for ((open, z), df) in open.iter_mut().zip(&*value).zip(df) {
                *open = if *z <= T::zero() { T::zero() } else { *df };
            }
            for d in 0..dim {
                let weights = input.weights(j, d);
                for k in 0..K {
                    let weight = weights[k] * out;
                    for (to, open) in dg[d][k].iter_mut().zip(&*open) {
                        *to = to.add_product::<FMA>(*open, weight);
                    }
                    djoin[(j * K + k) * dim + d] += out * dot::<T, FMA>(open, &self.g[d][k]);
                }
            }
            dout[j] += dot::<T, FMA>(open, value);
            da[j] += out * total(open);
        }
        let (one, nu) = (T::one(), input.nu);
        let (inverse_nu, half) = (one / nu, T::from_f64(0.5));
        for d in 0..dim {
            let u = &self.u[d][..count];
            // `open` and `value` become the gradients of u, and of ν without its factor.
            for (((du, dnu), u), df) in open.iter_mut().zip(&mut *value).zip(u).zip(df) {
                let square = *u * *u;
                let fall = (nu + one) / (nu + square);
                *du = T::zero() - *df * *u * fall;
                *dnu = *df * (fall * square * inverse_nu - (square * inverse_nu).ln_one_plus::<FMA>());
            }
            for ((dg, g), width) in dg[d].iter().zip(&self.g[d]).zip(WIDTHS) {
                let inverse = T::from_f64(1.0 / width);
                for ((du, dg), g) in open.iter_mut().zip(dg).zip(g) {
                    *du += *dg * inverse * (one - *g * *g);
                }
            }
            dlast[1] += total(value) * half * (nu - one);
            dscale[d] -= total(open) * input.inverse_scale[d];
            dscale[dim + d] -= dot::<T, FMA>(open, u);
            dy.chunks_exact_mut(dim).zip(&*open).for_each(|(dy, du)| dy[d] = *du * input.inverse_scale[d]);
        }
        dlast[0] += total(df);
    }
}

/// Returns `Σ a b` of a multiple of [`LANES`] numbers.
#[inline(always)]
fn dot<T: Elementary, const FMA: bool>(a: &[T], b: &[T]) -> T {
    let mut sums = [T::zero(); LANES];
    for (a, b) in a.as_chunks::<LANES>().0.iter().zip(b.as_chunks::<LANES>().0) {
        for i in 0..LANES {
            sums[i] = sums[i].add_product::<FMA>(a[i], b[i]);
        }
    }
    sums.into_iter().fold(T::zero(), |sum, value| sum + value)
}

/// Returns the sum of a multiple of [`LANES`] numbers.
#[inline(always)]
fn total<T: Elementary>(a: &[T]) -> T {
    let mut sums = [T::zero(); LANES];
    for a in a.as_chunks::<LANES>().0 {
        for i in 0..LANES {
            sums[i] += a[i];
        }
    }
    sums.into_iter().fold(T::zero(), |sum, value| sum + value)
}
