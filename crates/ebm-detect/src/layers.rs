//! Fully-connected layers with named initialisers.

use candle_core::{Device, Tensor};
use candle_nn::{Init, VarBuilder};

use ebm_ops::device::Precision;
use ebm_ops::nn::PackedLinear;
use ebm_ops::{linear, linear_relu};

use crate::Result;

/// Fully-connected layer.
#[derive(Clone)]
pub struct Linear {
    weight: Tensor,
    bias: Tensor,
}

impl Linear {
    /// Creates a layer with `weight (output, input)` drawn from `init` and `bias (output)` zero.
    pub fn new(vb: VarBuilder, input: usize, output: usize, init: Init) -> Result<Self> {
        let weight = vb.get_with_hints((output, input), "weight", init)?;
        Ok(Self { weight, bias: vb.get_with_hints(output, "bias", Init::Const(0.0))? })
    }

    /// Applies the layer: `(N, I)` → `(N, O)`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.by(linear, x)
    }

    /// Applies the layer, then ReLU: `(N, I)` → `(N, O)`.
    pub fn forward_relu(&self, x: &Tensor) -> Result<Tensor> {
        self.by(linear_relu, x)
    }

    fn by(
        &self,
        layer: fn(&Tensor, &Tensor, Option<&Tensor>) -> ebm_nn::Result<Tensor>,
        x: &Tensor,
    ) -> Result<Tensor> {
        // The operation refuses products without rows.
        if x.dim(0)? == 0 {
            return Ok(Tensor::zeros((0, self.weight.dim(0)?), x.dtype(), x.device())?);
        }
        Ok(layer(x, &self.weight, Some(&self.bias))?)
    }

    /// Returns the detached weight.
    pub fn weight(&self) -> Tensor {
        self.weight.detach()
    }

    /// Returns the layer with constant parameters.
    pub fn detached(&self) -> Self {
        Self { weight: self.weight.detach(), bias: self.bias.detach() }
    }

    /// Returns the layer with constant parameters for reordered inputs: input i is multiplied by column `columns[i]`
    /// of the weight.
    pub fn with_inputs(&self, columns: &[u32]) -> Result<Self> {
        let columns = Tensor::new(columns, self.weight.device())?;
        Ok(Self { weight: self.weight.detach().index_select(&columns, 1)?, bias: self.bias.detach() })
    }

    /// Returns weight and bias.
    pub fn parameters(&self) -> [&Tensor; 2] {
        [&self.weight, &self.bias]
    }

    /// Packs the weights in the order in which the processor reads them; input i is multiplied by column `column(i)`.
    pub fn pack(&self, precision: Precision, column: &dyn Fn(usize) -> usize) -> Result<PackedLinear> {
        Ok(PackedLinear::with_inputs(&self.weight.detach(), Some(&self.bias.detach()), precision, column)?)
    }
}

/// Returns U(±1/√input), torch's default for weights, which the feature extractors of both heads use.
pub fn torch_default(input: usize) -> Init {
    let bound = 1.0 / (input as f64).sqrt();
    Init::Uniform { lo: -bound, up: bound }
}

/// Converts rows of four numbers to a tensor `(R, 4)`.
pub fn rows_of_four(rows: &[[f32; 4]], device: &Device) -> Result<Tensor> {
    Ok(Tensor::from_slice(rows.as_flattened(), (rows.len(), 4), device)?)
}
