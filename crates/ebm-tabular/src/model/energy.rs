//! f(x, y) of a table's row.

use candle_core::Tensor;
use candle_nn::{Linear, VarBuilder};
use ebm_core::EnergyModel;
use ebm_nn::init;
use ebm_ops::heads::LateFusion;

use super::forward;
use super::proposal::StudentProposal;
use crate::Result;

/// What the squashed u are divided by: steep ones see the middle, flat ones the tails.
const WIDTHS: [f32; 5] = [0.5, 1.0, 2.0, 4.0, 8.0];
/// The largest |log s|.
const LOG_SCALE: f64 = 6.0;

/// f(x, y) = −(ν + 1)/2 Σ_d log(1 + u_d²/ν) + w · max(a(x) + W g(u), 0), with `u = (y − μ(x))/s(x)` and g(u) the
/// `tanh(u/τ)` of five widths τ.
///
/// y is seen relative to the network's own estimate, so that a narrow density needs no large weights. The second
/// summand is bounded and free in shape: several modes, skewness, edges. The first one makes exp f integrable over all y
/// whatever the second learns; ν > 1 is learnt too. Nothing here is normalised: Z is what Eq. 4 estimates.
///
/// x is seen once, and a candidate y costs the products with the few columns of W ([`LateFusion`]).
#[derive(Clone, Debug)]
pub struct EnergyHead {
    dim: usize,
    /// To μ and log s, (2D).
    scale: Linear,
    /// To a(x), (H).
    features: Linear,
    /// W, (H, 5D).
    join: Tensor,
    /// w, (1, H), and a constant that Z takes out again.
    out: (Tensor, Tensor),
    /// log(ν − 1), (1).
    log_tails: Tensor,
}

/// What f needs of inputs x.
#[derive(Clone, Debug)]
pub struct EnergyFeatures {
    /// μ, (B, 1, D).
    pub location: Tensor,
    /// log s, (B, 1, D).
    pub log_scale: Tensor,
    /// a, (B, H).
    joined: Tensor,
}

impl EnergyFeatures {
    /// Where f was looked for in training, widened to all that it may be.
    pub fn proposal(&self) -> StudentProposal {
        StudentProposal { location: self.location.clone(), log_scale: self.log_scale.clone() }
    }
}

impl EnergyHead {
    /// The head of `dim` coordinates on `width` features, with H = `hidden`. At first f is the first summand alone.
    ///
    /// # Errors
    /// When `vb` refuses a tensor.
    pub fn new(dim: usize, width: usize, hidden: usize, vb: VarBuilder) -> Result<Self> {
        let inputs = WIDTHS.len() * dim;
        Ok(Self {
            dim,
            scale: init::linear(width, 2 * dim, vb.pp("scale"))?,
            features: init::linear(width, hidden, vb.pp("features"))?,
            join: vb.get_with_hints((hidden, inputs), "join.weight", init::default_weight())?,
            out: (
                vb.get_with_hints((1, hidden), "out.weight", init::constant(0.0))?,
                vb.get_with_hints(1, "out.bias", init::constant(0.0))?,
            ),
            log_tails: vb.get_with_hints(1, "log_tails", init::constant(3f64.ln()))?,
        })
    }

    /// What f needs of the features `h` (B, W) of the trunk.
    ///
    /// # Errors
    /// When `h` has another shape.
    pub fn features(&self, h: &Tensor) -> Result<EnergyFeatures> {
        let scale = forward(&self.scale, h)?.unsqueeze(1)?;
        let raw = scale.narrow(2, self.dim, self.dim)?;
        Ok(EnergyFeatures {
            location: scale.narrow(2, 0, self.dim)?,
            log_scale: ((raw / LOG_SCALE)?.tanh()? * LOG_SCALE)?,
            joined: forward(&self.features, h)?,
        })
    }

    fn scores(&self, features: &EnergyFeatures, y: &Tensor) -> Result<Tensor> {
        let inverse = features.log_scale.neg()?.exp()?;
        let u = y.broadcast_sub(&features.location)?.broadcast_mul(&inverse)?;
        let nu = (self.log_tails.exp()? + 1.0)?;
        let tails = (u.sqr()?.broadcast_div(&nu)? + 1.0)?.log()?.sum(2)?;
        let base = tails.broadcast_mul(&((nu + 1.0)? * -0.5)?)?;
        let squashed: Vec<Tensor> = WIDTHS
            .iter()
            .map(|width| (&u * f64::from(1.0 / width))?.tanh())
            .collect::<candle_core::Result<_>>()?;
        let late = LateFusion::new(&[], &self.join, &self.out.0, &self.out.1)?;
        Ok((base + late.forward(&features.joined, &Tensor::cat(&squashed, 2)?)?)?)
    }
}

/// `Features` are [`EnergyHead::features`].
impl EnergyModel for EnergyHead {
    type Features = EnergyFeatures;

    fn score(&self, features: &EnergyFeatures, y: &Tensor) -> ebm_core::Result<Tensor> {
        self.scores(features, y).map_err(ebm_core::Error::model)
    }
}
