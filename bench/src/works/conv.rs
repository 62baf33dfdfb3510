//! 3 × 3 convolution.

use anyhow::Result;
use candle_core::Tensor;
use ebm_nn::init;
use ebm_ops::conv2d;
use ebm_ops::nhwc::channels_last;
use ebm_ops::nn::{Conv2d, Conv2dConfig};

use super::{Place, Run};
use crate::work::Size;

const STRIDE: usize = 1;
const PADDING: usize = 1;

/// Returns one map `(1, C, H, W)`, the weight `(C, C, 3, 3)` and the bias `(C)`.
fn tensors(place: &Place<'_>, channels: usize, size: Size) -> Result<[Tensor; 3]> {
    let vb = place.var_builder();
    Ok([
        vb.get_with_hints((1, channels, size.height, size.width), "x", init::normal(1.0))?,
        vb.get_with_hints((channels, channels, 3, 3), "weight", init::default_weight())?,
        vb.get_with_hints(channels, "bias", init::default_bias(9 * channels))?,
    ])
}

/// Prepares the inference of a layer inside a network: input and output have their channels innermost.
pub fn forward(place: &Place<'_>, channels: usize, size: Size) -> Result<Run> {
    place.freeze();
    let [x, ..] = tensors(place, channels, size)?;
    let config = Conv2dConfig {
        weight: init::default_weight(),
        bias: Some(init::default_bias(9 * channels)),
        ..Conv2dConfig::same(channels, channels, 3)
    };
    let conv = Conv2d::new(config, place.var_builder())?;
    let x = channels_last(&x)?;
    Ok(Box::new(move || Ok(Box::new(conv.forward(&x, None)?))))
}

/// Prepares the gradients of the output's sum in map, weight and bias.
pub fn backward(place: &Place<'_>, channels: usize, size: Size) -> Result<Run> {
    let [x, weight, bias] = tensors(place, channels, size)?;
    Ok(Box::new(move || Ok(Box::new(conv2d(&x, &weight, Some(&bias), STRIDE, PADDING)?.backward()?))))
}
