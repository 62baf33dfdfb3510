//! Initial values of parameters, by [`candle_nn::Init`].

use candle_nn::Init;
use candle_nn::init::{FanInOut, NonLinearity, NormalOrUniform};

/// Returns torch's default for the weight of `Linear` and `Conv2d`: Kaiming uniform with a = √5, which is U(−1/√fan_in,
/// 1/√fan_in).
pub fn default_weight() -> Init {
    kaiming_uniform(5f64.sqrt())
}

/// Returns torch's default for the bias of `Linear` and `Conv2d`: U(−1/√fan_in, 1/√fan_in), or 0 if `fan_in` (input channels
/// times kernel area) is 0.
pub fn default_bias(fan_in: usize) -> Init {
    let bound = if fan_in == 0 { 0. } else { 1. / (fan_in as f64).sqrt() };
    Init::Uniform { lo: -bound, up: bound }
}

/// Returns Kaiming uniform over fan-in for a leaky ReLU of slope `a`: U(−b, b), b = √(6 / ((1 + a²) fan_in)).
pub fn kaiming_uniform(a: f64) -> Init {
    let gain = (2. / (1. + a * a)).sqrt();
    Init::Kaiming {
        dist: NormalOrUniform::Uniform,
        fan: FanInOut::FanIn,
        non_linearity: NonLinearity::ExplicitGain(gain),
    }
}
