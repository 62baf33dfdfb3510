//! A sequence of convolutions.

use std::sync::Arc;

use candle_core::Tensor;

use super::Conv2d;
use super::prepared::{Prepared, is_packable};
use crate::{PackedInverted, Parameters, Result, Workspace};

/// Sequence of convolutions, each followed by its ReLU. In an inverted residual (Sandler et al., 2018) the last layer has no
/// ReLU, and the input is added to its result if the shapes are the same.
#[derive(Clone, Debug)]
pub struct Chain {
    layers: Vec<Conv2d>,
    linear: bool,
    residual: bool,
    /// All layers in one pass, if they are an inverted residual that has such a kernel.
    prepared: Prepared<Option<PackedInverted>>,
}

impl Chain {
    /// Makes a sequence of layers that all have their ReLU.
    #[must_use]
    pub fn plain(layers: Vec<Conv2d>) -> Self {
        Self { layers, linear: false, residual: false, prepared: Prepared::new() }
    }

    /// Makes an inverted residual of expansion, depthwise convolution and projection. With `residual`, the input is added.
    #[must_use]
    pub fn inverted(layers: Vec<Conv2d>, residual: bool) -> Self {
        Self { layers, linear: true, residual, prepared: Prepared::new() }
    }

    /// Computes (N, H, W, C) -> (N, …, channels).
    ///
    /// # Errors
    /// Returns an error if `x` has another number of channels or is smaller than a kernel.
    pub fn forward(&self, x: &Tensor, train: bool) -> Result<Tensor> {
        if let Some(packed) = self.packed(x, train)?.as_deref().and_then(Option::as_ref) {
            return packed.forward(x, self.residual);
        }
        let mut y = x.clone();
        let mut inner = Vec::with_capacity(self.layers.len());
        for (layer, relu, residual) in self.layers() {
            y = layer.forward_channels_last(&y, residual.then_some(x), relu, train)?;
            inner.push(y.clone());
        }
        // The last map is the result.
        inner.pop();
        inner.into_iter().for_each(|map| Workspace::shared().recycle_input(map, &y));
        Ok(y)
    }

    /// Returns each layer, whether its ReLU follows, and whether the input is added to its result.
    pub fn layers(&self) -> impl Iterator<Item = (&Conv2d, bool, bool)> {
        let last = self.layers.len().saturating_sub(1);
        let place = move |(i, layer)| (layer, i < last || !self.linear, self.residual && i == last);
        self.layers.iter().enumerate().map(place)
    }

    /// Returns all layers in one pass for this input, or `None` if a gradient may be wanted or statistics change.
    fn packed(&self, x: &Tensor, train: bool) -> Result<Option<Arc<Option<PackedInverted>>>> {
        if !self.linear || !is_packable(x) || x.track_op() {
            return Ok(None);
        }
        if !self.layers.iter().all(|layer| layer.is_fixed(train)) {
            self.prepared.forget();
            return Ok(None);
        }
        self.prepared.get(|| self.as_one()).map(Some)
    }

    fn as_one(&self) -> Result<Option<PackedInverted>> {
        let (expand, depthwise, project) = match self.layers.as_slice() {
            [expand, depthwise, project] => (Some(expand), depthwise, project),
            [depthwise, project] => (None, depthwise, project),
            _ => return Ok(None),
        };
        let Some((stride, padding, activation)) = depthwise.depthwise_settings() else { return Ok(None) };
        let pointwise = expand.into_iter().chain([project]).all(Conv2d::is_pointwise);
        let kernel = depthwise.weight().dim(3)?;
        let rectified = expand.is_none_or(|expand| expand.rectifier() == Some(activation));
        if !pointwise || !rectified || !PackedInverted::serves(kernel, stride) {
            return Ok(None);
        }
        let [depthwise, project] = [depthwise.folded()?, project.folded()?];
        let expand = expand.map(Conv2d::folded).transpose()?;
        PackedInverted::new(
            expand.as_ref().map(|(weight, bias)| Parameters { weight, bias: bias.as_ref() }),
            Parameters { weight: &depthwise.0, bias: depthwise.1.as_ref() },
            Parameters { weight: &project.0, bias: project.1.as_ref() },
            stride,
            padding,
            activation,
        )
        .map(Some)
    }
}
