//! f(x, y): a small ResNet sees the picture once; y joins its features in a layer of its own.

use candle_core::{DType, Device, Tensor};
use candle_nn::{Linear, Module, linear};
use ebm_core::EnergyModel;
use ebm_nn::params::ParamStore;
use ebm_nn::resnet::{Norm, ResNet, ResNetConfig};

/// Channels of the first stage; the fourth, whose mean is g_x, has eight times as many.
const WIDTH: usize = 16;
const HIDDEN: usize = 64;

pub struct Counter {
    body: ResNet,
    of_x: Linear,
    of_y: Linear,
    hidden: Linear,
    out: Linear,
}

impl Counter {
    /// The network whose parameters `store` holds: what is not there yet is drawn.
    pub fn new(store: &ParamStore) -> anyhow::Result<Self> {
        let vb = store.var_builder(DType::F32, &Device::Cpu);
        let config = ResNetConfig { layers: [1; 4], width: WIDTH, ..ResNetConfig::resnet18(Norm::Train) };
        Ok(Self {
            body: ResNet::new(&config, vb.pp("body"))?,
            of_x: linear(8 * WIDTH, HIDDEN, vb.pp("of_x"))?,
            of_y: linear(1, HIDDEN, vb.pp("of_y"))?,
            hidden: linear(HIDDEN, HIDDEN, vb.pp("hidden"))?,
            out: linear(HIDDEN, 1, vb.pp("out"))?,
        })
    }

    /// What the network sees of images `(B, 3, S, S)`: `(B, 1, 64)`, to be joined with any number of y.
    pub fn features(&self, images: &Tensor, train: bool) -> anyhow::Result<Tensor> {
        let [.., last] = self.body.forward(images, train)?;
        Ok(self.of_x.forward(&last.mean((2, 3))?)?.unsqueeze(1)?)
    }
}

impl EnergyModel for Counter {
    type Features = Tensor;

    fn score(&self, features: &Tensor, y: &Tensor) -> ebm_core::Result<Tensor> {
        let joined = self.of_y.forward(y)?.broadcast_add(features)?.relu()?;
        Ok(self.out.forward(&self.hidden.forward(&joined)?.relu()?)?.squeeze(2)?)
    }
}
