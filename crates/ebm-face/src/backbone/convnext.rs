//! ConvNeXt (Liu et al., 2022).

use candle_core::{D, DType, Device, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Func, Init, Module, VarBuilder};
use candle_transformers::models::convnext::{Config, convnext_no_final_layer};

use super::{Backbone, ConvNeXtConfig, ConvNeXtSize, check_images};
use crate::Result;

/// Returns the sizes of a published network and the channels of its last stage.
fn published(size: ConvNeXtSize) -> (Config, usize) {
    match size {
        ConvNeXtSize::Atto => (Config::atto(), 320),
        ConvNeXtSize::Tiny => (Config::tiny(), 768),
        ConvNeXtSize::Small => (Config::small(), 768),
        ConvNeXtSize::Base => (Config::base(), 1024),
        ConvNeXtSize::Large => (Config::large(), 1536),
    }
}

/// ConvNeXt without its last layer, with timm's parameter names. g_x is the normalised mean of the last map.
///
/// Parameters and images receive gradients. candle differentiates layer normalisation only on tensors that are not
/// contiguous. The model normalises permuted maps, which are contiguous only if they have one pixel, so images have a
/// minimum side. candle does not differentiate a strided convolution of a map with an odd and an even side, so sides
/// are multiples of 32. Depthwise convolutions run one after the other, which is slow on the CPU.
#[derive(Clone, Debug)]
pub struct ConvNeXt {
    body: Func<'static>,
    /// Weight and bias of the last layer normalisation.
    norm: (Tensor, Tensor),
    num_features: usize,
}

/// Epsilon of timm's layer normalisation.
const EPSILON: f64 = 1e-6;

impl ConvNeXt {
    /// Builds the network with the parameters of `vb`: `stem`, `stages.{0..3}` and `head.norm`.
    ///
    /// # Errors
    /// When `vb` refuses a tensor.
    pub fn new(config: &ConvNeXtConfig, vb: VarBuilder) -> Result<Self> {
        let (sizes, num_features) = published(config.size);
        let parameters = Parameters(vb.clone());
        let parameters = VarBuilder::from_backend(Box::new(parameters), vb.dtype(), vb.device().clone());
        let body = convnext_no_final_layer(&sizes, parameters)?;
        let norm = |name, value| vb.pp("head.norm").get_with_hints(num_features, name, Init::Const(value));
        Ok(Self { body, norm: (norm("weight", 1.0)?, norm("bias", 0.0)?), num_features })
    }
}

impl Backbone for ConvNeXt {
    /// Computes g_x. Sides of images are multiples of 32 and at least 64; the last map has 1/32 of each side.
    fn features(&self, images: &Tensor, _train: bool) -> Result<Tensor> {
        check_images(images, 32, 64)?;
        let x = self.body.forward(images)?;
        let x = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
        let variance = x.sqr()?.mean_keepdim(D::Minus1)?;
        let x = x.broadcast_div(&(variance + EPSILON)?.sqrt()?)?;
        Ok(x.broadcast_mul(&self.norm.0)?.broadcast_add(&self.norm.1)?)
    }

    fn num_features(&self) -> usize {
        self.num_features
    }
}

/// Parameters of the first published version. candle's model asks for the parameters of both versions and uses those
/// that it finds. The factors of the blocks start at the paper's 1e-6; candle's 0 would silence the blocks.
struct Parameters<'a>(VarBuilder<'a>);

impl SimpleBackend for Parameters<'_> {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        hint: Init,
        dtype: DType,
        _: &Device,
    ) -> candle_core::Result<Tensor> {
        if name.contains(".grn.") {
            return Err(candle_core::Error::CannotFindTensor { path: name.to_owned() });
        }
        let init = if name.ends_with(".gamma") { Init::Const(1e-6) } else { hint };
        self.0.get_with_hints_dtype(shape, name, init, dtype)
    }

    fn get_unchecked(&self, name: &str, dtype: DType, _: &Device) -> candle_core::Result<Tensor> {
        self.0.get_unchecked_dtype(name, dtype)
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.0.contains_tensor(name)
    }
}
