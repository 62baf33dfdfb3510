//! f(x, y) and its derivatives in y, composed of tensor operations, for any device and type. The derivatives are
//! exact, by forward mode.

use candle_core::{D, Tensor};
use ebm_nn::Result;

use crate::layout::{Activation, LAYERS, Layout, Linear, Network, WIDTH};
use crate::network::{self, positive, relu};

/// A value and its requested derivatives in y. They are the first terms of a Taylor series, which each layer maps
/// to the terms of its output.
struct Jet {
    value: Tensor,
    first: Option<Tensor>,
    second: Option<Tensor>,
}

/// Computes f and its first `orders` derivatives in y (0, 1 or 2), each (B, M), for `features`, (B, 10), and `y`,
/// (B, M).
pub(crate) fn jets(
    network: Network,
    theta: &Tensor,
    features: &Tensor,
    y: &Tensor,
    orders: usize,
) -> Result<Vec<Tensor>> {
    let layout = Layout::new(network);
    let (batch, count) = y.dims2()?;
    let y = y.reshape((batch, count, 1))?;
    let ones = y.ones_like()?.detach();
    let input = Jet {
        first: (orders > 0).then(|| ones.clone()),
        second: if orders > 1 { Some(ones.zeros_like()?) } else { None },
        value: y,
    };
    let joining = theta.narrow(0, layout.joining.start, WIDTH * WIDTH)?.reshape((WIDTH, WIDTH))?;
    let joined = ebm_ops::linear(features, &joining, None)?.unsqueeze(1)?; // (B, 1, 10)

    let mut jet = activate(linear(theta, &layout.y, &input)?, network.activation())?;
    for index in 0..LAYERS {
        let mut out = linear(theta, &layout.hidden[index], &jet)?;
        if index == network.joining_layer() {
            out.value = out.value.broadcast_add(&joined)?;
        }
        let out = activate(out, network.activation())?;
        jet = if network.is_residual(index) { add(&jet, &out)? } else { out };
    }
    let out = linear(theta, &layout.out, &jet)?;
    let orders = [Some(out.value), out.first, out.second].into_iter().flatten();
    orders.map(|tensor| Ok(tensor.squeeze(D::Minus1)?)).collect()
}

/// Computes the features, (B, 10), of `x`, (B, 1): two linear layers, each with ReLU.
pub(crate) fn features(network: Network, theta: &Tensor, x: &Tensor) -> Result<Tensor> {
    let [first, second] = Layout::new(network).x;
    let hidden = relu(&network::linear(theta, &first, x, true)?)?;
    relu(&network::linear(theta, &second, &hidden, true)?)
}

/// Computes W a + b over the last dimension; derivatives have no bias.
fn linear(theta: &Tensor, layer: &Linear, jet: &Jet) -> Result<Jet> {
    let times = |a: &Tensor, with_bias: bool| -> Result<Tensor> {
        let (batch, count, inputs) = a.dims3()?;
        let rows = a.reshape((batch * count, inputs))?;
        Ok(network::linear(theta, layer, &rows, with_bias)?.reshape((batch, count, layer.bias.len()))?)
    };
    Ok(Jet {
        value: times(&jet.value, true)?,
        first: jet.first.as_ref().map(|a| times(a, false)).transpose()?,
        second: jet.second.as_ref().map(|a| times(a, false)).transpose()?,
    })
}

/// Computes φ(z), φ'(z) z', φ''(z) z'² + φ'(z) z''.
fn activate(z: Jet, activation: Activation) -> Result<Jet> {
    let (value, slope, bend) = match activation {
        Activation::Relu => {
            let slope = positive(&z.value)?;
            ((&z.value * &slope)?, slope, None)
        }
        Activation::Tanh => {
            let value = z.value.tanh()?;
            let slope = (1.0 - value.sqr()?)?;
            let bend = ((&value * &slope)? * -2.0)?;
            (value, slope, Some(bend))
        }
    };
    let first = z.first.as_ref().map(|first| first * &slope).transpose()?;
    let second = match (&z.first, &z.second) {
        (Some(first), Some(second)) => {
            let straight = (second * &slope)?;
            Some(match bend {
                Some(bend) => ((bend * first.sqr()?)? + straight)?,
                None => straight,
            })
        }
        _ => None,
    };
    Ok(Jet { value, first, second })
}

fn add(a: &Jet, b: &Jet) -> Result<Jet> {
    let sum = |a: &Option<Tensor>, b: &Option<Tensor>| match (a, b) {
        (Some(a), Some(b)) => Ok::<_, candle_core::Error>(Some((a + b)?)),
        _ => Ok(None),
    };
    Ok(Jet {
        value: (&a.value + &b.value)?,
        first: sum(&a.first, &b.first)?,
        second: sum(&a.second, &b.second)?,
    })
}
