//! f(x, y) from the features g_x (supplement, Age Estimation and Head-Pose Estimation, "Ours").

use std::sync::Arc;

use candle_core::{Device, Tensor};
use candle_nn::VarBuilder;
use ebm_core::EnergyModel;
use ebm_nn::init;
use ebm_nn::onnx::{Graph, Value};
use ebm_ops::heads::LateFusion;
use ebm_ops::linear;
use ebm_ops::nn::{Prepared, are_constant};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Sizes of an [`EnergyHead`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnergyHeadConfig {
    /// D, the number of coordinates of y: 1 for the age, 3 for the head pose.
    pub dim: usize,
    /// Widths of the layers of y. The last is the length of g_y.
    pub y_layers: Vec<usize>,
    /// Width of the layer on `[g_x; g_y]`.
    pub hidden: usize,
}

impl EnergyHeadConfig {
    /// Returns the paper's sizes for y with `dim` coordinates.
    pub fn paper(dim: usize) -> Self {
        Self { dim, y_layers: vec![16, 32, 64, 128], hidden: 2048 }
    }
}

/// The head f(x, y): layers with ReLU from y to g_y, a layer with ReLU on `[g_x; g_y]`, and a linear layer.
///
/// The layer on `[g_x; g_y]` is one parameter, as published, but two products: W_x g_x once for each image in
/// [`features`](Self::features), and W_y g_y for each candidate ([`LateFusion`]). Constant parameters are split and
/// packed once.
#[derive(Clone, Debug)]
pub struct EnergyHead {
    y_layers: Vec<(Tensor, Tensor)>,
    /// Weight `(H, X + K)` and bias `(H)` of the layer on `[g_x; g_y]`.
    join: (Tensor, Tensor),
    /// Weight `(1, H)` and bias `(1)` of the last layer.
    out: (Tensor, Tensor),
    /// X, the length of g_x.
    num_features: usize,
    prepared: Prepared<SplitWeights>,
}

/// Weights of the layer on `[g_x; g_y]`, split into W_x and W_y.
#[derive(Debug)]
struct SplitWeights {
    /// W_x `(H, X)`.
    x_weight: Tensor,
    /// All layers that depend on y.
    late: LateFusion,
}

impl EnergyHead {
    /// Builds the head on g_x of length `num_features`. The parameters are `fc1_y`, `fc2_y`, … of the layers of y,
    /// `fc1_xy` of the layer on `[g_x; g_y]` and `fc2_xy` of the last layer, each with `weight` and `bias`, initialised
    /// like torch's linear layers.
    ///
    /// # Errors
    /// [`Error::Config`] when a size is 0; else when `vb` refuses a tensor.
    pub fn new(config: &EnergyHeadConfig, num_features: usize, vb: VarBuilder) -> Result<Self> {
        let EnergyHeadConfig { dim, y_layers, hidden } = config;
        if [dim, hidden, &num_features].into_iter().chain(y_layers).any(|size| *size == 0) {
            let reason = format!("{config:?} on {num_features} features: no size may be 0");
            return Err(Error::config("of the energy head", reason));
        }
        let layer = |inputs: usize, outputs: usize, name: &str| layer(inputs, outputs, vb.pp(name));
        let mut layers = Vec::with_capacity(y_layers.len());
        let mut inputs = *dim;
        for (index, &outputs) in y_layers.iter().enumerate() {
            layers.push(layer(inputs, outputs, &format!("fc{}_y", index + 1))?);
            inputs = outputs;
        }
        Ok(Self {
            y_layers: layers,
            join: layer(num_features + inputs, *hidden, "fc1_xy")?,
            out: layer(*hidden, 1, "fc2_xy")?,
            num_features,
            prepared: Prepared::new(),
        })
    }

    /// Computes the features of f, W_x g_x + b `(B, H)`, from `g_x` `(B, X)`. In prediction, the features of few images
    /// are moved to the CPU, where f of few candidates is [fastest](LateFusion::is_brief).
    ///
    /// # Errors
    /// When `g_x` has another shape.
    pub fn features(&self, g_x: &Tensor) -> Result<Tensor> {
        let features = linear(g_x, &self.split_weights()?.x_weight, Some(&self.join.1))?;
        if features.track_op() || !LateFusion::is_brief(g_x.dim(0)?) {
            return Ok(features);
        }
        Ok(features.to_device(&Device::Cpu)?)
    }

    fn split_weights(&self) -> Result<Arc<SplitWeights>> {
        let layers = self.y_layers.iter().chain([&self.join, &self.out]);
        if are_constant(layers.flat_map(|(weight, bias)| [weight, bias])) {
            return self.prepared.get(|| self.split());
        }
        Ok(Arc::new(self.split()?))
    }

    fn split(&self) -> Result<SplitWeights> {
        let [x_weight, y_weight] = self.weights()?;
        Ok(SplitWeights {
            x_weight: x_weight.contiguous()?,
            late: LateFusion::new(&self.y_layers, &y_weight, &self.out.0, &self.out.1)?,
        })
    }

    /// Adds f to an ONNX graph: `g_x (N, X)` and `y (N, M, D)` -> (N, M).
    pub(crate) fn onnx(&self, graph: &mut Graph, g_x: &Value, y: &Value) -> Result<Value> {
        let [x_weight, y_weight] = self.weights()?;
        let of_x = graph.linear(g_x, &x_weight, Some(&self.join.1))?;
        let axis = graph.integers(&[1]);
        let of_x = graph.node("Unsqueeze", &[&of_x, &axis], &[]);
        let mut of_y = y.clone();
        for (weight, bias) in &self.y_layers {
            let layer = graph.linear(&of_y, weight, Some(bias))?;
            of_y = graph.node("Relu", &[&layer], &[]);
        }
        let of_y = graph.linear(&of_y, &y_weight, None)?;
        let joint = graph.node("Add", &[&of_x, &of_y], &[]);
        let joint = graph.node("Relu", &[&joint], &[]);
        let f = graph.linear(&joint, &self.out.0, Some(&self.out.1))?;
        let axis = graph.integers(&[2]);
        Ok(graph.node("Squeeze", &[&f, &axis], &[]))
    }

    /// Returns W_x `(H, X)` and W_y `(H, K)`.
    fn weights(&self) -> Result<[Tensor; 2]> {
        let (weight, x) = (&self.join.0, self.num_features);
        Ok([weight.narrow(1, 0, x)?, weight.narrow(1, x, weight.dim(1)? - x)?])
    }
}

/// Creates weight and bias of a linear layer.
fn layer(inputs: usize, outputs: usize, vb: VarBuilder) -> Result<(Tensor, Tensor)> {
    let weight = vb.get_with_hints((outputs, inputs), "weight", init::default_weight())?;
    Ok((weight, vb.get_with_hints(outputs, "bias", init::default_bias(inputs))?))
}

/// `Features` are [`features`](EnergyHead::features), (B, H).
impl EnergyModel for EnergyHead {
    type Features = Tensor;

    fn score(&self, features: &Tensor, y: &Tensor) -> ebm_core::Result<Tensor> {
        let score = |weights: Arc<SplitWeights>| Ok(weights.late.forward(features, y)?);
        self.split_weights().and_then(score).map_err(ebm_core::Error::model)
    }

    fn score_and_grad(&self, features: &Tensor, y: &Tensor) -> ebm_core::Result<(Tensor, Tensor)> {
        let score = |weights: Arc<SplitWeights>| Ok(weights.late.score_and_grad(features, y)?);
        self.split_weights().and_then(score).map_err(ebm_core::Error::model)
    }
}
