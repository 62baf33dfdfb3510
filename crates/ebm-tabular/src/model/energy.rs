//! The energy model's f(x, y) for a row of a table.

use candle_core::Tensor;
use candle_nn::{Linear, VarBuilder};
use ebm_core::EnergyModel;
use ebm_nn::init;
use ebm_ops::heads::StudentFusion;

use super::forward;
use super::proposal::StudentProposal;
use crate::Result;

/// Largest |log s|.
const LOG_SCALE: f64 = 6.0;

/// f(x, y) = −(ν + 1)/2 Σ_d log(1 + u_d²/ν) + w · max(a(x) + W g(u), 0), with `u = (y − μ(x))/s(x)` and g(u) the
/// `tanh(u/τ)` of five widths τ.
///
/// y enters relative to the network's own estimate μ(x), so that a narrow density needs no large weights. The first
/// summand makes exp f integrable over all y; its ν > 1 is learnt. The second summand is bounded and free in shape, for
/// several modes, skewness and edges. f is not normalised: Eq. 4 estimates Z.
///
/// The features of x are computed once. Each candidate y then costs the products with the few columns of W
/// ([`StudentFusion`]).
#[derive(Clone, Debug)]
pub struct EnergyHead {
    dim: usize,
    /// Layer from features to μ and log s, (2D).
    scale: Linear,
    /// Layer from features to a(x), (H).
    features: Linear,
    /// W, (H, 5D).
    join: Tensor,
    /// w, (1, H), and a constant that cancels against Z.
    out: (Tensor, Tensor),
    /// log(ν − 1), (1).
    log_tails: Tensor,
}

/// Outputs of the network for inputs x from which f is computed.
#[derive(Clone, Debug)]
pub struct EnergyFeatures {
    /// μ, (B, 1, D).
    pub location: Tensor,
    /// log s, (B, 1, D).
    pub log_scale: Tensor,
    /// μ, log s and a, (B, 2D + H).
    joined: Tensor,
}

impl EnergyFeatures {
    /// Returns the proposal for estimating Z: Student's t with the network's μ and s, whose support is all y.
    pub fn proposal(&self) -> StudentProposal {
        StudentProposal { location: self.location.clone(), log_scale: self.log_scale.clone() }
    }
}

impl EnergyHead {
    /// Creates the head for `dim` coordinates on `width` features, with H = `hidden`. Its initial f is the first summand
    /// alone.
    ///
    /// # Errors
    /// Fails if `vb` refuses a tensor.
    pub fn new(dim: usize, width: usize, hidden: usize, vb: VarBuilder) -> Result<Self> {
        let inputs = StudentFusion::FEATURES * dim;
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

    /// Computes μ, log s and a from the trunk's features `h` (B, W).
    ///
    /// # Errors
    /// Fails if `h` has another shape.
    pub fn features(&self, h: &Tensor) -> Result<EnergyFeatures> {
        let scale = forward(&self.scale, h)?;
        let location = scale.narrow(1, 0, self.dim)?;
        let log_scale = ((scale.narrow(1, self.dim, self.dim)? / LOG_SCALE)?.tanh()? * LOG_SCALE)?;
        let joined = Tensor::cat(&[&location, &log_scale, &forward(&self.features, h)?], 1)?;
        Ok(EnergyFeatures { location: location.unsqueeze(1)?, log_scale: log_scale.unsqueeze(1)?, joined })
    }

    fn scores(&self, features: &EnergyFeatures, y: &Tensor) -> Result<Tensor> {
        let head = StudentFusion::new(&self.join, &self.out.0, &self.out.1, &self.log_tails)?;
        Ok(head.forward(&features.joined, y)?)
    }
}

/// The `Features` are the result of [`EnergyHead::features`].
impl EnergyModel for EnergyHead {
    type Features = EnergyFeatures;

    fn score(&self, features: &EnergyFeatures, y: &Tensor) -> ebm_core::Result<Tensor> {
        self.scores(features, y).map_err(ebm_core::Error::model)
    }
}
