//! A hidden layer and one number behind it, for few rows: what takes time is reading the weights, so f and its
//! gradient share one pass.

use std::ops::Range;

use candle_core::Tensor;
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::packed::numbers;
use crate::{Error, Result};

/// `f(x) = vᵀ max(W x + b, 0)` for rows x, f32, on the CPU, with its gradient in x.
///
/// The gradient of a hidden unit is known as soon as the unit is: v where it is open, else 0. So each row of W serves
/// both ways while it is in the cache. Results have the same bits for every number of threads.
#[derive(Clone, Debug)]
pub struct ScalarHead {
    /// (O, I), the rows filled up with zeros to whole vectors.
    weight: Vec<f32>,
    bias: Vec<f32>,
    out: Vec<f32>,
    inputs: usize,
    stride: usize,
}

/// Most rows that are evaluated together.
const ROWS: usize = 10;
/// Units whose weights stay in the cache from the way there to the way back.
const UNITS: usize = 8;
/// Units of a task.
const TASK: usize = 64;
/// A row of W is a multiple of this long: the widest vector.
const VECTOR: usize = 16;

/// What some units add.
struct Part {
    f: Vec<f32>,
    gradient: Vec<f32>,
}

impl ScalarHead {
    /// `weight` (O, I), `bias` (O) and `out` (O). Input i meets column `column(i)` of `weight`.
    ///
    /// # Errors
    /// [`Error::Argument`] where a shape does not fit, an extent is zero, or a column is not one of `0..I`.
    pub fn new(weight: &Tensor, bias: &Tensor, out: &[f32], column: impl Fn(usize) -> usize) -> Result<Self> {
        let &[outputs, inputs] = weight.dims() else {
            return refuse(format!("expected a weight (O, I), got {:?}", weight.dims()));
        };
        if weight.elem_count() == 0 || bias.dims() != [outputs] || out.len() != outputs {
            let (weight, bias, out) = (weight.dims(), bias.dims(), out.len());
            return refuse(format!("weight {weight:?}, bias {bias:?} and {out} outputs do not fit together"));
        }
        let columns: Vec<usize> = (0..inputs).map(column).collect();
        if let Some(bad) = columns.iter().find(|&&column| column >= inputs) {
            return refuse(format!("the weight {:?} has no column {bad}", weight.dims()));
        }
        let stride = inputs.next_multiple_of(VECTOR);
        let mut rows = vec![0.0; outputs * stride];
        for (to, from) in rows.chunks_exact_mut(stride).zip(numbers(weight)?.chunks_exact(inputs)) {
            to.iter_mut().zip(&columns).for_each(|(to, &column)| *to = from[column]);
        }
        Ok(Self { weight: rows, bias: numbers(bias)?, out: out.to_vec(), inputs, stride })
    }

    /// f of the rows of `x` (N, I), added to `f` (N), and its gradient (N, I), which is empty without `with_gradient`.
    ///
    /// # Errors
    /// [`Error::Argument`] where a length does not fit.
    pub fn add(&self, x: &[f32], f: &mut [f32], with_gradient: bool) -> Result<Vec<f32>> {
        let (inputs, stride) = (self.inputs, self.stride);
        if x.len() != f.len() * inputs {
            return refuse(format!("{} numbers are not {} rows of {inputs}", x.len(), f.len()));
        }
        let mut gradient = vec![0.0; if with_gradient { x.len() } else { 0 }];
        for (i, (x, f)) in x.chunks(ROWS * inputs).zip(f.chunks_mut(ROWS)).enumerate() {
            let mut padded = vec![0.0; f.len() * stride];
            for (to, from) in padded.chunks_exact_mut(stride).zip(x.chunks_exact(inputs)) {
                to[..inputs].copy_from_slice(from);
            }
            let tasks = (0..self.out.len().div_ceil(TASK)).into_par_iter();
            let units = |task: usize| task * TASK..self.out.len().min((task + 1) * TASK);
            let parts: Vec<Part> =
                tasks.map(|task| self.part(&padded, f.len(), units(task), with_gradient)).collect();
            for part in &parts {
                f.iter_mut().zip(&part.f).for_each(|(to, from)| *to += from);
            }
            if with_gradient {
                let rows = gradient[i * ROWS * inputs..].chunks_exact_mut(inputs).take(f.len());
                for (row, to) in rows.enumerate() {
                    for part in &parts {
                        let from = &part.gradient[row * stride..];
                        to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
                    }
                }
            }
        }
        Ok(gradient)
    }

    fn part(&self, x: &[f32], rows: usize, units: Range<usize>, with_gradient: bool) -> Part {
        let gradient = vec![0.0; if with_gradient { x.len() } else { 0 }];
        let mut part = Part { f: vec![0.0; rows], gradient };
        /// One copy of the loops for each number of rows, which has to be known for the sums to stay in registers.
        macro_rules! by_count {
            ($($rows:literal)*) => {
                match rows {
                    $($rows => Arch::new().dispatch(Pass::<$rows> { head: self, x, units, part: &mut part }),)*
                    _ => {}
                }
            };
        }
        by_count!(1 2 3 4 5 6 7 8 9 10);
        part
    }
}

struct Pass<'a, const N: usize> {
    head: &'a ScalarHead,
    x: &'a [f32],
    units: Range<usize>,
    part: &'a mut Part,
}

impl<const N: usize> WithSimd for Pass<'_, N> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { head, x, units, part } = self;
        let stride = head.stride;
        let row_of = |i: usize| S::as_simd_f32s(&x[i * stride..(i + 1) * stride]).0;
        let x: [&[S::f32s]; N] = std::array::from_fn(row_of);
        for first in units.clone().step_by(UNITS) {
            let block = first..units.end.min(first + UNITS);
            let mut slopes = [[0.0f32; N]; UNITS];
            let weights = |unit: usize| S::as_simd_f32s(&head.weight[unit * stride..(unit + 1) * stride]).0;
            let mut open = false;
            for unit in block.clone() {
                let weight = weights(unit);
                let mut sums = [simd.splat_f32s(0.0); N];
                for (i, &weight) in weight.iter().enumerate() {
                    for n in 0..N {
                        sums[n] = simd.mul_add_e_f32s(weight, x[n][i], sums[n]);
                    }
                }
                for n in 0..N {
                    let hidden = simd.reduce_sum_f32s(sums[n]) + head.bias[unit];
                    if hidden > 0.0 {
                        part.f[n] += head.out[unit] * hidden;
                        slopes[unit - first][n] = head.out[unit];
                        open = true;
                    }
                }
            }
            if part.gradient.is_empty() || !open {
                continue;
            }
            // Beyond the last unit the slopes are zero, and any row of W will do.
            let rows: [&[S::f32s]; UNITS] = std::array::from_fn(|u| weights((first + u).min(block.end - 1)));
            for n in 0..N {
                let to = S::as_mut_simd_f32s(&mut part.gradient[n * stride..(n + 1) * stride]).0;
                let slopes: [S::f32s; UNITS] = std::array::from_fn(|u| simd.splat_f32s(slopes[u][n]));
                for (i, to) in to.iter_mut().enumerate() {
                    let mut sum = *to;
                    for u in 0..UNITS {
                        sum = simd.mul_add_e_f32s(slopes[u], rows[u][i], sum);
                    }
                    *to = sum;
                }
            }
        }
    }
}

fn refuse<T>(reason: String) -> Result<T> {
    Err(Error::Argument { op: "ScalarHead", reason })
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device, Var};

    use super::*;
    use crate::ops::linear;
    use crate::ops::testing::noise_tensor;

    fn noise(shape: &[usize], salt: u64) -> Tensor {
        noise_tensor(shape, salt).unwrap().to_dtype(DType::F32).unwrap()
    }

    #[test]
    fn it_is_the_two_layers_and_their_gradient() {
        for (rows, inputs, outputs) in [(1, 1, 1), (3, 33, 5), (10, 150, 64), (23, 40, 131)] {
            let (x, w, b) = (noise(&[rows, inputs], 1), noise(&[outputs, inputs], 2), noise(&[outputs], 3));
            let out = noise(&[1, outputs], 4);
            let variable = Var::from_tensor(&x).unwrap();
            let hidden = linear(variable.as_tensor(), &w, Some(&b)).unwrap().relu().unwrap();
            let expected = linear(&hidden, &out, None).unwrap();
            let slope = expected.sum_all().unwrap().backward().unwrap().get(&variable).unwrap().clone();

            let head = ScalarHead::new(&w, &b, &numbers(&out).unwrap(), |i| i).unwrap();
            let mut f = vec![0.5; rows];
            let gradient = head.add(&numbers(&x).unwrap(), &mut f, true).unwrap();
            let close = |found: &[f32], expected: &Tensor, offset: f32| {
                let expected = numbers(expected).unwrap();
                assert_eq!(found.len(), expected.len());
                for (found, expected) in found.iter().zip(expected) {
                    assert!((found - offset - expected).abs() < 1e-4, "{rows}: {found} {expected}");
                }
            };
            close(&f, &expected, 0.5);
            close(&gradient, &slope, 0.0);
            let mut again = vec![0.5; rows];
            assert!(head.add(&numbers(&x).unwrap(), &mut again, false).unwrap().is_empty());
            assert_eq!(again, f);
        }
    }

    #[test]
    fn inputs_in_another_order() {
        let (x, w, b) = (noise(&[2, 5], 1), noise(&[3, 5], 2), noise(&[3], 3));
        let out = [1.0, -2.0, 0.5];
        let straight = ScalarHead::new(&w, &b, &out, |i| i).unwrap();
        let turned = ScalarHead::new(&w, &b, &out, |i| 4 - i).unwrap();
        let mut backwards = numbers(&x).unwrap();
        backwards.chunks_exact_mut(5).for_each(<[f32]>::reverse);
        let (mut f, mut g) = (vec![0.0; 2], vec![0.0; 2]);
        straight.add(&numbers(&x).unwrap(), &mut f, false).unwrap();
        turned.add(&backwards, &mut g, false).unwrap();
        f.iter().zip(&g).for_each(|(f, g)| assert!((f - g).abs() < 1e-5));
    }

    #[test]
    fn bad_arguments_are_errors() {
        let (w, b) = (noise(&[3, 5], 2), noise(&[3], 3));
        assert!(ScalarHead::new(&w, &noise(&[4], 3), &[0.0; 3], |i| i).is_err());
        assert!(ScalarHead::new(&w, &b, &[0.0; 2], |i| i).is_err());
        assert!(ScalarHead::new(&w, &b, &[0.0; 3], |i| i + 1).is_err());
        assert!(
            ScalarHead::new(&Tensor::zeros((0, 5), DType::F32, &Device::Cpu).unwrap(), &b, &[], |i| i)
                .is_err()
        );
        let head = ScalarHead::new(&w, &b, &[0.0; 3], |i| i).unwrap();
        assert!(head.add(&[0.0; 9], &mut [0.0; 2], true).is_err());
    }
}
