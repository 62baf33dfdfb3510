//! Numerically stable forms of the functions that densities are made of.

use candle_core::{D, Tensor};

use crate::Result;
use crate::fused::{self, LogSumExp};

/// Returns `log Σ exp x` over dimension `dim`, which is removed. Its gradient is the softmax.
///
/// The computation does not overflow where the exact result is finite. Entries of −∞ count as zero, and a NaN
/// yields a NaN.
///
/// # Errors
/// When `dim` does not exist or is empty.
pub fn log_sum_exp(x: &Tensor, dim: usize) -> Result<Tensor> {
    if x.dim(dim)? > 0 && fused::is_supported(x) {
        let last = x.rank() - 1;
        let x = if dim == last { x.clone() } else { x.transpose(dim, last)? };
        let sums = x.contiguous()?.apply_op1(LogSumExp)?;
        return Ok(if dim == last {
            sums
        } else {
            sums.unsqueeze(last)?.transpose(dim, last)?.squeeze(dim)?
        });
    }
    let shift = finite_max(x, dim)?;
    let sum = x.broadcast_sub(&shift)?.exp()?.sum_keepdim(dim)?;
    Ok((sum.log()? + shift)?.squeeze(dim)?)
}

/// Returns the maximum over dimension `dim`, which is kept, without its graph, and 0 where it is infinite.
fn finite_max(x: &Tensor, dim: usize) -> Result<Tensor> {
    let max = x.detach().max_keepdim(dim)?;
    // An infinite maximum would turn x - max into NaN where the result is ±∞.
    Ok(max.abs()?.lt(f64::INFINITY)?.where_cond(&max, &max.zeros_like()?)?)
}

/// Returns `log (1/M) Σ exp x` over dimension `dim` of size M, which is removed.
///
/// # Errors
/// When `dim` does not exist or is empty.
pub fn log_mean_exp(x: &Tensor, dim: usize) -> Result<Tensor> {
    let count = x.dim(dim)? as f64;
    Ok((log_sum_exp(x, dim)? - count.ln())?)
}

/// Returns `x − log Σ exp x` over dimension `dim`, the logarithms of the softmax, in the shape of `x`.
///
/// # Errors
/// When `dim` does not exist or is empty.
pub fn log_softmax(x: &Tensor, dim: usize) -> Result<Tensor> {
    // A constant offset cancels in the result; it is subtracted first, before it can cost digits.
    let x = x.broadcast_sub(&finite_max(x, dim)?)?;
    Ok(x.broadcast_sub(&log_sum_exp(&x, dim)?.unsqueeze(dim)?)?)
}

/// Returns `log s(x)` of each element, with the logistic function `s(x) = 1 / (1 + exp(−x))`. The result is
/// finite for every finite x.
///
/// # Errors
/// When the tensor operations fail.
pub fn log_sigmoid(x: &Tensor) -> Result<Tensor> {
    // min(x, 0) − log(1 + exp(−|x|)), with the minimum written so that the slopes at the kinks, which candle
    // takes to be 1 for both relu and abs, add up to s(−0) = 1/2.
    let tail = (x.abs()?.neg()?.exp()? + 1.0)?.log()?;
    Ok(((x - x.relu()?)? - tail)?)
}

/// Returns the Euclidean norm over the last dimension, which is removed. Its gradient at the origin is 0.
pub(crate) fn norm(x: &Tensor) -> Result<Tensor> {
    // With r = |x| held constant, (|x|²/r + r) / 2 has the right value and the right derivative. The bound
    // keeps the quotient from 0/0, and from a slope above 1 where the squares underflow in f32.
    let squared = x.sqr()?.sum(D::Minus1)?;
    let r = squared.detach().sqrt()?;
    Ok((((squared / r.maximum(1e-18)?)? + r)? * 0.5)?)
}

/// Returns `log N(x; mean, diag(exp(log_variance)))`. The tensors are broadcast against each other. Their last
/// dimension holds the D coordinates and is removed.
pub(crate) fn log_normal(x: &Tensor, mean: &Tensor, log_variance: &Tensor) -> Result<Tensor> {
    // The offset is scaled before it is squared: the variance alone may leave the range of f32.
    let z = x.broadcast_sub(mean)?.broadcast_mul(&(log_variance * -0.5)?.exp()?)?;
    let log_volume = (log_variance.sum(D::Minus1)? * 0.5)?;
    Ok(log_standard_normal(&z)?.broadcast_sub(&log_volume)?)
}

/// Returns `log N(x; 0, I)` of a tensor whose last dimension holds D independent coordinates and is removed.
pub(crate) fn log_standard_normal(x: &Tensor) -> Result<Tensor> {
    let dim = x.dim(D::Minus1)? as f64;
    let half_log_two_pi = 0.5 * std::f64::consts::TAU.ln();
    Ok(x.sqr()?.sum(D::Minus1)?.affine(-0.5, -dim * half_log_two_pi)?)
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};

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

    fn slopes(loss: &Tensor, of: &Var) -> Vec<f64> {
        loss.sum_all().unwrap().backward().unwrap().get(of).unwrap().to_vec1().unwrap()
    }

    #[test]
    fn log_softmax_is_finite_for_any_logit() {
        let x = Tensor::new(&[[1e3f32, -1e3, 1e3], [0.0, 0.0, 0.0]], &Device::Cpu).unwrap();
        let log_p: Vec<Vec<f32>> = log_softmax(&x, 1).unwrap().to_vec2().unwrap();
        let half = -(2f32.ln());
        assert!((log_p[0][0] - half).abs() < 1e-6 && (log_p[0][1] + 2e3).abs() < 1.0, "{log_p:?}");
        assert!((log_p[1][2] + 3f32.ln()).abs() < 1e-6, "{log_p:?}");
        let columns: Vec<Vec<f32>> = log_softmax(&x, 0).unwrap().to_vec2().unwrap();
        assert_eq!(columns[0][0], 0.0);
    }

    #[test]
    fn log_sigmoid_has_the_values_and_slopes_of_its_definition() {
        let x = Var::new(&[0.0, 3f64.ln(), -(3f64.ln()), 1e3, -1e3], &Device::Cpu).unwrap();
        let y = log_sigmoid(x.as_tensor()).unwrap();
        for (got, want) in
            y.to_vec1::<f64>().unwrap().iter().zip([0.5f64.ln(), 0.75f64.ln(), 0.25f64.ln(), 0.0, -1e3])
        {
            assert!((got - want).abs() < 1e-15, "{got}, expected {want}");
        }
        for (got, want) in slopes(&y, &x).iter().zip([0.5, 0.25, 0.75, 0.0, 1.0]) {
            assert!((got - want).abs() < 1e-15, "{got}, expected {want}");
        }
    }

    #[test]
    fn norm_has_a_slope_of_zero_at_the_origin_and_at_most_one_beside_it() {
        let x = Var::new(&[[3.0f32, 4.0], [0.0, 0.0], [1e-25, 0.0], [1e-15, 0.0]], &Device::Cpu).unwrap();
        let r = norm(x.as_tensor()).unwrap();
        let values: Vec<f32> = r.to_vec1().unwrap();
        assert!((values[0] - 5.0).abs() < 1e-6 && values[1] == 0.0 && values[2] < 1e-24);
        assert!((values[3] / 1e-15 - 1.0).abs() < 1e-6);
        let slopes: Vec<Vec<f32>> =
            r.sum_all().unwrap().backward().unwrap().get(&x).unwrap().to_vec2().unwrap();
        assert!((slopes[0][0] - 0.6).abs() < 1e-6 && (slopes[0][1] - 0.8).abs() < 1e-6, "{slopes:?}");
        assert_eq!(slopes[1], [0.0, 0.0]);
        assert!(slopes[2][0].abs() <= 1.0 && (slopes[3][0] - 1.0).abs() < 1e-6, "{slopes:?}");
    }

    #[test]
    fn gradient_of_log_sum_exp_is_the_softmax_even_at_ties() {
        let x = Var::new(&[1.0, 1.0, 1.0 + 2f64.ln(), f64::NEG_INFINITY], &Device::Cpu).unwrap();
        let gradient = slopes(&log_sum_exp(x.as_tensor(), 0).unwrap(), &x);
        for (got, want) in gradient.iter().zip([0.25, 0.25, 0.5, 0.0]) {
            assert!((got - want).abs() < 1e-15, "{gradient:?}");
        }
    }
}
