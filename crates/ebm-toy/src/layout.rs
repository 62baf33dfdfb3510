//! The two published networks of Figure 2, and the positions of their parameters.

use std::ops::Range;

use ebm_base::Key;
use ebm_experiment::config::Setting;
use rand::Rng;
use serde::{Deserialize, Serialize};

/// Width of every hidden layer.
pub const WIDTH: usize = 10;
/// Number of hidden layers of y with as many inputs as outputs.
pub const LAYERS: usize = 3;

/// Activation after a linear layer of y.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// max(z, 0).
    Relu,
    /// tanh z.
    Tanh,
}

/// Published network that computes f(x, y). Both have two layers 1 → 10 → 10 with ReLU for x, and for y one
/// layer 1 → 10, three layers 10 → 10, one of them joined with x, and a linear layer 10 → 1. They differ in the
/// rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Network of the paper (supplement, Illustrative Example): y through 1 → 10 → 10, jointly 20 → 10 → 10 → 1,
    /// all with ReLU.
    Eccv,
    /// Network of the follow-up (BMVC 2020): y through 1 → 10, jointly 20 → 10, two residual layers 10 → 10, then
    /// 10 → 1, all with tanh, so that f has a second derivative in y.
    Bmvc,
}

impl Setting for Network {}

impl Network {
    /// Returns the activation of the layers of y; the layers of x have ReLU in both networks.
    pub fn activation(self) -> Activation {
        match self {
            Self::Eccv => Activation::Relu,
            Self::Bmvc => Activation::Tanh,
        }
    }

    /// Returns the index in `0..LAYERS` of the layer that joins the features of x.
    pub const fn joining_layer(self) -> usize {
        match self {
            Self::Eccv => 1,
            Self::Bmvc => 0,
        }
    }

    /// Returns whether layer `index` in `0..LAYERS` adds its input to its output.
    pub const fn is_residual(self, index: usize) -> bool {
        matches!(self, Self::Bmvc) && index > 0
    }
}

/// Positions of a linear layer's parameters in the vector θ; weights are (outputs, inputs), row-major.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linear {
    /// Range of the weights.
    pub weight: Range<usize>,
    /// Range of the biases.
    pub bias: Range<usize>,
    /// Number of inputs of the layer, with the features of x; it determines the initial range.
    pub fan_in: usize,
}

/// Positions of all parameters in θ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Layers 1 → 10 and 10 → 10 of x.
    pub x: [Linear; 2],
    /// Layer 1 → 10 of y.
    pub y: Linear,
    /// Three layers 10 → 10 of y.
    pub hidden: [Linear; LAYERS],
    /// Columns (10, 10) of the joining layer that multiply the features of x. Late fusion:
    /// W [g_x; h_y] = W_x g_x + W_y h_y, where the first term is computed once for all y.
    pub joining: Range<usize>,
    /// Layer 10 → 1.
    pub out: Linear,
    /// Length of θ.
    pub len: usize,
}

impl Layout {
    /// Creates the layout of a network.
    pub fn new(network: Network) -> Self {
        let mut len = 0;
        let mut take = |count: usize| {
            len += count;
            len - count..len
        };
        let mut linear = |inputs: usize, outputs: usize, fan_in: usize| Linear {
            weight: take(inputs * outputs),
            bias: take(outputs),
            fan_in,
        };
        let joining = network.joining_layer();
        let x = [linear(1, WIDTH, 1), linear(WIDTH, WIDTH, WIDTH)];
        let y = linear(1, WIDTH, 1);
        let hidden = [0, 1, 2].map(|l| linear(WIDTH, WIDTH, if l == joining { 2 * WIDTH } else { WIDTH }));
        let out = linear(WIDTH, 1, WIDTH);
        let joining = take(WIDTH * WIDTH);
        Self { x, y, hidden, joining, out, len }
    }

    /// Draws θ as torch initialises linear layers: uniform within ±1/√fan_in, biases too.
    pub fn init(&self, network: Network, key: Key) -> Vec<f32> {
        let mut theta = vec![0.0; self.len];
        let mut fill = |range: &Range<usize>, fan_in: usize, name: &str| {
            let (mut rng, bound) = (key.split(name).rng(), 1.0 / (fan_in as f32).sqrt());
            theta[range.clone()].fill_with(|| rng.random_range(-bound..bound));
        };
        let layers = self.x.iter().chain([&self.y]).chain(&self.hidden).chain([&self.out]);
        for (layer, name) in layers.zip(["x.0", "x.1", "y", "hidden.0", "hidden.1", "hidden.2", "out"]) {
            fill(&layer.weight, layer.fan_in, &format!("{name}.weight"));
            fill(&layer.bias, layer.fan_in, &format!("{name}.bias"));
        }
        fill(&self.joining, self.hidden[network.joining_layer()].fan_in, "joining.weight");
        theta
    }
}
