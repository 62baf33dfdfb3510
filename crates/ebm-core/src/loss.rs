//! Losses of the networks that the method is compared with and refines.

use candle_core::Tensor;

use crate::Result;

/// Returns the smooth-L1 loss of each element d of `difference`: `d²/(2β)` where `|d| < β`, `|d| − β/2` elsewhere
/// (Huber's loss divided by β).
///
/// # Errors
/// When the tensor operations fail.
pub fn smooth_l1(difference: &Tensor, beta: f64) -> Result<Tensor> {
    // With c = min(|d|, β) held constant, c (|d| - c/2) / β has the right value and the right derivative
    // c sign(d) / β everywhere, the kinks of |d| and of the minimum included.
    let magnitude = difference.abs()?;
    let c = magnitude.detach().minimum(beta)?;
    Ok(((&c * (&magnitude - (&c * 0.5)?)?)? / beta)?)
}

/// Returns `|d|` of each element d of `difference`, with the derivative 0 at 0.
///
/// # Errors
/// When the tensor operations fail.
pub fn absolute(difference: &Tensor) -> Result<Tensor> {
    Ok((difference * difference.detach().sign()?)?)
}

/// Returns the mean of `−t log s(x) − (1 − t) log(1 − s(x))` with the logistic function s, for the `logits` x and
/// the `labels` t in [0, 1], which have the same shape. It is finite for every finite logit.
///
/// # Errors
/// When the shapes differ.
pub fn binary_cross_entropy_with_logits(logits: &Tensor, labels: &Tensor) -> Result<Tensor> {
    // max(x, 0) − x t + log(1 + exp(−|x|))
    let tail = (logits.abs()?.neg()?.exp()? + 1.0)?.log()?;
    Ok(((logits.relu()? - (logits * labels)?)? + tail)?.mean_all()?)
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};

    use super::*;

    fn gradient(loss: &Tensor, of: &Var) -> Vec<f64> {
        loss.sum_all().unwrap().backward().unwrap().get(of).unwrap().to_vec1().unwrap()
    }

    #[test]
    fn smooth_l1_has_the_values_and_slopes_of_its_definition() {
        let d = Var::new(&[-3.0, -1.0, -0.5, 0.0, 0.25, 1.0, 2.0], &Device::Cpu).unwrap();
        let loss = smooth_l1(d.as_tensor(), 1.0).unwrap();
        assert_eq!(loss.to_vec1::<f64>().unwrap(), [2.5, 0.5, 0.125, 0.0, 0.03125, 0.5, 1.5]);
        assert_eq!(gradient(&loss, &d), [-1.0, -1.0, -0.5, 0.0, 0.25, 1.0, 1.0]);
        let loss = smooth_l1(d.as_tensor(), 0.5).unwrap();
        assert_eq!(loss.to_vec1::<f64>().unwrap(), [2.75, 0.75, 0.25, 0.0, 0.0625, 0.75, 1.75]);
        assert_eq!(gradient(&loss, &d), [-1.0, -1.0, -1.0, 0.0, 0.5, 1.0, 1.0]);
    }

    #[test]
    fn absolute_has_a_slope_of_zero_at_its_kink() {
        let d = Var::new(&[-3.0, 0.0, 2.0], &Device::Cpu).unwrap();
        let loss = absolute(d.as_tensor()).unwrap();
        assert_eq!(loss.to_vec1::<f64>().unwrap(), [3.0, 0.0, 2.0]);
        assert_eq!(gradient(&loss, &d), [-1.0, 0.0, 1.0]);
    }

    #[test]
    fn binary_cross_entropy_is_the_logarithm_of_a_probability() {
        let x = Var::new(&[0.0, 3f64.ln(), -1e3, 1e3], &Device::Cpu).unwrap();
        let labels = Tensor::new(&[1.0, 0.0, 0.0, 0.0], &Device::Cpu).unwrap();
        let loss = binary_cross_entropy_with_logits(x.as_tensor(), &labels).unwrap();
        let expected = (2f64.ln() + 4f64.ln() + 0.0 + 1e3) / 4.0;
        assert!((loss.to_scalar::<f64>().unwrap() - expected).abs() < 1e-12);
        // d/dx = (s(x) − t) / 4, also at the kink of |x|.
        for (got, want) in gradient(&loss, &x).iter().zip([-0.125, 0.1875, 0.0, 0.25]) {
            assert!((got - want).abs() < 1e-12);
        }
    }
}
