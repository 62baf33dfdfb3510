//! SiLU (Elfwing et al., 2018), x times its sigmoid. candle's takes an exponential after the other, and six passes for the
//! gradient.

use candle_core::{CpuStorage, Result as CandleResult, Tensor};

use super::elementary::Elementary;
use super::kernel::{Apply, Argument, Gradients, Kernel, by_type};
use super::simd::Vectorized;
use super::storage::unwritten;
use crate::Result;

/// Name in errors.
const OP: &str = "silu";

/// Returns `x / (1 + exp(−x))` of f32 or f64, of any shape. Differentiable.
///
/// # Errors
/// Returns an error for another type.
pub fn silu(x: &Tensor) -> Result<Tensor> {
    if x.device().is_cpu() { Ok(Silu.apply([x])?) } else { Ok(x.silu()?) }
}

/// Kernels (x) -> y and (x, g) -> dx.
struct Silu;

impl Silu {
    fn made<T: Elementary, const N: usize>(all: [&[T]; N]) -> Vec<T> {
        let (x, mut to) = (all[0], unwritten(all[0].len()));
        T::run(Loop { x, g: all.get(1).copied(), to: &mut to });
        to
    }
}

impl<const N: usize> Kernel<N> for Silu {
    const NAME: &'static str = OP;

    fn cpu(&self, arguments: [Argument<'_>; N]) -> CandleResult<CpuStorage> {
        by_type!(OP, arguments, |all| Self::made(all))
    }

    fn gradients(&self, arguments: [&Tensor; N], _: &Tensor, g: &Tensor) -> Gradients<N> {
        let mut gradients = [const { None }; N];
        gradients[0] = Some(Self.run([arguments[0], g])?);
        Ok(gradients)
    }
}

struct Loop<'a, T> {
    x: &'a [T],
    g: Option<&'a [T]>,
    to: &'a mut [T],
}

impl<T: Elementary> Vectorized for Loop<'_, T> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Some(g) = self.g else {
            return self.to.iter_mut().zip(self.x).for_each(|(to, &x)| *to = x * x.sigmoid::<FMA>());
        };
        for ((to, &x), &g) in self.to.iter_mut().zip(self.x).zip(g) {
            let part = x.sigmoid::<FMA>();
            *to = g * part.add_product::<FMA>(x * part, T::one() - part);
        }
    }
}
