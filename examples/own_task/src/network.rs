//! Network f(x, y): a small ResNet computes features of the picture x once, and every candidate y is joined with them.

use anyhow::Result;
use candle_core::{DType, Device, Tensor};
use candle_nn::{Linear, Module, linear};
use ebm_core::EnergyModel;
use ebm_nn::params::ParamStore;
use ebm_nn::resnet::{Norm, ResNet, ResNetConfig};

/// ResNet, and the linear layers of x, of y, of both, and of the score.
pub struct Counter(ResNet, [Linear; 4]);

impl Counter {
    /// Returns the network with the parameters in `store`. Missing parameters are initialised at random.
    pub fn new(store: &ParamStore) -> Result<Self> {
        let vb = store.var_builder(DType::F32, &Device::Cpu);
        let (width, hidden) = (16, 64);
        let config = ResNetConfig { layers: [1; 4], width, ..ResNetConfig::resnet18(Norm::Train) };
        let layer = |inputs, outputs, name| linear(inputs, outputs, vb.pp(name));
        let [x, y] = [layer(8 * width, hidden, "x")?, layer(1, hidden, "y")?];
        let layers = [x, y, layer(hidden, hidden, "both")?, layer(hidden, 1, "score")?];
        Ok(Self(ResNet::new(&config, vb.pp("body"))?, layers))
    }

    /// Computes features `(B, 1, 64)` of pictures `(B, 3, S, S)`, to be joined with any number of candidates.
    pub fn features(&self, pictures: &Tensor, train: bool) -> Result<Tensor> {
        let [.., last] = self.0.forward(pictures, train)?;
        Ok(self.1[0].forward(&last.mean((2, 3))?)?.unsqueeze(1)?)
    }
}

impl EnergyModel for Counter {
    type Features = Tensor;

    /// Returns f(x, y) `(B, M)` of the candidates `y` `(B, M, 1)`.
    fn score(&self, features: &Tensor, y: &Tensor) -> ebm_core::Result<Tensor> {
        let [_, of_y, both, score] = &self.1;
        let joined = of_y.forward(y)?.broadcast_add(features)?.silu()?;
        Ok(score.forward(&both.forward(&joined)?.silu()?)?.squeeze(2)?)
    }
}
