//! A training step of a ResNet without the optimiser.

use anyhow::Result;
use ebm_nn::ops;
use ebm_nn::resnet::{Norm, ResNet};

use super::resnet::{config, images};
use super::{Place, Run};
use crate::work::Images;

/// The gradients of the mean of C5² in all parameters.
pub fn prepare(place: &Place<'_>, depth: usize, sizes: Images) -> Result<Run> {
    let x = images(place, sizes)?;
    let net = ResNet::new(&config(depth, Norm::Train)?, place.var_builder())?;
    Ok(Box::new(move || {
        let [.., last] = net.forward(&x, true)?;
        Ok(Box::new(ops::backward(&last.sqr()?.mean_all()?)?))
    }))
}
