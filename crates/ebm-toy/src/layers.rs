//! Linear layers, and the small networks beside f: those whose outputs are the parameters of a density.

use candle_core::{DType, Device, Tensor, Var};
use ebm_nn::ops;
use ebm_seed::Key;
use rand::{Rng, RngCore};

/// The width of every hidden layer.
pub(crate) const WIDTH: usize = 10;

/// A linear layer.
pub(crate) struct Linear {
    /// (outputs, inputs).
    pub(crate) weight: Var,
    /// (outputs).
    pub(crate) bias: Var,
}

impl Linear {
    /// W a + b of the rows of `a`, (N, inputs).
    pub(crate) fn of(&self, a: &Tensor) -> ebm_nn::Result<Tensor> {
        ops::linear(a, &self.weight, Some(&self.bias))
    }

    /// max(W a + b, 0).
    pub(crate) fn relu_of(&self, a: &Tensor) -> ebm_nn::Result<Tensor> {
        ops::linear_relu(a, &self.weight, Some(&self.bias))
    }

    /// The parameters, named after `name`.
    pub(crate) fn parameters(&self, name: &str) -> [(String, Var); 2] {
        [(format!("{name}.weight"), self.weight.clone()), (format!("{name}.bias"), self.bias.clone())]
    }
}

/// A parameter as torch initialises those of linear layers: uniform within ±1/√fan_in.
pub(crate) fn uniform(
    shape: &[usize],
    fan_in: usize,
    rng: &mut dyn RngCore,
    dtype: DType,
    device: &Device,
) -> candle_core::Result<Var> {
    let bound = 1.0 / (fan_in as f32).sqrt();
    let values =
        (0..shape.iter().product::<usize>()).map(|_| rng.random_range(-bound..bound)).collect::<Vec<f32>>();
    Var::from_tensor(&Tensor::from_vec(values, shape, device)?.to_dtype(dtype)?)
}

/// Linear layers with ReLU between them, and several heads on the same features.
pub struct Heads {
    trunk: Vec<Linear>,
    heads: Vec<Vec<Linear>>,
}

impl Heads {
    /// The paper's Gaussian network (supplement, Illustrative Example): a trunk 1 → 10 → 10, and for the mean
    /// and the log-variance a head 10 → 10 → 10 → 1 each.
    ///
    /// # Errors
    /// When a tensor can not be made.
    pub fn gaussian(key: Key) -> candle_core::Result<Self> {
        let head: &[usize] = &[WIDTH, WIDTH, WIDTH, 1];
        Self::new(&[1, WIDTH, WIDTH], &[head, head], key)
    }

    /// The mixture density network of AISTATS 2022 on the features of x: 10 → 10 → K for the logits, the
    /// means and the log-variances of K components.
    ///
    /// # Errors
    /// When a tensor can not be made.
    pub fn mixture(components: usize, key: Key) -> candle_core::Result<Self> {
        let head: &[usize] = &[WIDTH, WIDTH, components];
        Self::new(&[], &[head; 3], key)
    }

    /// `trunk` and `heads` list the widths.
    fn new(trunk: &[usize], heads: &[&[usize]], key: Key) -> candle_core::Result<Self> {
        let mut rng = key.rng();
        let mut layer = |inputs: usize, outputs: usize| -> candle_core::Result<Linear> {
            let mut draw = |shape: &[usize]| uniform(shape, inputs, &mut rng, DType::F32, &Device::Cpu);
            Ok(Linear { weight: draw(&[outputs, inputs])?, bias: draw(&[outputs])? })
        };
        let mut layers = |widths: &[usize]| -> candle_core::Result<Vec<_>> {
            widths.windows(2).map(|pair| layer(pair[0], pair[1])).collect()
        };
        let trunk = layers(trunk)?;
        Ok(Self { trunk, heads: heads.iter().map(|head| layers(head)).collect::<candle_core::Result<_>>()? })
    }

    /// The heads' outputs side by side, (B, P), of `x`, (B, number of inputs).
    ///
    /// # Errors
    /// When `x` has another shape.
    pub fn outputs(&self, x: &Tensor) -> ebm_nn::Result<Tensor> {
        let features = self.trunk.iter().try_fold(x.clone(), |a, layer| layer.relu_of(&a))?;
        let head = |layers: &Vec<Linear>| {
            layers.iter().enumerate().try_fold(features.clone(), |a, (index, layer)| {
                if index + 1 < layers.len() { layer.relu_of(&a) } else { layer.of(&a) }
            })
        };
        let outputs = self.heads.iter().map(head).collect::<ebm_nn::Result<Vec<_>>>()?;
        Ok(Tensor::cat(&outputs, 1)?)
    }

    /// All parameters, named after `name`.
    pub(crate) fn parameters(&self, name: &str) -> Vec<(String, Var)> {
        let layers = self.trunk.iter().chain(self.heads.iter().flatten()).enumerate();
        layers.flat_map(|(index, layer)| layer.parameters(&format!("{name}.{index}"))).collect()
    }
}
