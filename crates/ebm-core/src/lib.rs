//! The method of *Energy-Based Models for Deep Probabilistic Regression* (Gustafsson et al., ECCV 2020).
//!
//! A network `f(x, y)` defines `p(y | x) = exp f(x, y) / Z(x)`. This crate has the losses that train such a
//! network, its densities, and prediction by gradient ascent on it. The network, the data and the loop are yours.
//!
//! | in the paper | here |
//! |---|---|
//! | Section 2: direct and probabilistic regression | [`parametric`], one type per family |
//! | Section 3.1, Eq. 1: the model `f(x, y)` | [`EnergyModel`] |
//! | Section 3.2, Eq. 3 and 4: the loss `J`, called ML-IS, `ml_is` in settings | [`MonteCarloNll`] |
//! | Section 3.2, Eq. 5: the proposal `q(y \| y_i)` | [`GaussianMixture`], a [`Proposal`] |
//! | Section 3.3, supplement Algorithm S1 | [`refine`] with [`StepRule::Backtracking`] |
//! | Supplement Algorithm S2 (age, head pose) | [`refine`] with [`StepRule::EarlyStopping`] |
//! | Supplement, visual tracking: ATOM's ascent | [`refine`] with [`StepRule::Plain`] |
//! | Section 4.1: the box parametrisation, and the rivals IoU-Net and IoU-Net* | [`BoxSpace`], [`EdgeSpace`], [`QualityRegression`] |
//! | Eq. 1, normalised, for a scalar y | [`EnergyModel::bind`], then [`Conditional::grid`]: a [`GridDensity`] on a [`Grid`] with log Z, moments, quantiles, regions, samples |
//! | Eq. 1, normalised, for a y of any dimension | [`AdaptiveSampler::densities`]: an [`ImportanceDensity`]. Give it an [`Anchored`] model if f was trained only near the data. For up to three coordinates of y also [`Conditional::marginals`] |
//! | Samples of `p(y \| x)` in any dimension | [`langevin`] |
//! | Table 2: Direct, Gaussian, Laplace, mixture of 2, 4, 8 Gaussians, cVAE | [`parametric::Direct`], [`parametric::Gaussian`], [`parametric::Laplace`], [`parametric::MixtureOfGaussians`], [`parametric::ConditionalVae`] |
//! | Table 4: Niu et al., Cao et al. | [`parametric::Ordinal`] |
//! | Tables 4 and 5: Softmax (CE, L², Var); Laplace of the head pose | [`parametric::Softmax`] over [`parametric::Bins`]; [`parametric::JointLaplace`] |
//! | Elementwise losses, stable sums | [`loss`], [`math`] |
//!
//! | beyond the paper | here |
//! |---|---|
//! | BMVC 2020: KLD-IS, NCE, NCE+, ML-MCMC, score matching, denoising score matching | [`KullbackLeibler`], [`NoiseContrastive`], [`NoiseContrastivePlus`], [`LangevinNll`], [`ScoreMatching`], [`DenoisingScoreMatching`] |
//! | Implicit behavioural cloning: InfoNCE without density correction | [`InfoNce`] |
//! | Self-normalised likelihood | [`SelfNormalized`] |
//! | AISTATS 2022: a learned proposal | [`JointNce`] with [`parametric::GaussianMixtureDensity`] |
//! | Other proposals | [`SharedOffsets`], [`Uniform`], [`IouStratified`], [`PerturbedBoxes`] |
//! | An objective or a proposal from a configuration file, by the name of a variant | [`AnyObjective`], [`AnyProposal`] |
//!
//! Score matching needs second derivatives in y and their gradient in the parameters, which candle's autograd
//! cannot compute. [`Derivatives::Exact`] calls [`EnergyModel::derivatives_along`], which the network must
//! implement. [`Derivatives::Differences`] takes central differences of f and works for every network.
//! [`Directions`] selects all coordinates or random signs (Hutchinson).
//!
//! Shapes are written `(B, M, D)`: B inputs x, M candidate targets y for each, D coordinates of a target.
//! [`refine`](fn@refine) and [`langevin`] take and return this shape, [`Objective::loss`] takes the true y, `(B, D)`;
//! f is `(B, M)`, a loss is a scalar. Logarithms are natural. Tensors are `f32` or `f64`, on any device of candle.
//! Functions that draw random numbers take the generator. The crate re-exports [`candle_core`] and [`rand`]; the
//! examples also need `rand_chacha` 0.9. Your program computes the features of x once, [`EnergyModel::Features`], for
//! [`Objective::loss`], [`refine`](fn@refine) and [`EnergyModel::bind`]. In this example they are x itself:
//!
//! ```
//! use ebm_core::candle_core::{DType, Device, Tensor, Var};
//! use ebm_core::rand::SeedableRng;
//! use ebm_core::{AdaptiveSampler, EnergyModel, GaussianMixture, GradientAscent, Grid, MonteCarloNll, Objective, StepRule};
//!
//! /// f(x, y) = -(y - w x)^2, with one parameter w.
//! struct Parabola(Var);
//!
//! impl EnergyModel for Parabola {
//!     type Features = Tensor; // x (B, 1, 1)
//!     fn score(&self, x: &Tensor, y: &Tensor) -> ebm_core::Result<Tensor> {
//!         let peak = x.broadcast_mul(&self.0)?;
//!         Ok(y.broadcast_sub(&peak)?.sqr()?.neg()?.sum(2)?)
//!     }
//! }
//!
//! let model = Parabola(Var::new(0.0, &Device::Cpu)?);
//! let x = Tensor::new(&[[[1.0]], [[2.0]]], &Device::Cpu)?;
//! let y = Tensor::new(&[[3.0], [6.0]], &Device::Cpu)?;
//! let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(0);
//! // Training (Eq. 4): one step of gradient descent on w. The proposal has two σ and D = 1 coordinate.
//! let objective = MonteCarloNll { proposal: GaussianMixture::isotropic(&[0.1, 0.8], 1)?, num_samples: 64 };
//! let gradients = objective.loss(&model, &x, &y, &mut rng)?.backward()?;
//! if let Some(gradient) = gradients.get(&model.0) {
//!     model.0.set(&(model.0.as_tensor() - (gradient * 0.1)?)?)?;
//! }
//! // Prediction (Algorithm S1) from one initial estimate for each x.
//! let ascent = GradientAscent { steps: 10, step_length: vec![0.25], decay: 0.5, rule: StepRule::Backtracking };
//! let refined = ebm_core::refine(&model, &x, &Tensor::zeros((2, 1, 1), DType::F64, &Device::Cpu)?, &ascent)?;
//! // Density of the first x, for D = 1 on a grid: log Z = log √π, and log p(3 | x). `bind` takes x and B.
//! let p = &model.bind(&x, 2).with(DType::F64, &Device::Cpu).grid(&Grid::new(-20.0, 20.0, 4001)?)?[0];
//! assert!((p.log_z() - 0.5 * std::f64::consts::PI.ln()).abs() < 1e-6 && p.log_prob(3.0) < p.log_prob(p.mode()));
//! // Density for any D, by samples about the refined y, (B, D). Its `log_prob` takes f(x, y), not y.
//! let center = refined.y.squeeze(1)?;
//! let sampled = &AdaptiveSampler::new(4096).densities(&model, &x, &objective.proposal, &center, &mut rng)?[0];
//! let f = model.score(&x, &y.unsqueeze(1)?)?.flatten_all()?.to_vec1::<f64>()?;
//! assert!((sampled.log_z() - p.log_z()).abs() < 0.1 && (sampled.log_prob(f[0]) - p.log_prob(3.0)).abs() < 0.1);
//! # Ok::<(), ebm_core::Error>(())
//! ```
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod anchored;
mod check;
mod density;
mod error;
mod fused;
mod host;
mod log_sum;
pub mod loss;
pub mod math;
mod model;
mod objective;
pub mod parametric;
mod proposal;
mod refine;
mod target_space;
mod tempered;

pub use anchored::Anchored;
pub use candle_core;
pub use density::{
    AdaptiveSampler, Conditional, DensityMap, Grid, GridDensity, ImportanceDensity, Region, WeightedSamples,
    langevin,
};
pub use error::{Error, Result};
pub use model::{DirectionalDerivatives, EnergyModel, Order};
pub use objective::{
    AnyObjective, AnyProposal, Batch, DenoisingScoreMatching, Derivatives, Directions, InfoNce, JointNce,
    KullbackLeibler, LangevinNll, MonteCarloNll, NoiseContrastive, NoiseContrastivePlus, Objective,
    QualityRegression, ScoreMatching, SelfNormalized, SquaredQualityRegression,
};
pub use proposal::{GaussianMixture, IouStratified, PerturbedBoxes, Proposal, SharedOffsets, Uniform};
pub use rand;
pub use refine::{
    CandidateOutcome, GradientAscent, Outcome, Refined, Stand, Status, StepRule, refine, refine_observed,
};
pub use target_space::{BoxSpace, EdgeSpace, TargetSpace};
pub use tempered::Tempered;

/// Runs the examples of this page of the book as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/my_model.md")]
struct Book;
