//! A convolution, with batch normalisation behind it or without.

use std::sync::Arc;

use candle_core::Tensor;
use candle_nn::{Init, VarBuilder};

use crate::norm::BatchNorm;
use crate::ops::PackedConv2d;
use crate::prepared::{Prepared, are_constant, is_packable};
use crate::{Result, init, ops};

/// A square convolution with torch's names `weight` (O, I, k, k) and `bias` (O), and the normalisation of its
/// outputs, if any.
///
/// Of constant parameters it keeps what it makes of them when it is first used without training: the weights
/// with the normalisation's factors, on the CPU in f32 in the order in which the processor reads them.
#[derive(Clone, Debug)]
pub struct Conv2d {
    weight: Tensor,
    bias: Option<Tensor>,
    stride: usize,
    padding: usize,
    norm: Option<BatchNorm>,
    prepared: Prepared<Form>,
}

/// The layer without training: what the normalisation multiplies and adds is in its weights.
#[derive(Debug)]
enum Form {
    Packed(PackedConv2d),
    Plain(Tensor, Option<Tensor>),
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
        Ok(Self { weight, bias, stride, padding, norm: None, prepared: Prepared::new() })
    }

    /// The same with a normalisation of its outputs.
    #[must_use]
    pub fn normalised(self, norm: BatchNorm) -> Self {
        Self { norm: Some(norm), prepared: Prepared::new(), ..self }
    }

    /// (N, I, H, W) -> (N, O, (H + 2p − k)/s + 1, (W + 2p − k)/s + 1), divisions rounded down, plus
    /// `residual` of that shape. Normalisation is by the running statistics.
    ///
    /// # Errors
    /// When `x` has another number of channels or is smaller than the kernel, or `residual` has another
    /// shape.
    pub fn forward(&self, x: &Tensor, residual: Option<&Tensor>) -> Result<Tensor> {
        if self.is_constant([x].into_iter().chain(residual)) && is_packable(x) {
            let residual = residual.map(ops::to_channels_last).transpose()?;
            let y =
                self.forward_channels_last(&ops::to_channels_last(x)?, residual.as_ref(), false, false)?;
            return Ok(y.permute((0, 3, 1, 2))?);
        }
        let (weight, bias) = self.folded()?;
        let y = ops::conv2d(x, &weight, bias.as_ref(), self.stride, self.padding)?;
        Ok(match residual {
            Some(residual) => (y + residual)?,
            None => y,
        })
    }

    /// (N, H, W, I) -> (N, …, O): the convolution, normalised, with `residual` added, and with `relu` cut off
    /// at 0. With `train`, normalisation that is not frozen uses and records the batch's statistics.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn forward_channels_last(
        &self,
        x: &Tensor,
        residual: Option<&Tensor>,
        relu: bool,
        train: bool,
    ) -> Result<Tensor> {
        let Self { stride, padding, .. } = *self;
        if let Some(norm) = self.norm.as_ref().filter(|norm| norm.uses_batch(train)) {
            // The statistics move.
            self.prepared.forget();
            let y = ops::conv2d_channels_last(x, &self.weight, self.bias.as_ref(), stride, padding)?;
            return norm.forward_channels_last(&y, residual, relu, true);
        }
        let plain = |weight: &Tensor, bias: Option<&Tensor>| {
            ops::conv2d_layer(x, (weight, bias), (stride, padding), residual, relu)
        };
        if !self.is_constant([x].into_iter().chain(residual)) {
            let (weight, bias) = self.folded()?;
            return plain(&weight, bias.as_ref());
        }
        match &*self.form()? {
            Form::Packed(packed) if is_packable(x) => packed.forward(x, residual, relu),
            Form::Packed(_) => {
                let (weight, bias) = self.folded()?;
                plain(&weight, bias.as_ref())
            }
            Form::Plain(weight, bias) => plain(weight, bias.as_ref()),
        }
    }

    /// (O, I, k, k).
    #[must_use]
    pub fn weight(&self) -> &Tensor {
        &self.weight
    }

    /// Whether neither the parameters nor these arguments depend on a variable.
    fn is_constant<'a>(&'a self, arguments: impl Iterator<Item = &'a Tensor>) -> bool {
        are_constant(self.parameters().chain(arguments))
    }

    /// Those that are trained.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &Tensor> {
        let of_norm = self.norm.iter().flat_map(BatchNorm::parameters);
        [&self.weight].into_iter().chain(&self.bias).chain(of_norm)
    }

    fn form(&self) -> Result<Arc<Form>> {
        self.prepared.get(|| {
            let (weight, bias) = self.folded()?;
            if is_packable(&weight) {
                return Ok(Form::Packed(PackedConv2d::new(
                    &weight,
                    bias.as_ref(),
                    self.stride,
                    self.padding,
                )?));
            }
            Ok(Form::Plain(weight.detach(), bias.map(|bias| bias.detach())))
        })
    }

    /// Weight and bias with the affine map of the normalisation's running statistics in them: they are
    /// smaller than the maps it would run over.
    fn folded(&self) -> Result<(Tensor, Option<Tensor>)> {
        let Some(norm) = &self.norm else { return Ok((self.weight.clone(), self.bias.clone())) };
        let (scale, shift) = norm.affine()?;
        let bias = match &self.bias {
            Some(bias) => ((bias * &scale)? + shift)?,
            None => shift,
        };
        Ok((self.weight.broadcast_mul(&scale.reshape(((), 1, 1, 1))?)?, Some(bias)))
    }
}
