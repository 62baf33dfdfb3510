//! A training step of a ResNet without the optimiser.

use anyhow::Result;
use ebm_nn::params::ParamStore;
use ebm_nn::resnet::{Norm, ResNet};

use super::resnet::{config, images};
use super::{DEVICE, DTYPE, Run};

/// The gradients of the mean of C5² in all parameters.
pub fn prepare(store: &ParamStore, depth: usize, size: (usize, usize, usize)) -> Result<Run> {
    let x = images(store, size)?;
    let net = ResNet::new(&config(depth, Norm::Train)?, store.var_builder(DTYPE, &DEVICE))?;
    Ok(Box::new(move || {
        let [.., last] = net.forward(&x, true)?;
        Ok(Box::new(last.sqr()?.mean_all()?.backward()?))
    }))
}
