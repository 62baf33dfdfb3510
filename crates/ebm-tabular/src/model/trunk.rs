//! The layers that see x.

use candle_core::Tensor;
use candle_nn::{Linear, VarBuilder};
use ebm_nn::init;
use ebm_ops::linear;

use crate::Result;

/// x (B, inputs) -> (B, outputs) of a fully-connected layer.
pub fn forward(layer: &Linear, x: &Tensor) -> Result<Tensor> {
    Ok(linear(x, layer.weight(), layer.bias())?)
}

/// Layers with `z · sigmoid(z)` behind each.
#[derive(Clone, Debug)]
pub struct Trunk(Vec<Linear>);

impl Trunk {
    /// `depth` layers of `width` units on `inputs` numbers.
    pub fn new(inputs: usize, width: usize, depth: usize, vb: VarBuilder) -> Result<Self> {
        let layer = |index: usize| {
            let inputs = if index == 0 { inputs } else { width };
            Ok(init::linear(inputs, width, vb.pp(format!("layer{}", index + 1)))?)
        };
        Ok(Self((0..depth).map(layer).collect::<Result<_>>()?))
    }

    /// x (B, F) -> (B, width).
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut h = x.clone();
        for layer in &self.0 {
            h = forward(layer, &h)?.silu()?;
        }
        Ok(h)
    }
}
