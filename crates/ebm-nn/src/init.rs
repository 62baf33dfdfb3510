//! Initial values of parameters, drawn by an explicit generator.
//!
//! [`candle_nn::Init`] names the distributions, so that a layer states its own through
//! `VarBuilder::get_with_hints`. The numbers are drawn here, because candle's CPU generator cannot be seeded.
//! Draws are made in `f64` and rounded, so `f32` and `f64` networks have the same initial values.

use candle_core::{DType, Device, Shape, Tensor};
use candle_nn::init::{FanInOut, NonLinearity, NormalOrUniform};
use candle_nn::{Init, Linear, VarBuilder};
pub use ebm_ops::nn::{default_bias, default_weight, kaiming_uniform};
use rand::{Rng, RngCore};
use rand_distr::StandardNormal;

use crate::{Error, Result};

/// Returns the initialisation with `value` for every element.
pub fn constant(value: f64) -> Init {
    Init::Const(value)
}

/// Returns the initialisation N(0, `std`²).
pub fn normal(std: f64) -> Init {
    Init::Randn { mean: 0., stdev: std }
}

/// Returns the Kaiming normal initialisation over fan-out for ReLU, N(0, 2 / fan_out), of torchvision's ResNet
/// convolutions.
pub fn kaiming_normal_fan_out() -> Init {
    Init::Kaiming { dist: NormalOrUniform::Normal, fan: FanInOut::FanOut, non_linearity: NonLinearity::ReLU }
}

/// Returns the Kaiming normal initialisation over fan-in for ReLU, N(0, 2 / fan_in).
pub fn kaiming_normal_fan_in() -> Init {
    Init::Kaiming { dist: NormalOrUniform::Normal, fan: FanInOut::FanIn, non_linearity: NonLinearity::ReLU }
}

/// Creates a fully connected layer with torch's default initial values: weight `(output, input)` and bias
/// `(output)` under the names `weight` and `bias` of `vb`.
///
/// # Errors
/// If `vb` refuses a tensor, for example because a loaded one has another shape.
pub fn linear(input: usize, output: usize, vb: VarBuilder) -> Result<Linear> {
    let weight = vb.get_with_hints((output, input), "weight", default_weight())?;
    let bias = vb.get_with_hints(output, "bias", default_bias(input))?;
    Ok(Linear::new(weight, Some(bias)))
}

/// Draws a tensor of `shape` from `init` with `rng`, in row-major order, and uploads it to `device`.
///
/// # Errors
/// If a bound or a deviation is not finite, or `dtype` is not a floating-point type.
pub fn draw(
    init: &Init,
    shape: impl Into<Shape>,
    dtype: DType,
    device: &Device,
    rng: &mut dyn RngCore,
) -> Result<Tensor> {
    let shape = shape.into();
    // The mean and the deviation, or the bounds.
    let (is_normal, [a, b]) = match *init {
        Init::Const(value) => return Ok(Tensor::full(value, shape, device)?.to_dtype(dtype)?),
        Init::Randn { mean, stdev } => (true, [mean, stdev]),
        Init::Uniform { lo, up } => (false, [lo, up]),
        Init::Kaiming { dist, fan, non_linearity } => {
            let std = non_linearity.gain() / (fan.for_shape(&shape).max(1) as f64).sqrt();
            match dist {
                NormalOrUniform::Normal => (true, [0., std]),
                NormalOrUniform::Uniform => (false, [-3f64.sqrt() * std, 3f64.sqrt() * std]),
            }
        }
    };
    let refuse = |reason| Err(Error::Argument { op: "init::draw", reason });
    if !(a.is_finite() && b.is_finite()) {
        return refuse(format!("the distribution's parameters {a}, {b} are not finite"));
    }
    if !dtype.is_float() {
        return refuse(format!("random values need a floating-point type, not {}", dtype.as_str()));
    }
    let value = |_| match is_normal {
        true => a + b * rng.sample::<f64, _>(StandardNormal),
        false => a + (b - a) * rng.random::<f64>(),
    };
    let values: Vec<f64> = (0..shape.elem_count()).map(value).collect();
    Ok(Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(dtype)?.to_device(device)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebm_base::Key;

    fn moments(init: Init, shape: (usize, usize, usize, usize)) -> (f64, f64, f64) {
        let drawn = draw(&init, shape, DType::F64, &Device::Cpu, &mut Key::new(3).rng()).unwrap();
        let values = drawn.flatten_all().unwrap().to_vec1::<f64>().unwrap();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let var = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / values.len() as f64;
        (mean, var, values.iter().fold(0f64, |m, v| m.max(v.abs())))
    }

    #[test]
    fn the_distributions_have_torchs_bounds_and_variances() {
        let shape = (96, 24, 3, 3); // fan_in 216, fan_out 864, 20736 values
        let (mean, var, max) = moments(default_weight(), shape);
        let bound = 1. / 216f64.sqrt();
        assert!(mean.abs() < 0.02 * bound && max <= bound && max > 0.999 * bound);
        assert!((var / (bound * bound / 3.) - 1.).abs() < 0.03);
        let (_, _, max) = moments(kaiming_uniform(1.), shape);
        assert!(max <= (3f64 / 216.).sqrt() && max > 0.999 * (3f64 / 216.).sqrt());
        let (mean, var, _) = moments(kaiming_normal_fan_out(), shape);
        assert!(mean.abs() < 1e-3 && (var * 864. / 2. - 1.).abs() < 0.04);
        let (_, var, _) = moments(kaiming_normal_fan_in(), shape);
        assert!((var * 216. / 2. - 1.).abs() < 0.04);
        let (_, var, _) = moments(normal(0.001), shape);
        assert!((var / 1e-6 - 1.).abs() < 0.04);
        assert_eq!(moments(constant(2.5), shape), (2.5, 0., 2.5));
        let (_, _, max) = moments(default_bias(16), shape);
        assert!(max <= 0.25 && max > 0.2499);
    }

    #[test]
    fn f32_is_the_rounded_f64() {
        let draw = |dtype| draw(&normal(1.), 64, dtype, &Device::Cpu, &mut Key::new(1).rng()).unwrap();
        let wide: Vec<f64> = draw(DType::F64).to_vec1().unwrap();
        let narrow: Vec<f32> = draw(DType::F32).to_vec1().unwrap();
        assert!(wide.iter().zip(&narrow).all(|(w, n)| *w as f32 == *n));
    }

    #[test]
    fn integers_and_infinities_are_refused() {
        let rng = &mut Key::new(1).rng();
        assert!(draw(&normal(1.), 2, DType::I64, &Device::Cpu, rng).is_err());
        assert!(draw(&normal(f64::NAN), 2, DType::F32, &Device::Cpu, rng).is_err());
        assert!(
            draw(&Init::Uniform { lo: 0., up: f64::INFINITY }, 2, DType::F32, &Device::Cpu, rng).is_err()
        );
        assert!(draw(&constant(0.), 2, DType::I64, &Device::Cpu, rng).is_ok());
    }
}
