//! Inference of a ResNet.

use anyhow::{Result, bail};
use candle_core::Tensor;
use ebm_nn::init;
use ebm_nn::resnet::{Norm, ResNet, ResNetConfig};

use super::{Place, Run};
use crate::work::{Images, Size};

/// Prepares the inference of its four maps.
pub fn prepare(place: &Place<'_>, depth: usize, sizes: Images) -> Result<Run> {
    place.freeze();
    let net = ResNet::new(&config(depth, Norm::Frozen { eps: 1e-5 })?, place.var_builder())?;
    let x = images(place, sizes)?;
    Ok(Box::new(move || Ok(Box::new(net.forward(&x, false)?))))
}

/// Returns the configuration of torchvision's network of this depth.
pub fn config(depth: usize, norm: Norm) -> Result<ResNetConfig> {
    match depth {
        18 => Ok(ResNetConfig::resnet18(norm)),
        50 => Ok(ResNetConfig::resnet50(norm)),
        _ => bail!("there is no work with a ResNet-{depth}"),
    }
}

/// Returns a batch of noise `(N, 3, H, W)`.
pub fn images(place: &Place<'_>, sizes: Images) -> Result<Tensor> {
    let Images { batch, size: Size { height, width } } = sizes;
    let vb = place.var_builder();
    Ok(vb.get_with_hints((batch, 3, height, width), "images", init::normal(1.0))?.detach())
}
