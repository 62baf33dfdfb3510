//! Inference of a ResNet-50 with its pyramid.

use anyhow::Result;
use ebm_nn::fpn::Fpn;
use ebm_nn::resnet::{Norm, ResNet};

use super::resnet::{config, images};
use super::{Place, Run};
use crate::work::Images;

/// Prepares the inference of its five levels.
pub fn prepare(place: &Place<'_>, channels: usize, sizes: Images) -> Result<Run> {
    // Inference: parameters stay out of the graph.
    place.freeze();
    let vb = place.var_builder();
    let config = config(50, Norm::Frozen { eps: 1e-5 })?;
    let fpn = Fpn::new(&config.channels(), channels, vb.pp("fpn"))?;
    let (body, x) = (ResNet::new(&config, vb)?, images(place, sizes)?);
    Ok(Box::new(move || Ok(Box::new(fpn.forward(&body.forward(&x, false)?)?))))
}
