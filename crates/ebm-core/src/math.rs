//! Stable sums of exponentials.

use candle_core::{D, Device, Tensor};

use crate::Result;

/// `log Σ exp x` over dimension `dim`, which is removed; its gradient is the softmax.
///
/// Finite wherever the result is; −∞ entries count as zero, and a NaN yields a NaN.
///
/// # Errors
/// When `dim` does not exist or is empty.
pub fn log_sum_exp(x: &Tensor, dim: usize) -> Result<Tensor> {
    let max = x.detach().max_keepdim(dim)?;
    // An infinite maximum would turn x - max into NaN where the result is ±∞.
    let shift = max.abs()?.lt(f64::INFINITY)?.where_cond(&max, &max.zeros_like()?)?;
    let sum = x.broadcast_sub(&shift)?.exp()?.sum_keepdim(dim)?;
    Ok((sum.log()? + shift)?.squeeze(dim)?)
}

/// `log (1/M) Σ exp x` over dimension `dim` of size M, which is removed.
///
/// # Errors
/// When `dim` does not exist or is empty.
pub fn log_mean_exp(x: &Tensor, dim: usize) -> Result<Tensor> {
    let count = x.dim(dim)? as f64;
    Ok((log_sum_exp(x, dim)? - count.ln())?)
}

/// `log Σ exp x` over plain numbers.
pub(crate) fn log_sum_exp_of(x: &[f64]) -> Result<f64> {
    Ok(log_sum_exp(&Tensor::new(x, &Device::Cpu)?, 0)?.to_scalar()?)
}

/// `log N(x; 0, I)` of a tensor whose last dimension, which is removed, holds D independent coordinates.
pub(crate) fn log_standard_normal(x: &Tensor) -> Result<Tensor> {
    let dim = x.dim(D::Minus1)? as f64;
    let half_log_two_pi = 0.5 * std::f64::consts::TAU.ln();
    Ok(x.sqr()?.sum(D::Minus1)?.affine(-0.5, -dim * half_log_two_pi)?)
}

#[cfg(test)]
mod tests {
    use candle_core::Var;

    use super::*;

    fn lse(values: &[f64]) -> f64 {
        let x = Tensor::new(values, &Device::Cpu).unwrap();
        log_sum_exp(&x, 0).unwrap().to_scalar().unwrap()
    }

    #[test]
    fn log_sum_exp_is_exact_at_extremes() {
        assert!((lse(&[0.0, 3f64.ln()]) - 4f64.ln()).abs() < 1e-15);
        assert_eq!(lse(&[1e4, f64::NEG_INFINITY]), 1e4);
        assert_eq!(lse(&[-1e4]), -1e4);
        assert_eq!(lse(&[f64::NEG_INFINITY; 2]), f64::NEG_INFINITY);
        assert_eq!(lse(&[f64::INFINITY, 0.0]), f64::INFINITY);
        assert!(lse(&[f64::NAN, 0.0]).is_nan());
        assert!(lse(&[0.0, f64::NAN]).is_nan());
    }

    #[test]
    fn log_mean_exp_of_equal_values_is_that_value() {
        let x = Tensor::new(&[[-700.0, -700.0, -700.0], [2.0, 2.0, 2.0]], &Device::Cpu).unwrap();
        let mean: Vec<f64> = log_mean_exp(&x, 1).unwrap().to_vec1().unwrap();
        assert!((mean[0] + 700.0).abs() < 1e-12 && (mean[1] - 2.0).abs() < 1e-14);
    }

    #[test]
    fn gradient_of_log_sum_exp_is_the_softmax_even_at_ties() {
        let x = Var::new(&[1.0, 1.0, 1.0 + 2f64.ln(), f64::NEG_INFINITY], &Device::Cpu).unwrap();
        let gradients = log_sum_exp(x.as_tensor(), 0).unwrap().backward().unwrap();
        let gradient: Vec<f64> = gradients.get(&x).unwrap().to_vec1().unwrap();
        for (got, want) in gradient.iter().zip([0.25, 0.25, 0.5, 0.0]) {
            assert!((got - want).abs() < 1e-15, "{gradient:?}");
        }
    }
}
