//! The layers that see x.

use candle_core::Tensor;
use candle_nn::VarBuilder;
use ebm_nn::init;
use ebm_nn::ops::linear;

use crate::Result;

/// A fully-connected layer, started as torch starts one.
#[derive(Clone, Debug)]
pub struct Layer {
    /// (outputs, inputs).
    pub weight: Tensor,
    /// (outputs).
    pub bias: Tensor,
}

impl Layer {
    /// The layer at `vb`.
    pub fn new(inputs: usize, outputs: usize, vb: VarBuilder) -> Result<Self> {
        Ok(Self {
            weight: vb.get_with_hints((outputs, inputs), "weight", init::default_weight())?,
            bias: vb.get_with_hints(outputs, "bias", init::default_bias(inputs))?,
        })
    }

    /// (B, inputs) -> (B, outputs).
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(linear(x, &self.weight, Some(&self.bias))?)
    }
}

/// Layers with `z · sigmoid(z)` behind each.
#[derive(Clone, Debug)]
pub struct Trunk(Vec<Layer>);

impl Trunk {
    /// `depth` layers of `width` units on `inputs` numbers.
    pub fn new(inputs: usize, width: usize, depth: usize, vb: VarBuilder) -> Result<Self> {
        let layer = |index: usize| {
            let inputs = if index == 0 { inputs } else { width };
            Layer::new(inputs, width, vb.pp(format!("layer{}", index + 1)))
        };
        Ok(Self((0..depth).map(layer).collect::<Result<_>>()?))
    }

    /// x (B, F) -> (B, width).
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut h = x.clone();
        for layer in &self.0 {
            h = layer.forward(&h)?.silu()?;
        }
        Ok(h)
    }
}
