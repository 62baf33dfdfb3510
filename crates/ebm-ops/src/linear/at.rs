//! A linear layer that computes one output in each row, for prediction.

use candle_core::{CpuStorage, Result as CandleResult, Shape, Tensor};

#[cfg(feature = "cuda")]
use crate::cuda;
use crate::float::Float;
use crate::kernel::{Argument, Kernel, by_type};
use crate::storage::elements;
use crate::{Error, Result};

const OP: &str = "linear_at";

/// Returns `y[r] = x[r] · w[columns[r]] + bias[columns[r]]`, `(R)`, outside any graph. x `(R, I)`, w `(O, I)` and bias `(O)`
/// are all f32 or all f64. columns `(R)` is u32, each below O.
///
/// # Errors
/// [`Error::Argument`] if a shape does not fit. A column out of range is an error on the CPU, and gives NaN on a GPU.
pub fn linear_at(x: &Tensor, w: &Tensor, bias: &Tensor, columns: &Tensor) -> Result<Tensor> {
    check(x, w, columns)?;
    if bias.dims() != [w.dim(0)?] {
        return refuse(format!("expected a bias ({}), got {:?}", w.dim(0)?, bias.dims()));
    }
    Ok(At.run([x, w, bias, columns])?)
}

/// Returns the gradient of [`linear_at`] in the argument of the ReLU that gave x, `(R, I)`: w\[columns\[r\]\] where x is
/// positive, else 0. On a GPU a column out of range gives 0.
///
/// # Errors
/// The errors of [`linear_at`].
pub fn linear_at_gradient(x: &Tensor, w: &Tensor, columns: &Tensor) -> Result<Tensor> {
    check(x, w, columns)?;
    Ok(Gradient.run([x, w, columns])?)
}

fn check(x: &Tensor, w: &Tensor, columns: &Tensor) -> Result<()> {
    match (x.dims(), w.dims(), columns.dims()) {
        (&[rows, inputs], &[outputs, w_inputs], &[asked])
            if rows == asked && inputs == w_inputs && outputs > 0 =>
        {
            Ok(())
        }
        (x, w, columns) => refuse(format!("x {x:?}, w {w:?} and columns {columns:?} do not fit together")),
    }
}

fn refuse<T>(reason: String) -> Result<T> {
    Err(Error::Argument { op: OP, reason })
}

/// A row of x and the row of w that it is multiplied with.
struct Pair<'a, T> {
    x: &'a [T],
    w: &'a [T],
    column: usize,
}

impl<'a, T: Float> Pair<'a, T> {
    fn all(x: &'a [T], w: &'a [T], columns: Argument<'_>) -> CandleResult<Vec<Self>> {
        let columns = elements::<u32>(columns.0, columns.1)?;
        let depth = x.len() / columns.len().max(1);
        let pair = |(row, &column): (usize, &u32)| match w.chunks_exact(depth.max(1)).nth(column as usize) {
            Some(w) => Ok(Self { x: &x[row * depth..(row + 1) * depth], w, column: column as usize }),
            None => candle_core::bail!("{OP}: the layer has no output {column}"),
        };
        columns.iter().enumerate().map(pair).collect()
    }

    /// Returns x · w.
    fn product(&self) -> T {
        self.x.iter().zip(self.w).fold(T::zero(), |sum, (x, w)| sum + *x * *w)
    }

    /// Returns w where x is positive, else 0.
    fn open(&self) -> impl Iterator<Item = T> {
        self.x.iter().zip(self.w).map(|(x, w)| if *x > T::zero() { *w } else { T::zero() })
    }
}

/// Kernel `(x, w, bias, columns) -> y`.
struct At;

impl Kernel<4> for At {
    const NAME: &'static str = OP;

    fn shape(&self, [.., columns]: [&Shape; 4]) -> CandleResult<Shape> {
        Ok(columns.clone())
    }

    fn cpu(&self, [x, w, bias, columns]: [Argument<'_>; 4]) -> CandleResult<CpuStorage> {
        by_type!(OP, [x, w, bias], |[x, w, bias]| {
            let pairs = Pair::all(x, w, columns)?;
            pairs.iter().map(|pair| pair.product() + bias[pair.column]).collect::<Vec<_>>()
        })
    }

    #[cfg(feature = "cuda")]
    fn cuda(&self, [x, w, bias, columns]: [cuda::Argument<'_>; 4]) -> cuda::Made {
        /// Threads of a block, as in `at.cu`.
        const THREADS: usize = 256;
        let (device, (rows, depth)) = (cuda::device(x), x.1.shape().dims2()?);
        let [depth, outputs] = cuda::sizes([depth, w.1.dims()[0]])?;
        let columns = cuda::elements::<u32>(columns)?;
        cuda::by_type!(x, OP, T => {
            let [x, w, bias] = [cuda::elements::<T>(x)?, cuda::elements::<T>(w)?, cuda::elements::<T>(bias)?];
            cuda::made!(device, AT::"at", T, rows * THREADS => rows; &x, &w, &bias, &columns; &depth, &outputs)
        })
    }
}

/// Kernel `(x, w, columns) -> dx`.
struct Gradient;

impl Kernel<3> for Gradient {
    const NAME: &'static str = OP;

    fn cpu(&self, [x, w, columns]: [Argument<'_>; 3]) -> CandleResult<CpuStorage> {
        by_type!(OP, [x, w], |[x, w]| Pair::all(x, w, columns)?
            .iter()
            .flat_map(Pair::open)
            .collect::<Vec<_>>())
    }

    #[cfg(feature = "cuda")]
    fn cuda(&self, [x, w, columns]: [cuda::Argument<'_>; 3]) -> cuda::Made {
        let (device, (rows, depth)) = (cuda::device(x), x.1.shape().dims2()?);
        let (len, [depth, outputs]) = (rows * depth, cuda::sizes([depth, w.1.dims()[0]])?);
        let columns = cuda::elements::<u32>(columns)?;
        cuda::by_type!(x, OP, T => {
            let (x, w) = (cuda::elements::<T>(x)?, cuda::elements::<T>(w)?);
            cuda::made!(device, AT::"at_gradient", T, len => len; &x, &w, &columns; &depth, &outputs)
        })
    }
}
