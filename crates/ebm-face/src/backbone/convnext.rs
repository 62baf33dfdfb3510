//! ConvNeXt (Liu et al., 2022; version 2: Woo et al., 2023).

use candle_core::{D, Tensor};
use candle_nn::{Func, Init, Module, VarBuilder};
use candle_transformers::models::convnext::{Config, convnext_no_final_layer};

use super::parameters::{Answer, filter};
use super::transformers::{ConvNeXtConfig, ConvNeXtSize, ConvNeXtVersion};
use super::{Backbone, ImageSize};
use crate::Result;

/// Returns the sizes of a published network.
fn published(size: ConvNeXtSize) -> Config {
    match size {
        ConvNeXtSize::Atto => Config::atto(),
        ConvNeXtSize::Femto => Config::femto(),
        ConvNeXtSize::Pico => Config::pico(),
        ConvNeXtSize::Nano => Config::nano(),
        ConvNeXtSize::Tiny => Config::tiny(),
        ConvNeXtSize::Small => Config::small(),
        ConvNeXtSize::Base => Config::base(),
        ConvNeXtSize::Large => Config::large(),
        ConvNeXtSize::XLarge => Config::xlarge(),
        ConvNeXtSize::Huge => Config::huge(),
    }
}

/// ConvNeXt without its last layer: g_x is the mean of the last map, normalised. timm's parameter names.
///
/// Its parameters and images get their gradients. The model normalises permuted maps, and candle
/// differentiates the layer normalisation of a tensor that is not contiguous; a map of one pixel is
/// contiguous in every order, hence the smallest image. candle does not differentiate a strided convolution
/// of a map with an odd and an even side, hence the multiples. Its convolutions by channel run one after the
/// other: slow on the CPU for its size.
#[derive(Clone, Debug)]
pub struct ConvNeXt {
    body: Func<'static>,
    /// Weight and bias of the last normalisation.
    norm: (Tensor, Tensor),
    num_features: usize,
}

/// The last map's sides are 1/32 of an image's.
const IMAGES: ImageSize = ImageSize { multiple: 32, smallest: 64 };

/// Of timm's layer normalisation.
const EPSILON: f64 = 1e-6;

impl ConvNeXt {
    /// The network whose parameters are those of `vb`, directly under it: `stem`, `stages.{0..3}` and
    /// `head.norm`.
    ///
    /// # Errors
    /// When `vb` refuses a tensor.
    pub fn new(config: &ConvNeXtConfig, vb: VarBuilder) -> Result<Self> {
        let (version, num_features) = (config.version, config.num_features());
        let answer = move |name: &str| answer(version, name);
        let body = convnext_no_final_layer(&published(config.size), filter(vb.clone(), answer))?;
        let norm = |name, value| vb.pp("head.norm").get_with_hints(num_features, name, Init::Const(value));
        Ok(Self { body, norm: (norm("weight", 1.0)?, norm("bias", 0.0)?), num_features })
    }
}

/// The model asks for both versions' parameters and uses what it gets. Initial values are the papers', where
/// candle's 0 would silence the blocks.
fn answer(version: ConvNeXtVersion, name: &str) -> Answer {
    let response_norm = name.contains(".grn.");
    let factor = name.ends_with(".gamma");
    match version {
        ConvNeXtVersion::V1 if response_norm => Answer::Nothing,
        ConvNeXtVersion::V2 if factor => Answer::Nothing,
        _ if factor => Answer::Drawn(Init::Const(1e-6)),
        _ => Answer::Parameter,
    }
}

impl Backbone for ConvNeXt {
    fn features(&self, images: &Tensor, _train: bool) -> Result<Tensor> {
        IMAGES.check(images)?;
        let x = self.body.forward(images)?;
        let x = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
        let variance = x.sqr()?.mean_keepdim(D::Minus1)?;
        let x = x.broadcast_div(&(variance + EPSILON)?.sqrt()?)?;
        Ok(x.broadcast_mul(&self.norm.0)?.broadcast_add(&self.norm.1)?)
    }

    fn num_features(&self) -> usize {
        self.num_features
    }

    fn images(&self) -> ImageSize {
        IMAGES
    }
}
