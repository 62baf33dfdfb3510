//! Training step of a network, without the optimiser.

use anyhow::Result;
use ebm_nn::mobilefacenet::MobileFaceNet;
use ebm_nn::resnet::{Norm, ResNet};

use super::resnet::{config, images};
use super::{Place, Run};
use crate::work::Images;

/// Prepares the gradients of the mean of C5² in all parameters of a ResNet.
pub fn resnet(place: &Place<'_>, depth: usize, sizes: Images) -> Result<Run> {
    let x = images(place, sizes)?;
    let net = ResNet::new(&config(depth, Norm::Train)?, place.var_builder())?;
    Ok(Box::new(move || {
        let [.., last] = net.forward(&x, true)?;
        Ok(Box::new(ebm_ops::backward(&last.sqr()?.mean_all()?)?))
    }))
}

/// Prepares the gradients of the mean of the last map squared in all parameters of a MobileFaceNet.
pub fn mobilefacenet(place: &Place<'_>, sizes: Images) -> Result<Run> {
    let x = ebm_ops::nhwc::from_nchw(&images(place, sizes)?)?;
    let net = MobileFaceNet::new(MobileFaceNet::NORM, &place.var_builder())?;
    Ok(Box::new(move || {
        let last = net.forward_channels_last(&x, 0..MobileFaceNet::BLOCKS, true)?;
        Ok(Box::new(ebm_ops::backward(&last.sqr()?.mean_all()?)?))
    }))
}
