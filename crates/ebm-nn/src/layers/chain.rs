//! Convolutions one after the other.

use candle_core::Tensor;

use super::Conv2d;
use crate::Result;
use crate::ops::Workspace;

/// Convolutions one after the other, each followed by its ReLU: of an inverted residual (Sandler et al., 2018) all
/// but the last, to whose result the input is added where the shapes are the same.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    layers: Vec<Conv2d>,
    linear: bool,
    residual: bool,
}

impl Chain {
    /// Layers that all have their ReLU.
    pub(crate) fn plain(layers: Vec<Conv2d>) -> Self {
        Self { layers, linear: false, residual: false }
    }

    /// Expansion, depthwise convolution and projection; with `residual`, plus the input.
    pub(crate) fn inverted(layers: Vec<Conv2d>, residual: bool) -> Self {
        Self { layers, linear: true, residual }
    }

    /// (N, H, W, C) -> (N, …, channels).
    pub(crate) fn forward(&self, x: &Tensor, train: bool) -> Result<Tensor> {
        let (mut y, last) = (x.clone(), self.layers.len().saturating_sub(1));
        let mut inner = Vec::with_capacity(last);
        for (i, layer) in self.layers.iter().enumerate() {
            let residual = (self.residual && i == last).then_some(x);
            y = layer.forward_channels_last(&y, residual, i < last || !self.linear, train)?;
            if i < last {
                inner.push(y.clone());
            }
        }
        inner.into_iter().for_each(|map| Workspace::shared().recycle_input(map, &y));
        Ok(y)
    }
}
