//! The two kinds of layers, each with batch normalisation and ReLU.

use candle_core::Tensor;
use candle_nn::{Init, VarBuilder};
use ebm_nn::init;
use ebm_nn::norm::{BatchNorm, BatchNormConfig};
use ebm_nn::ops::{PackedConv2d, PackedLinear, conv2d_channels_last, linear};

use crate::Result;

/// ATOM draws the factors of its normalisations from U(0, 1).
const NORM_WEIGHT: Init = Init::Uniform { lo: 0.0, up: 1.0 };

fn norm(channels: usize, vb: VarBuilder) -> Result<BatchNorm> {
    Ok(BatchNorm::with_weight(channels, BatchNormConfig::TRAIN, NORM_WEIGHT, vb)?)
}

fn weight_and_bias(shape: &[usize], vb: &VarBuilder) -> Result<(Tensor, Tensor)> {
    let weight = vb.get_with_hints(shape, "weight", init::kaiming_normal_fan_in())?;
    Ok((weight, vb.get_with_hints(shape[0], "bias", init::constant(0.0))?))
}

/// A convolution with bias, `0`, its normalisation, `1`, and ReLU.
#[derive(Clone, Debug)]
pub(super) struct ConvBlock {
    weight: Tensor,
    bias: Tensor,
    norm: BatchNorm,
    padding: usize,
}

impl ConvBlock {
    /// A convolution that keeps the map's size.
    pub(super) fn same(input: usize, output: usize, vb: VarBuilder) -> Result<Self> {
        Ok(Self { padding: 1, ..Self::of_patch(input, output, 3, vb)? })
    }

    /// A convolution of maps of `kernel` × `kernel` pixels to one.
    pub(super) fn of_patch(input: usize, output: usize, kernel: usize, vb: VarBuilder) -> Result<Self> {
        let (weight, bias) = weight_and_bias(&[output, input, kernel, kernel], &vb.pp("0"))?;
        Ok(Self { weight, bias, norm: norm(output, vb.pp("1"))?, padding: 0 })
    }

    /// (N, H, W, I) -> (N, …, O).
    pub(super) fn forward(&self, x: &Tensor, train: bool) -> Result<Tensor> {
        let y = conv2d_channels_last(x, &self.weight, Some(&self.bias), 1, self.padding)?;
        Ok(self.norm.forward_channels_last(&y, None, true, train)?)
    }

    /// The layer as it is when not trained.
    pub(super) fn pack(&self) -> Result<PackedConv2d> {
        let (scale, shift) = self.norm.affine()?;
        let shift = ((&self.bias * &scale)? + shift)?;
        Ok(PackedConv2d::folded(&self.weight.detach(), &scale.detach(), &shift.detach(), 1, self.padding)?)
    }
}

/// A fully-connected layer of a pooled box, `linear`, its normalisation over all boxes of a batch, `bn`, and ReLU.
#[derive(Clone, Debug)]
pub(super) struct LinearBlock {
    weight: Tensor,
    bias: Tensor,
    norm: BatchNorm,
}

impl LinearBlock {
    pub(super) fn new(input: usize, output: usize, vb: VarBuilder) -> Result<Self> {
        let (weight, bias) = weight_and_bias(&[output, input], &vb.pp("linear"))?;
        Ok(Self { weight, bias, norm: norm(output, vb.pp("bn"))? })
    }

    /// (R, I) -> (R, O).
    pub(super) fn forward(&self, x: &Tensor, train: bool) -> Result<Tensor> {
        let y = linear(x, &self.weight, Some(&self.bias))?;
        Ok(self.norm.forward_channels_last(&y, None, true, train)?)
    }

    /// The layer as it is when not trained, for boxes that are pooled with the channels innermost to `bins` bins.
    pub(super) fn pack(&self, bins: usize) -> Result<PackedLinear> {
        let (scale, shift) = self.norm.affine()?;
        let weight = self.weight.broadcast_mul(&scale.unsqueeze(1)?)?;
        let bias = ((&self.bias * &scale)? + shift)?;
        let channels = weight.dim(1)? / bins;
        let column = |i: usize| i % channels * bins + i / channels;
        Ok(PackedLinear::with_inputs(&weight.detach(), Some(&bias.detach()), column)?)
    }
}
