//! Inference of a ResNet.

use anyhow::{Result, bail};
use candle_core::Tensor;
use ebm_nn::init;
use ebm_nn::params::ParamStore;
use ebm_nn::resnet::{Norm, PackedResNet, ResNet, ResNetConfig};

use super::{DEVICE, DTYPE, Run};

/// Its four maps.
pub fn prepare(store: &ParamStore, depth: usize, size: (usize, usize, usize)) -> Result<Run> {
    let (net, x) = (packed(store, depth)?, images(store, size)?);
    Ok(Box::new(move || Ok(Box::new(net.forward_stages(&x, 4)?))))
}

/// A network as it is for inference: normalisation folded, weights packed.
pub fn packed(store: &ParamStore, depth: usize) -> Result<PackedResNet> {
    let net = ResNet::new(&config(depth, Norm::Frozen { eps: 1e-5 })?, store.var_builder(DTYPE, &DEVICE))?;
    Ok(net.pack()?)
}

/// torchvision's network of this depth.
pub fn config(depth: usize, norm: Norm) -> Result<ResNetConfig> {
    match depth {
        18 => Ok(ResNetConfig::resnet18(norm)),
        50 => Ok(ResNetConfig::resnet50(norm)),
        _ => bail!("there is no work with a ResNet-{depth}"),
    }
}

/// A batch of noise, (N, 3, H, W).
pub fn images(store: &ParamStore, (batch, height, width): (usize, usize, usize)) -> Result<Tensor> {
    let vb = store.var_builder(DTYPE, &DEVICE);
    Ok(vb.get_with_hints((batch, 3, height, width), "images", init::normal(1.0))?.detach())
}
