//! Inference of a ResNet-50 with its pyramid.

use anyhow::Result;
use ebm_nn::fpn::{Fpn, PackedBackbone};
use ebm_nn::params::ParamStore;
use ebm_nn::resnet::{Norm, ResNet};

use super::resnet::{config, images};
use super::{DEVICE, DTYPE, Run};

/// Its five levels.
pub fn prepare(store: &ParamStore, channels: usize, size: (usize, usize, usize)) -> Result<Run> {
    // Parameters outside the graph: inference.
    store.freeze(|_| true);
    let vb = store.var_builder(DTYPE, &DEVICE);
    let config = config(50, Norm::Frozen { eps: 1e-5 })?;
    let fpn = Fpn::new(&config.channels(), channels, vb.pp("fpn"))?;
    let packed = PackedBackbone::new(&ResNet::new(&config, vb)?, &fpn)?;
    let x = images(store, size)?;
    Ok(Box::new(move || Ok(Box::new(packed.forward(&x)?))))
}
