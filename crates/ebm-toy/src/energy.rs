//! The energy-based model of Figure 2.

use candle_core::{DType, Device, Tensor, Var};
use ebm_core::{DirectionalDerivatives, EnergyModel, Error, Order};
use ebm_experiment::config::Setting;
use ebm_nn::ops;
use ebm_seed::Key;
use serde::{Deserialize, Serialize};

use crate::layers::{Linear, WIDTH, uniform};

/// Which published network computes f(x, y). Both have two layers 1 → 10 → 10 with ReLU for x, and for y one
/// layer 1 → 10, three layers 10 → 10 of which one joins x, and a linear layer 10 → 1; they differ in the
/// rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// The paper's (supplement, Illustrative Example): y through 1 → 10 → 10, jointly 20 → 10 → 10 → 1, all
    /// ReLU.
    Eccv,
    /// The one of the follow-up (BMVC 2020): y through 1 → 10, jointly 20 → 10, two residual layers 10 → 10,
    /// then 10 → 1, all tanh, so that f has a second derivative in y.
    Bmvc,
}

impl Setting for Network {}

impl Network {
    /// The place among the three layers of the one that joins the features of x.
    fn joining_layer(self) -> usize {
        match self {
            Self::Eccv => 1,
            Self::Bmvc => 0,
        }
    }

    /// φ(z) and its derivatives in y, φ'(z) z' and φ''(z) z'² + φ'(z) z'', from z, z' and z''.
    fn activate(self, z: &[Tensor]) -> ebm_nn::Result<Vec<Tensor>> {
        let [value, derivatives @ ..] = z else { return Ok(Vec::new()) };
        if self == Self::Eccv {
            let mut jet = vec![ops::relu(value)?];
            for derivative in derivatives {
                jet.push(ops::relu_gradient(derivative, &jet[0])?);
            }
            return Ok(jet);
        }
        let mut jet = vec![value.tanh()?];
        if let [first, rest @ ..] = derivatives {
            let slope = (1.0 - jet[0].sqr()?)?;
            if let [second, ..] = rest {
                let bend = ((&jet[0] * &slope)? * -2.0)?;
                jet.push(((bend * first.sqr()?)? + (second * &slope)?)?);
            }
            jet.insert(1, (first * &slope)?);
        }
        Ok(jet)
    }
}

/// f(x, y) of one of the published networks for 1-D x and y.
pub struct ToyEnergy {
    network: Network,
    /// Of x.
    x: [Linear; 2],
    /// 1 → 10 of y.
    y: Linear,
    /// The three layers 10 → 10 of y.
    hidden: [Linear; 3],
    /// The columns (10, 10) of the joining layer that multiply the features of x. Late fusion:
    /// W [g_x; h_y] = W_x g_x + W_y h_y, of which the first term is computed once for all y.
    joining: Var,
    /// 10 → 1.
    out: Linear,
    /// b(x).
    normalizer: Linear,
}

impl ToyEnergy {
    /// A new network with torch's initial distribution; its estimate b(x) of log Z starts at 0.
    ///
    /// # Errors
    /// When a tensor can not be made.
    pub fn new(network: Network, key: Key, dtype: DType, device: &Device) -> ebm_core::Result<Self> {
        let parameter = |name: &str, shape: &[usize], fan_in| {
            uniform(shape, fan_in, &mut key.split(name).rng(), dtype, device)
        };
        let linear = |name: &str, [inputs, outputs]: [usize; 2], fan_in| {
            let weight = parameter(&format!("{name}.weight"), &[outputs, inputs], fan_in)?;
            Ok::<_, Error>(Linear { weight, bias: parameter(&format!("{name}.bias"), &[outputs], fan_in)? })
        };
        let square = [WIDTH; 2];
        let joint = |index| if index == network.joining_layer() { 2 * WIDTH } else { WIDTH };
        let hidden = |index| linear(&format!("hidden.{index}"), square, joint(index));
        Ok(Self {
            network,
            x: [linear("x.0", [1, WIDTH], 1)?, linear("x.1", square, WIDTH)?],
            y: linear("y", [1, WIDTH], 1)?,
            hidden: [hidden(0)?, hidden(1)?, hidden(2)?],
            joining: parameter("joining.weight", &square, 2 * WIDTH)?,
            out: linear("out", [WIDTH, 1], WIDTH)?,
            normalizer: Linear {
                weight: Var::zeros((1, WIDTH), dtype, device)?,
                bias: Var::zeros(1, dtype, device)?,
            },
        })
    }

    /// The features g_x, (B, 10), of `x`, (B, 1): two linear layers, each with ReLU.
    ///
    /// # Errors
    /// When `x` has another shape or type.
    pub fn features(&self, x: &Tensor) -> ebm_core::Result<Tensor> {
        let [first, second] = &self.x;
        first.relu_of(x).and_then(|hidden| second.relu_of(&hidden)).map_err(Error::model)
    }

    /// f and as many of its derivatives in y as `orders` says (0, 1 or 2), each (B, M), of `features`, (B, 10),
    /// and `y`, (B, M, 1), by forward mode: the first terms of a Taylor series, which each layer maps to those of its
    /// output.
    fn jets(&self, features: &Tensor, y: &Tensor, orders: usize) -> ebm_nn::Result<Vec<Tensor>> {
        let (batch, count) = (features.dim(0)?, y.dim(1)?);
        let y = y.reshape((batch * count, 1))?;
        let ones = y.ones_like()?.detach();
        let input = [y, ones.clone(), ones.zeros_like()?];
        let joining = &self.hidden[self.network.joining_layer()];
        let joined = ops::linear(features, &self.joining, Some(&joining.bias))?;

        let mut jet = self.network.activate(&linear(&input[..=orders], &self.y.weight, &self.y.bias)?)?;
        for (index, layer) in self.hidden.iter().enumerate() {
            let joins = index == self.network.joining_layer();
            let bias = if joins { &joined } else { layer.bias.as_tensor() };
            let out = self.network.activate(&linear(&jet, &layer.weight, bias)?)?;
            let is_residual = self.network == Network::Bmvc && index > 0;
            jet = match is_residual {
                true => jet.iter().zip(&out).map(|(a, b)| a + b).collect::<candle_core::Result<_>>()?,
                false => out,
            };
        }
        let out = linear(&jet, &self.out.weight, &self.out.bias)?;
        out.iter().map(|tensor| Ok(tensor.reshape((batch, count))?)).collect()
    }

    /// All parameters by name.
    pub fn parameters(&self) -> Vec<(String, Var)> {
        let layers = self.x.iter().chain([&self.y]).chain(&self.hidden).chain([&self.out, &self.normalizer]);
        let names = ["x.0", "x.1", "y", "hidden.0", "hidden.1", "hidden.2", "out", "normalizer"];
        let named = layers.zip(names).flat_map(|(layer, name)| layer.parameters(name));
        named.chain([("joining.weight".to_owned(), self.joining.clone())]).collect()
    }
}

/// W a + b of a value; of its derivatives without b.
fn linear(jet: &[Tensor], weight: &Tensor, bias: &Tensor) -> ebm_nn::Result<Vec<Tensor>> {
    let of = |(order, a)| ops::linear(a, weight, (order == 0).then_some(bias));
    jet.iter().enumerate().map(of).collect()
}

impl EnergyModel for ToyEnergy {
    type Features = Tensor;

    fn score(&self, features: &Tensor, y: &Tensor) -> ebm_core::Result<Tensor> {
        Ok(self.jets(features, y, 0).map_err(Error::model)?.remove(0))
    }

    fn score_and_grad(&self, features: &Tensor, y: &Tensor) -> ebm_core::Result<(Tensor, Tensor)> {
        let jets = self.jets(&features.detach(), &y.detach(), 1).map_err(Error::model)?;
        Ok((jets[0].detach(), jets[1].detach().unsqueeze(2)?))
    }

    /// With one coordinate a direction is a factor.
    fn derivatives_along(
        &self,
        features: &Tensor,
        y: &Tensor,
        direction: &Tensor,
        order: Order,
    ) -> ebm_core::Result<DirectionalDerivatives> {
        let direction = direction.squeeze(2)?;
        let orders = if order == Order::First { 1 } else { 2 };
        let jets = self.jets(features, y, orders).map_err(Error::model)?;
        let second = jets.get(2).map(|second| second * direction.sqr()?).transpose()?;
        Ok(DirectionalDerivatives { value: jets[0].clone(), first: (&jets[1] * direction)?, second })
    }

    /// Linear in the features of x.
    fn log_normalizer(&self, features: &Tensor) -> ebm_core::Result<Tensor> {
        Ok(self.normalizer.of(features).map_err(Error::model)?.squeeze(1)?)
    }
}
