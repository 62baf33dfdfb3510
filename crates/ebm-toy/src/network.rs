//! Small networks whose outputs are the parameters of a density.

use candle_core::{DType, Device, Tensor, Var};
use ebm_base::Key;
use rand::Rng;

use crate::layout::{Linear, WIDTH};

/// Linear layers with ReLU between them, and several heads on the same features. All parameters are one vector
/// θ.
pub struct Heads {
    theta: Var,
    trunk: Vec<Linear>,
    heads: Vec<Vec<Linear>>,
}

impl Heads {
    /// Creates the paper's Gaussian network (supplement, Illustrative Example): a trunk 1 → 10 → 10, and a head
    /// 10 → 10 → 10 → 1 each for the mean and the log-variance.
    ///
    /// # Errors
    /// Fails if a tensor cannot be created.
    pub fn gaussian(key: Key) -> candle_core::Result<Self> {
        let head: &[usize] = &[WIDTH, WIDTH, WIDTH, 1];
        Self::new(&[1, WIDTH, WIDTH], &[head, head], key)
    }

    /// Creates the mixture density network of AISTATS 2022 on the features of x: 10 → 10 → K each for the logits,
    /// the means and the log-variances of K components.
    ///
    /// # Errors
    /// Fails if a tensor cannot be created.
    pub fn mixture(components: usize, key: Key) -> candle_core::Result<Self> {
        let head: &[usize] = &[WIDTH, WIDTH, components];
        Self::new(&[], &[head; 3], key)
    }

    /// Creates the layers with torch's initial distribution; `trunk` and `heads` list the widths.
    fn new(trunk: &[usize], heads: &[&[usize]], key: Key) -> candle_core::Result<Self> {
        let (mut theta, mut rng) = (Vec::new(), key.rng());
        let mut layers = |widths: &[usize]| -> Vec<Linear> {
            let layer = |pair: &[usize]| {
                let (start, bound) = (theta.len(), 1.0 / (pair[0] as f32).sqrt());
                let (weight, bias) = (start + pair[0] * pair[1], start + (pair[0] + 1) * pair[1]);
                theta.extend((start..bias).map(|_| rng.random_range(-bound..bound)));
                Linear { weight: start..weight, bias: weight..bias, fan_in: pair[0] }
            };
            widths.windows(2).map(layer).collect()
        };
        let (trunk, heads) = (layers(trunk), heads.iter().map(|head| layers(head)).collect());
        let theta = Var::from_tensor(&Tensor::from_vec(theta, ((),), &Device::Cpu)?.to_dtype(DType::F32)?)?;
        Ok(Self { theta, trunk, heads })
    }

    /// Computes the concatenated outputs of the heads, (B, P), for `x`, (B, number of inputs).
    ///
    /// # Errors
    /// Fails if `x` has another shape.
    pub fn outputs(&self, x: &Tensor) -> ebm_nn::Result<Tensor> {
        let mut features = x.clone();
        for layer in &self.trunk {
            features = relu(&linear(&self.theta, layer, &features, true)?)?;
        }
        let head = |layers: &Vec<Linear>| {
            let mut hidden = features.clone();
            for (index, layer) in layers.iter().enumerate() {
                hidden = linear(&self.theta, layer, &hidden, true)?;
                if index + 1 < layers.len() {
                    hidden = relu(&hidden)?;
                }
            }
            Ok(hidden)
        };
        let outputs = self.heads.iter().map(head).collect::<ebm_nn::Result<Vec<_>>>()?;
        Ok(Tensor::cat(&outputs, 1)?)
    }

    /// Returns the parameters θ under `name`.
    pub fn parameters(&self, name: &str) -> Vec<(String, Var)> {
        vec![(name.to_owned(), self.theta.clone())]
    }
}

/// Computes W a + b for the rows of `a`, (N, inputs), with the parameters at `layer` in θ; derivatives have no bias.
pub(crate) fn linear(theta: &Tensor, layer: &Linear, a: &Tensor, with_bias: bool) -> ebm_nn::Result<Tensor> {
    let bias = theta.narrow(0, layer.bias.start, layer.bias.len())?;
    ebm_ops::linear(a, &weight(theta, layer)?, with_bias.then_some(&bias))
}

/// Returns the weights W, (outputs, inputs).
fn weight(theta: &Tensor, layer: &Linear) -> candle_core::Result<Tensor> {
    let outputs = layer.bias.len();
    theta.narrow(0, layer.weight.start, layer.weight.len())?.reshape((outputs, layer.weight.len() / outputs))
}

/// Computes max(z, 0) with torch's slope 0 at 0; candle's own has the slope 1.
pub(crate) fn relu(z: &Tensor) -> ebm_nn::Result<Tensor> {
    Ok((z * positive(z)?)?)
}

/// Returns 1 where z > 0, else 0.
pub(crate) fn positive(z: &Tensor) -> candle_core::Result<Tensor> {
    z.detach().gt(0.0)?.to_dtype(z.dtype())
}
