//! A 3 × 3 convolution.

use anyhow::Result;
use candle_core::Tensor;
use ebm_nn::init;
use ebm_nn::ops::{ChannelsLast, PackedConv2d, Workspace, conv2d};

use super::{Place, Run};

const STRIDE: usize = 1;
const PADDING: usize = 1;

/// One map (1, C, H, W), the weight (C, C, 3, 3) and the bias (C).
fn tensors(place: &Place<'_>, channels: usize, (height, width): (usize, usize)) -> Result<[Tensor; 3]> {
    let vb = place.var_builder();
    Ok([
        vb.get_with_hints((1, channels, height, width), "x", init::normal(1.0))?,
        vb.get_with_hints((channels, channels, 3, 3), "weight", init::default_weight())?,
        vb.get_with_hints(channels, "bias", init::default_bias(9 * channels))?,
    ])
}

/// Inference between layers: the map comes and goes with the channels innermost.
pub fn forward(place: &Place<'_>, channels: usize, size: (usize, usize)) -> Result<Run> {
    place.freeze();
    let [x, weight, bias] = tensors(place, channels, size)?;
    if !place.packs() {
        return Ok(Box::new(move || Ok(Box::new(conv2d(&x, &weight, Some(&bias), STRIDE, PADDING)?))));
    }
    let conv = PackedConv2d::new(&weight, Some(&bias), STRIDE, PADDING)?;
    let x = ChannelsLast::from_channels_first(&x.flatten_all()?.to_vec1::<f32>()?, x.dims4()?)?;
    let workspace = Workspace::new();
    Ok(Box::new(move || {
        workspace.recycle(conv.forward(&x, None, false, &workspace)?);
        Ok(Box::new(()))
    }))
}

/// The gradients in map, weight and bias, from ones.
pub fn backward(place: &Place<'_>, channels: usize, size: (usize, usize)) -> Result<Run> {
    let [x, weight, bias] = tensors(place, channels, size)?;
    Ok(Box::new(move || Ok(Box::new(conv2d(&x, &weight, Some(&bias), STRIDE, PADDING)?.backward()?))))
}
