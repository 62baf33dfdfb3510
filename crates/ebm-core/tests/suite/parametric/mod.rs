//! The parametric models of Section 2.

mod bins;
mod densities;
mod golden;
mod gradients;
mod mixture;
mod recovery;
mod robustness;
mod vae;

use candle_core::{Device, Tensor, Var};
use ebm_core::Result;
use ebm_core::parametric::{
    Bins, ConditionalVae, Direct, DirectLoss, Gaussian, JointLaplace, Laplace, LatentVariableModel,
    MixtureOfGaussians, Ordinal, OrdinalHead, Parametric, Softmax,
};

use crate::zoo::flat;

/// (B, D) from its rows.
pub fn rows(rows: &[&[f64]]) -> Tensor {
    Tensor::from_vec(rows.concat(), (rows.len(), rows[0].len()), &Device::Cpu).unwrap()
}

/// sin(0.7 i + phase), scaled.
pub fn waves(shape: (usize, usize), phase: f64, scale: f64) -> Tensor {
    let values: Vec<f64> = (0..shape.0 * shape.1).map(|i| scale * (0.7 * i as f64 + phase).sin()).collect();
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
}

pub fn scalar(tensor: &Tensor) -> f64 {
    flat(tensor)[0]
}

/// The midpoints of `count` cells of [from, to] as candidates (1, count, 1), and the cells' width.
pub fn grid(from: f64, to: f64, count: usize) -> (Tensor, f64) {
    let width = (to - from) / count as f64;
    let values: Vec<f64> = (0..count).map(|i| from + (i as f64 + 0.5) * width).collect();
    (Tensor::from_vec(values, (1, count, 1), &Device::Cpu).unwrap(), width)
}

/// −Σ log p(y_i | x_i) / B by `log_prob`.
pub fn nll(model: &dyn Parametric, outputs: &Tensor, y: &Tensor) -> f64 {
    let log_prob = model.log_prob(outputs, &y.unsqueeze(1).unwrap()).unwrap().unwrap();
    -scalar(&log_prob.mean_all().unwrap())
}

/// Every model, in D dimensions where it can be, with outputs for two inputs.
pub fn all(dim: usize) -> Vec<(&'static str, Box<dyn Parametric>, Tensor)> {
    let bins = Bins::uniform(-1.0, 0.5, 5).unwrap();
    let mut all: Vec<(&'static str, Box<dyn Parametric>)> = vec![
        ("l2", Box::new(Direct::new(dim, DirectLoss::L2).unwrap())),
        ("l1", Box::new(Direct::new(dim, DirectLoss::L1).unwrap())),
        ("huber", Box::new(Direct::new(dim, DirectLoss::Huber { beta: 0.7 }).unwrap())),
        ("gaussian", Box::new(Gaussian::new(dim).unwrap())),
        ("laplace", Box::new(Laplace::new(dim).unwrap())),
        ("joint_laplace", Box::new(JointLaplace::new(dim).unwrap())),
        ("mixture", Box::new(MixtureOfGaussians::new(dim, 3).unwrap())),
        ("vae", Box::new(ConditionalVae::new(dim, 2, 4).unwrap())),
        ("softmax", Box::new(Softmax::new(dim, bins.clone(), 0.1, 0.05).unwrap())),
    ];
    if dim == 1 {
        all.push(("niu", Box::new(Ordinal::new(bins.clone(), OrdinalHead::Niu))));
        all.push(("coral", Box::new(Ordinal::new(bins, OrdinalHead::Coral))));
    }
    all.into_iter()
        .map(|(name, model)| {
            let outputs = match name {
                "coral" => rows(&[&[1.5, 0.7, -0.2, -1.0], &[0.4, 0.3, 0.2, -2.0]]),
                _ => waves((2, model.num_outputs()), 0.3, 0.9),
            };
            (name, model, outputs)
        })
        .collect()
}

/// One latent variable and one coordinate, all linear: z ~ N(m, v), y | z ~ N(a z + b, σ²), for one input x.
pub struct Linear {
    pub prior: Var,
    pub posterior: Var,
    /// a, b and log σ².
    pub decoder: Var,
}

impl Linear {
    pub fn new(prior: [f64; 2], posterior: [f64; 2], decoder: [f64; 3]) -> Self {
        let var = |values: &[f64]| Var::new(values, &Device::Cpu).unwrap();
        Self { prior: var(&prior), posterior: var(&posterior), decoder: var(&decoder) }
    }

    /// The mean and variance of p(y | x), in closed form.
    pub fn marginal(&self) -> (f64, f64) {
        let (prior, decoder) = (flat(&self.prior), flat(&self.decoder));
        (decoder[0] * prior[0] + decoder[1], decoder[0].powi(2) * prior[1].exp() + decoder[2].exp())
    }
}

impl LatentVariableModel for Linear {
    /// B.
    type Features = usize;

    fn prior(&self, batch: &usize) -> Result<Tensor> {
        Ok(self.prior.reshape((1, 2))?.broadcast_as((*batch, 2))?)
    }

    fn posterior(&self, batch: &usize, _: &Tensor) -> Result<Tensor> {
        Ok(self.posterior.reshape((1, 2))?.broadcast_as((*batch, 2))?)
    }

    fn decode(&self, _: &usize, z: &Tensor) -> Result<Tensor> {
        let part = |at: usize| self.decoder.narrow(0, at, 1);
        let mean = z.broadcast_mul(&part(0)?)?.broadcast_add(&part(1)?)?;
        Ok(Tensor::cat(&[&mean, &part(2)?.broadcast_as(mean.shape())?], 2)?)
    }
}
