//! A convolution, with or without batch normalisation after it.

use std::sync::Arc;

use candle_core::Tensor;
use candle_nn::{Init, VarBuilder};

use super::init::{default_bias, default_weight};
use super::norm::{BatchNorm, BatchNormConfig, NormEpilogue};
use super::prepared::{Prepared, are_constant, is_packable};
use crate::layout::{of_channels_last, to_channels_last};
use crate::{Activation, PackedConv2d, PackedDepthwise, Padding, Result};
use crate::{conv2d_layer, depthwise_layer, in_order, prelu_in_place};

/// Square convolution with torch's names `weight` (O, I, k, k), depthwise (O, 1, k, k), and `bias` (O), and the normalisation
/// of its outputs, if any.
///
/// If the parameters are constant, the first call without training prepares the weights for all later ones: it folds the
/// normalisation into them and, for f32 on the CPU, packs them.
#[derive(Clone, Debug)]
pub struct Conv2d {
    weight: Tensor,
    bias: Option<Tensor>,
    stride: usize,
    padding: Padding,
    depthwise: bool,
    /// Activation in the place of ReLU.
    rectifier: Activation,
    /// Slopes of PReLU (O), if PReLU is in the place of ReLU.
    slope: Option<Tensor>,
    norm: Option<BatchNorm>,
    prepared: Prepared<InferenceForm>,
}

/// Weights without training, with the normalisation folded in.
#[derive(Debug)]
enum InferenceForm {
    Packed(PackedConv2d),
    Depthwise(PackedDepthwise),
    Plain(Tensor, Option<Tensor>),
}

/// Geometry and initial values of a [`Conv2d`].
#[derive(Clone, Copy, Debug)]
pub struct Conv2dConfig {
    /// Number of input channels I.
    pub input: usize,
    /// Number of output channels O.
    pub output: usize,
    /// Height and width k of the kernel.
    pub kernel: usize,
    /// Step between two outputs.
    pub stride: usize,
    /// Zeros around a map.
    pub padding: Padding,
    /// Whether each channel has a filter of its own. Then I is O.
    pub depthwise: bool,
    /// Initial values of the weight.
    pub weight: Init,
    /// Initial values of the bias, if there is one.
    pub bias: Option<Init>,
}

impl Conv2dConfig {
    /// Returns stride 1 and the padding that keeps the size for an odd kernel, with torch's default initial values.
    pub fn same(input: usize, output: usize, kernel: usize) -> Self {
        Self {
            input,
            output,
            kernel,
            stride: 1,
            padding: Padding::Each(kernel / 2),
            depthwise: false,
            weight: default_weight(),
            bias: Some(default_bias(input * kernel * kernel)),
        }
    }

    /// Returns the settings of [`same`](Self::same) with a filter for each channel.
    pub fn depthwise(channels: usize, kernel: usize) -> Self {
        Self { input: channels, depthwise: true, ..Self::same(1, channels, kernel) }
    }
}

impl Conv2d {
    /// Makes a layer with the parameters `weight` and `bias` of `vb`.
    ///
    /// # Errors
    /// Returns an error if `vb` refuses a tensor.
    pub fn new(config: Conv2dConfig, vb: VarBuilder) -> Result<Self> {
        let Conv2dConfig { output, kernel, stride, padding, depthwise, .. } = config;
        let input = if depthwise { 1 } else { config.input };
        let weight = vb.get_with_hints((output, input, kernel, kernel), "weight", config.weight)?;
        let bias = config.bias.map(|init| vb.get_with_hints(output, "bias", init)).transpose()?;
        let (rectifier, slope, norm, prepared) = (Activation::Relu, None, None, Prepared::new());
        Ok(Self { weight, bias, stride, padding, depthwise, rectifier, slope, norm, prepared })
    }

    /// Makes a layer from `conv` of `vb`, without a bias, normalised by `norm` of `vb`.
    ///
    /// # Errors
    /// Returns an error if `vb` refuses a tensor.
    pub fn with_norm(
        config: Conv2dConfig,
        norm: BatchNormConfig,
        [conv, norm_name]: [&str; 2],
        vb: &VarBuilder,
    ) -> Result<Self> {
        let layer = Self::new(Conv2dConfig { bias: None, ..config }, vb.pp(conv))?;
        Ok(layer.normalised(BatchNorm::new(config.output, norm, vb.pp(norm_name))?))
    }

    /// Returns this layer with a normalisation of its outputs.
    #[must_use]
    pub fn normalised(self, norm: BatchNorm) -> Self {
        Self { norm: Some(norm), prepared: Prepared::new(), ..self }
    }

    /// Returns this layer with ReLU6, min(max(x, 0), 6), in the place of ReLU.
    #[must_use]
    pub fn relu6(self) -> Self {
        Self { rectifier: Activation::Relu6, ..self }
    }

    /// Returns this layer with PReLU in the place of ReLU. As in torch, the slopes, initially 1/4, are `weight` (O) of `vb`.
    ///
    /// # Errors
    /// Returns an error if `vb` refuses the tensor.
    pub fn prelu(self, vb: &VarBuilder) -> Result<Self> {
        let slope = vb.get_with_hints(self.weight.dim(0)?, "weight", Init::Const(0.25))?;
        Ok(Self { slope: Some(slope), ..self })
    }

    /// Computes (N, I, H, W) -> (N, O, (H + 2p − k)/s + 1, (W + 2p − k)/s + 1), divisions rounded down, plus `residual` of
    /// that shape. Normalisation is by the running statistics.
    ///
    /// # Errors
    /// Returns an error if `x` has another number of channels or is smaller than the kernel, or `residual` has another shape.
    pub fn forward(&self, x: &Tensor, residual: Option<&Tensor>) -> Result<Tensor> {
        let residual = residual.map(to_channels_last).transpose()?;
        of_channels_last(&self.forward_channels_last(
            &to_channels_last(x)?,
            residual.as_ref(),
            false,
            false,
        )?)
    }

    /// Computes (N, H, W, I) -> (N, …, O): the convolution, the normalisation, the sum with `residual` and, with `relu`, ReLU
    /// or the activation of [`relu6`](Self::relu6) or [`prelu`](Self::prelu). With `train`, normalisation that is not frozen
    /// uses and records the batch's statistics.
    ///
    /// # Errors
    /// The errors of [`forward`](Self::forward).
    pub fn forward_channels_last(
        &self,
        x: &Tensor,
        residual: Option<&Tensor>,
        relu: bool,
        train: bool,
    ) -> Result<Tensor> {
        let slope = self.slope.as_ref().filter(|_| relu);
        let activation = if relu && slope.is_none() { self.rectifier } else { Activation::None };
        if let Some(norm) = self.norm.as_ref().filter(|norm| norm.uses_batch(train)) {
            // The statistics change.
            self.prepared.forget();
            let y = self.convolved(x, &self.weight, self.bias.as_ref(), None, Activation::None)?;
            return norm.forward_fused(&y, NormEpilogue { residual, activation, slope }, true);
        }
        let y = self.by_statistics(x, residual, activation)?;
        match slope {
            Some(slope) => prelu_in_place(y, slope),
            None => Ok(y),
        }
    }

    /// Computes the layer without PReLU, normalised by the running statistics.
    fn by_statistics(&self, x: &Tensor, residual: Option<&Tensor>, activation: Activation) -> Result<Tensor> {
        let folded = || {
            let (weight, bias) = self.folded()?;
            self.convolved(x, &weight, bias.as_ref(), residual, activation)
        };
        if !self.is_constant([x].into_iter().chain(residual)) {
            return folded();
        }
        match &*self.inference_form()? {
            InferenceForm::Packed(packed) if is_packable(x) => {
                packed.forward(&self.padded(x)?.0, residual, activation)
            }
            InferenceForm::Depthwise(packed) if is_packable(x) && residual.is_none() => {
                packed.forward(x, activation)
            }
            InferenceForm::Plain(weight, bias) => {
                self.convolved(x, weight, bias.as_ref(), residual, activation)
            }
            _ => folded(),
        }
    }

    /// Returns the weight (O, I, k, k), depthwise (O, 1, k, k).
    pub fn weight(&self) -> &Tensor {
        &self.weight
    }

    /// Computes the convolution with these parameters, the residual and the activation.
    fn convolved(
        &self,
        x: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        residual: Option<&Tensor>,
        activation: Activation,
    ) -> Result<Tensor> {
        if !self.depthwise {
            let (x, zeros) = self.padded(x)?;
            return conv2d_layer(&x, weight, bias, self.stride, zeros, residual, activation);
        }
        let layer = |activation| depthwise_layer(x, weight, bias, self.stride, self.padding, activation);
        if residual.is_none() {
            return layer(activation);
        }
        activation.apply(&layer(Activation::None)?, residual)
    }

    /// Returns the map (N, H, W, I) with the zeros of [`Padding::Same`] written out, and the zeros that remain to be added on
    /// each side.
    fn padded(&self, x: &Tensor) -> Result<(Tensor, usize)> {
        if let Padding::Each(zeros) = self.padding {
            return Ok((x.clone(), zeros));
        }
        let (mut padded, kernel) = (x.clone(), self.weight.dim(3)?);
        for axis in [1, 2] {
            let size = x.dim(axis)?;
            if let Some((before, outputs)) = self.padding.along(size, kernel, self.stride) {
                let reach = (outputs - 1) * self.stride + kernel;
                padded = padded.pad_with_zeros(axis, before, reach.saturating_sub(before + size))?;
            }
        }
        Ok((padded, 0))
    }

    /// Returns the step between two outputs.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Returns the zeros around a map.
    pub fn padding(&self) -> Padding {
        self.padding
    }

    /// Returns the slopes of PReLU (O), if it is in the place of ReLU.
    pub fn slope(&self) -> Option<&Tensor> {
        self.slope.as_ref()
    }

    /// Returns `true` if each channel has a filter of its own.
    pub fn is_depthwise(&self) -> bool {
        self.depthwise
    }

    /// Returns `true` if the layer cannot change: its parameters are constant, and normalisation is by the running
    /// statistics.
    pub(crate) fn is_fixed(&self, train: bool) -> bool {
        !self.norm.as_ref().is_some_and(|norm| norm.uses_batch(train)) && self.is_constant([].into_iter())
    }

    /// Returns `true` if the layer only joins the channels of each pixel.
    pub(crate) fn is_pointwise(&self) -> bool {
        let is_point = matches!(self.weight.dims(), [.., 1, 1]) && !self.depthwise;
        is_point && self.stride == 1 && matches!(self.padding, Padding::Same | Padding::Each(0))
    }

    /// Returns ReLU or ReLU6, or `None` if PReLU is in their place.
    pub fn rectifier(&self) -> Option<Activation> {
        self.slope.is_none().then_some(self.rectifier)
    }

    /// Returns stride, padding and activation of a depthwise convolution [without PReLU](Self::rectifier).
    pub(crate) fn depthwise_settings(&self) -> Option<(usize, Padding, Activation)> {
        let rectifier = self.rectifier().filter(|_| self.depthwise)?;
        Some((self.stride, self.padding, rectifier))
    }

    /// Returns `true` if neither the parameters nor these arguments depend on a variable.
    fn is_constant<'a>(&'a self, arguments: impl Iterator<Item = &'a Tensor>) -> bool {
        are_constant(self.parameters().chain(arguments))
    }

    /// Returns the parameters that are trained.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &Tensor> {
        let of_norm = self.norm.iter().flat_map(BatchNorm::parameters);
        [&self.weight].into_iter().chain(&self.bias).chain(&self.slope).chain(of_norm)
    }

    fn inference_form(&self) -> Result<Arc<InferenceForm>> {
        self.prepared.get(|| {
            let (weight, bias) = self.folded()?;
            if is_packable(&weight) {
                let (bias, padding) = (bias.as_ref(), self.padding);
                return Ok(match padding {
                    _ if self.depthwise => {
                        InferenceForm::Depthwise(PackedDepthwise::new(&weight, bias, self.stride, padding)?)
                    }
                    Padding::Each(zeros) => {
                        InferenceForm::Packed(PackedConv2d::new(&weight, bias, self.stride, zeros)?)
                    }
                    Padding::Same => InferenceForm::Packed(PackedConv2d::new(&weight, bias, self.stride, 0)?),
                });
            }
            let weight = if self.depthwise { weight } else { in_order(&weight)? };
            Ok(InferenceForm::Plain(weight.detach(), bias.map(|bias| bias.detach())))
        })
    }

    /// Returns weight and bias with the affine map of the running statistics folded in. They are smaller than the maps.
    ///
    /// # Errors
    /// Returns an error if a tensor operation fails.
    pub fn folded(&self) -> Result<(Tensor, Option<Tensor>)> {
        let Some(norm) = &self.norm else { return Ok((self.weight.clone(), self.bias.clone())) };
        let (scale, shift) = norm.affine()?;
        let bias = match &self.bias {
            Some(bias) => ((bias * &scale)? + shift)?,
            None => shift,
        };
        Ok((self.weight.broadcast_mul(&scale.reshape(((), 1, 1, 1))?)?, Some(bias)))
    }
}
