//! The two published networks of Figure 2, and where their parameters lie.

use std::ops::Range;

use ebm_base::Key;
use ebm_experiment::config::Setting;
use rand::Rng;
use serde::{Deserialize, Serialize};

/// The width of every hidden layer.
pub const WIDTH: usize = 10;
/// Hidden layers of y with as many inputs as outputs.
pub const LAYERS: usize = 3;

/// What follows a linear layer of y.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// max(z, 0).
    Relu,
    /// tanh z.
    Tanh,
}

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
    /// The activation of the layers of y; those of x have ReLU in both networks.
    pub fn activation(self) -> Activation {
        match self {
            Self::Eccv => Activation::Relu,
            Self::Bmvc => Activation::Tanh,
        }
    }

    /// The index in `0..LAYERS` of the layer that joins the features of x.
    pub const fn joining_layer(self) -> usize {
        match self {
            Self::Eccv => 1,
            Self::Bmvc => 0,
        }
    }

    /// Whether layer `index` in `0..LAYERS` adds its input to its output.
    pub const fn is_residual(self, index: usize) -> bool {
        matches!(self, Self::Bmvc) && index > 0
    }
}

/// Parameters of a linear layer within the vector θ; weights are (outputs, inputs), row-major.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linear {
    /// The weights.
    pub weight: Range<usize>,
    /// The biases.
    pub bias: Range<usize>,
    /// The number of inputs of the layer, the features of x included: what the initial range depends on.
    pub fan_in: usize,
}

/// Where the parameters lie in θ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// 1 → 10 and 10 → 10 of x.
    pub x: [Linear; 2],
    /// 1 → 10 of y.
    pub y: Linear,
    /// The three layers 10 → 10 of y.
    pub hidden: [Linear; LAYERS],
    /// The columns (10, 10) of the joining layer that multiply the features of x. Late fusion:
    /// W [g_x; h_y] = W_x g_x + W_y h_y, of which the first term is computed once for all y.
    pub joining: Range<usize>,
    /// 10 → 1.
    pub out: Linear,
    /// The length of θ.
    pub len: usize,
}

impl Layout {
    /// The layout of a network.
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

    /// θ as torch initialises linear layers: uniform within ±1/√fan_in, biases too.
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
