//! What a refiner sees of an image: the maps of a network that was trained on ImageNet.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{Device, Tensor};
use candle_nn::VarBuilder;
use ebm_nn::resnet::ResNet;

use crate::{config::RefinerNetworkConfig, error::Result, weights};

/// The names of its parameters begin so, as those of a detector's.
const PREFIX: &str = "backbone.body.";

/// A body, of any [`BodyKind`].
pub struct Body {
    network: ResNet,
    /// Stages that are computed, and those of them that the pyramid takes.
    stages: usize,
    taken: usize,
}

impl Body {
    /// The body whose parameters are those of `vb`, no larger than the pyramid's strides need.
    pub fn new(config: &RefinerNetworkConfig, vb: &VarBuilder) -> Result<Self> {
        let (stages, taken) = (stages(config), config.strides.len());
        let network = ResNet::new(&config.resnet().up_to(stages), vb.pp(PREFIX.trim_end_matches('.')))?;
        Ok(Self { network, stages, taken })
    }

    /// `(N, 3, H, W)` → its maps of the configured strides, finest first, with the channels innermost:
    /// `(N, H/stride, W/stride, C)`.
    pub fn maps(&self, pixels: &Tensor) -> Result<Vec<Tensor>> {
        let mut maps = self.network.forward_channels_last(pixels, self.stages, false)?;
        Ok(maps.split_off(self.stages - self.taken))
    }
}

/// Stages up to the coarsest stride.
fn stages(config: &RefinerNetworkConfig) -> usize {
    config.strides.last().map_or(1, |stride| stride.ilog2() as usize - 1)
}

/// Channels of the maps that the pyramid takes.
pub fn channels(config: &RefinerNetworkConfig) -> Vec<usize> {
    let taken = stages(config) - config.strides.len()..stages(config);
    config.resnet().channels()[taken].to_vec()
}

/// Whether the parameter of this name is a body's.
pub(crate) fn is_of_body(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Whether the parameter of this name is the body's and not among the last `trained` stages of it, of which
/// the stem counts as one.
pub fn is_frozen(config: &RefinerNetworkConfig, trained: usize, name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|name| stage(name) + trained <= stages(config))
}

/// The stage of a ResNet's parameter; the stem is 0.
fn stage(name: &str) -> usize {
    name.strip_prefix("layer").and_then(|rest| rest.split('.').next()?.parse().ok()).unwrap_or(0)
}

/// The file's tensors that are `config`'s body's, by the names that they have here: of a ResNet with
/// torchvision's names, of which no more stages are taken than the pyramid needs.
pub fn read(config: &RefinerNetworkConfig, path: &Path, device: &Device) -> Result<BTreeMap<String, Tensor>> {
    let wanted = |name: &str| !name.starts_with("fc.") && stage(name) <= stages(config);
    let tensors = weights::read(path, device)?.into_iter().filter(|(name, _)| wanted(name));
    Ok(tensors.map(|(name, tensor)| (format!("{PREFIX}{name}"), tensor)).collect())
}
