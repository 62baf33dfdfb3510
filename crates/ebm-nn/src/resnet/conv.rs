//! Convolution layers, with and without batch normalisation.

use candle_core::Tensor;
use candle_nn::{Init, VarBuilder};

use crate::norm::{BatchNorm, BatchNormConfig};
use crate::{Result, init, ops};

/// A square convolution with torch's names `weight` (O, I, k, k) and `bias` (O).
#[derive(Clone, Debug)]
pub struct Conv2d {
    weight: Tensor,
    bias: Option<Tensor>,
    stride: usize,
    padding: usize,
}

/// The geometry and the initial values of a [`Conv2d`].
#[derive(Clone, Copy, Debug)]
pub struct Conv2dConfig {
    /// The number of input channels I.
    pub input: usize,
    /// The number of output channels O.
    pub output: usize,
    /// The kernel's height and width k.
    pub kernel: usize,
    /// The step between two outputs.
    pub stride: usize,
    /// The zeros on each side.
    pub padding: usize,
    /// How the weight is drawn.
    pub weight: Init,
    /// How the bias is drawn, if there is one.
    pub bias: Option<Init>,
}

impl Conv2dConfig {
    /// Stride 1 and the padding that keeps an odd kernel's output at the input's size, with torch's
    /// default initial values.
    pub fn same(input: usize, output: usize, kernel: usize) -> Self {
        Self {
            input,
            output,
            kernel,
            stride: 1,
            padding: kernel / 2,
            weight: init::default_weight(),
            bias: Some(init::default_bias(input * kernel * kernel)),
        }
    }
}

impl Conv2d {
    /// The layer whose parameters are `weight` and `bias` of `vb`.
    ///
    /// # Errors
    /// When `vb` refuses a tensor.
    pub fn new(config: Conv2dConfig, vb: VarBuilder) -> Result<Self> {
        let Conv2dConfig { input, output, kernel, stride, padding, .. } = config;
        let weight = vb.get_with_hints((output, input, kernel, kernel), "weight", config.weight)?;
        let bias = config.bias.map(|init| vb.get_with_hints(output, "bias", init)).transpose()?;
        Ok(Self { weight, bias, stride, padding })
    }

    /// (N, I, H, W) -> (N, O, (H + 2p − k)/s + 1, (W + 2p − k)/s + 1), divisions rounded down.
    ///
    /// # Errors
    /// When `x` has another number of channels or is smaller than the kernel.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::conv2d(x, &self.weight, self.bias.as_ref(), self.stride, self.padding)
    }

    /// (O, I, k, k).
    #[must_use]
    pub fn weight(&self) -> &Tensor {
        &self.weight
    }

    /// The layer with its present parameters, for inference on the CPU.
    ///
    /// # Errors
    /// When a tensor operation fails.
    pub fn pack(&self) -> Result<ops::PackedConv2d> {
        ops::PackedConv2d::new(&self.weight, self.bias.as_ref(), self.stride, self.padding)
    }
}

/// A convolution and the normalisation that follows it, if any.
#[derive(Clone, Debug)]
pub(super) struct ConvNorm {
    conv: Conv2d,
    norm: Option<BatchNorm>,
}

impl ConvNorm {
    /// A ResNet's convolution `conv` of `vb` with padding k/2; without a `norm` it has a bias.
    pub(super) fn new(
        (input, output): (usize, usize),
        (kernel, stride): (usize, usize),
        norm: Option<BatchNormConfig>,
        (conv_name, norm_name): (&str, &str),
        vb: &VarBuilder,
    ) -> Result<Self> {
        let config = Conv2dConfig {
            stride,
            weight: init::kaiming_normal_fan_out(),
            bias: norm.is_none().then(|| init::constant(0.)),
            ..Conv2dConfig::same(input, output, kernel)
        };
        let conv = Conv2d::new(config, vb.pp(conv_name))?;
        let norm = norm.map(|config| BatchNorm::new(output, config, vb.pp(norm_name))).transpose()?;
        Ok(Self { conv, norm })
    }

    /// The layer as it is when not trained, with the normalisation in the convolution's weights and bias; outside any graph.
    pub(super) fn folded(&self) -> Result<Self> {
        let Conv2d { weight, bias, stride, padding } = &self.conv;
        let (weight, bias) = match &self.norm {
            None => (weight.detach(), bias.as_ref().map(Tensor::detach)),
            Some(norm) => {
                let (scale, shift) = norm.affine()?;
                let weight = weight.broadcast_mul(&scale.reshape(((), 1, 1, 1))?)?;
                (weight.detach(), Some(shift.detach()))
            }
        };
        Ok(Self { conv: Conv2d { weight, bias, stride: *stride, padding: *padding }, norm: None })
    }

    /// The same packed.
    pub(super) fn pack(&self) -> Result<ops::PackedConv2d> {
        match &self.norm {
            None => self.conv.pack(),
            Some(norm) => {
                let (scale, shift) = norm.affine()?;
                let Conv2d { weight, stride, padding, .. } = &self.conv;
                ops::PackedConv2d::folded(weight, &scale, &shift, *stride, *padding)
            }
        }
    }

    /// (N, H, W, I) -> (N, …, O): the normalised convolution, with `residual` added, and with `relu` cut off at 0.
    pub(super) fn forward(
        &self,
        x: &Tensor,
        residual: Option<&Tensor>,
        relu: bool,
        train: bool,
    ) -> Result<Tensor> {
        let Conv2d { weight, bias, stride, padding } = &self.conv;
        let conv = |weight: &Tensor, bias: Option<&Tensor>| {
            ops::conv2d_layer(x, (weight, bias), (*stride, *padding), residual, relu)
        };
        match &self.norm {
            None => conv(weight, bias.as_ref()),
            Some(norm) if norm.uses_batch(train) => {
                let y = ops::conv2d_channels_last(x, weight, None, *stride, *padding)?;
                norm.forward_channels_last(&y, residual, relu, true)
            }
            Some(norm) => {
                // The affine map goes into the weights, which are smaller than the maps it would run over.
                let (scale, shift) = norm.affine()?;
                conv(&weight.broadcast_mul(&scale.reshape(((), 1, 1, 1))?)?, Some(&shift))
            }
        }
    }
}
