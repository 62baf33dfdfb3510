//! Inference of a ResNet-50 with its pyramid.

use anyhow::Result;
use ebm_nn::fpn::Fpn;
use ebm_nn::params::ParamStore;

use super::resnet::{images, packed};
use super::{DEVICE, DTYPE, Run};

/// The channels of C2 to C5.
const CHANNELS: [usize; 4] = [256, 512, 1024, 2048];

/// Its five levels.
pub fn prepare(store: &ParamStore, channels: usize, size: (usize, usize, usize)) -> Result<Run> {
    // Parameters outside the graph: inference.
    store.freeze(|_| true);
    let (body, x) = (packed(store, 50)?, images(store, size)?);
    let fpn = Fpn::new(&CHANNELS, channels, store.var_builder(DTYPE, &DEVICE).pp("fpn"))?;
    Ok(Box::new(move || Ok(Box::new(fpn.forward(&body.forward_stages(&x, 4)?)?))))
}
