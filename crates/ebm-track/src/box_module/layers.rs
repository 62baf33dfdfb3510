//! The two kinds of layers of the box module, each with batch normalisation and ReLU.

use candle_core::Tensor;
use candle_nn::{Init, VarBuilder};
use ebm_nn::init;
use ebm_nn::onnx::{Graph, Value};
use ebm_ops::device::Precision;
use ebm_ops::nn::{BatchNorm, BatchNormConfig, Conv2d, Conv2dConfig, PackedLinear};
use ebm_ops::{Padding, linear};

use crate::Result;

/// Initial factors of the normalisations, which ATOM draws from U(0, 1).
const NORM_WEIGHT: Init = Init::Uniform { lo: 0.0, up: 1.0 };

fn norm(channels: usize, vb: VarBuilder) -> Result<BatchNorm> {
    Ok(BatchNorm::with_weight(channels, BatchNormConfig::TRAIN, NORM_WEIGHT, vb)?)
}

/// A convolution with bias, named `0`, its normalisation, named `1`, and ReLU.
#[derive(Clone, Debug)]
pub(super) struct ConvBlock(Conv2d);

impl ConvBlock {
    /// Builds a convolution that keeps the size of the map.
    pub(super) fn same(input: usize, output: usize, vb: VarBuilder) -> Result<Self> {
        Self::new(Conv2dConfig::same(input, output, 3), vb)
    }

    /// Builds a convolution that reduces maps of `kernel` × `kernel` pixels to one pixel.
    pub(super) fn of_patch(input: usize, output: usize, kernel: usize, vb: VarBuilder) -> Result<Self> {
        Self::new(Conv2dConfig { padding: Padding::Each(0), ..Conv2dConfig::same(input, output, kernel) }, vb)
    }

    fn new(config: Conv2dConfig, vb: VarBuilder) -> Result<Self> {
        let (weight, bias) = (init::kaiming_normal_fan_in(), Some(init::constant(0.0)));
        let conv = Conv2d::new(Conv2dConfig { weight, bias, ..config }, vb.pp("0"))?;
        Ok(Self(conv.normalised(norm(config.output, vb.pp("1"))?)))
    }

    /// Applies the block: (N, H, W, I) -> (N, …, O).
    pub(super) fn forward(&self, x: &Tensor, train: bool) -> Result<Tensor> {
        Ok(self.0.forward_channels_last(x, None, true, train)?)
    }

    /// Adds [`forward`](Self::forward) without training to an ONNX graph, for maps (N, I, H, W).
    pub(super) fn onnx(&self, graph: &mut Graph, x: &Value) -> Result<Value> {
        Ok(graph.conv2d(&self.0, x, None, true)?)
    }
}

/// A fully-connected layer on pooled boxes, named `linear`, its normalisation over all boxes of a batch, named `bn`,
/// and ReLU.
#[derive(Clone, Debug)]
pub(super) struct LinearBlock {
    weight: Tensor,
    bias: Tensor,
    norm: BatchNorm,
}

impl LinearBlock {
    pub(super) fn new(input: usize, output: usize, vb: VarBuilder) -> Result<Self> {
        let linear = vb.pp("linear");
        let weight = linear.get_with_hints((output, input), "weight", init::kaiming_normal_fan_in())?;
        let bias = linear.get_with_hints(output, "bias", init::constant(0.0))?;
        Ok(Self { weight, bias, norm: norm(output, vb.pp("bn"))? })
    }

    /// Applies the block: (R, I) -> (R, O).
    pub(super) fn forward(&self, x: &Tensor, train: bool) -> Result<Tensor> {
        let y = linear(x, &self.weight, Some(&self.bias))?;
        Ok(self.norm.forward_channels_last(&y, None, true, train)?)
    }

    /// Returns the trained parameters.
    pub(super) fn parameters(&self) -> impl Iterator<Item = &Tensor> {
        [&self.weight, &self.bias].into_iter().chain(self.norm.parameters())
    }

    /// Packs the layer for prediction, for boxes that are pooled to `bins` bins with the channels innermost.
    pub(super) fn pack(&self, bins: usize) -> Result<PackedLinear> {
        let (weight, bias) = self.folded()?;
        let channels = weight.dim(1)? / bins;
        let column = |i: usize| i % channels * bins + i / channels;
        Ok(PackedLinear::with_inputs(&weight.detach(), Some(&bias.detach()), Precision::Full, &column)?)
    }

    /// Adds [`forward`](Self::forward) without training to an ONNX graph.
    pub(super) fn onnx(&self, graph: &mut Graph, x: &Value) -> Result<Value> {
        let (weight, bias) = self.folded()?;
        let y = graph.linear(x, &weight, Some(&bias))?;
        Ok(graph.node("Relu", &[&y], &[]))
    }

    /// Returns weight and bias with the normalisation's running statistics folded in.
    fn folded(&self) -> Result<(Tensor, Tensor)> {
        let (scale, shift) = self.norm.affine()?;
        let weight = self.weight.broadcast_mul(&scale.unsqueeze(1)?)?;
        Ok((weight, ((&self.bias * &scale)? + shift)?))
    }
}
