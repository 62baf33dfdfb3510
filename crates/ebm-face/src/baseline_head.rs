//! Networks of the baselines (supplement, Age Estimation and Head-Pose Estimation).

use candle_core::{Device, Tensor};
use candle_nn::{Init, Linear, VarBuilder};
use ebm_core::parametric::{Baseline, OrdinalHead, Parametric, coral_logits};
use ebm_nn::init;
use ebm_ops::{linear, relu};

use crate::{Error, Result};

/// Name of CORAL's biases.
pub(crate) const RANKS: &str = "ranks.bias";

/// A head that computes from g_x the outputs `(B, P)` that a [`Baseline`] expects. It has one or more parallel branches
/// of two layers, the first with ReLU.
///
/// | baseline | branches, by name |
/// |---|---|
/// | Direct | `mean` (D) |
/// | Gaussian | `mean` (D), `log_variance` (D) |
/// | Laplace, independent or joint | `mean` (D), `log_scale` (D) |
/// | Softmax | `logits.0` (C), … one for each coordinate |
/// | Niu et al. | `logits` (2 (K − 1)) |
/// | Cao et al. | `score` (1), without a last bias, and `ranks.bias` (K − 1), which starts at 0 |
/// | Gaussian mixture, quantiles | `outputs` (P) |
#[derive(Clone, Debug)]
pub struct BaselineHead {
    /// The two layers of each branch, the first with ReLU.
    branches: Vec<[Linear; 2]>,
    /// CORAL's biases.
    ranks: Option<Tensor>,
}

impl BaselineHead {
    /// Builds the head on g_x of length `num_features`, with `hidden` units in each branch (2048 in the paper). A
    /// branch's parameters are `fc1` and `fc2` under its name, initialised like torch's linear layers.
    ///
    /// # Errors
    /// [`Error::Config`] when a size is 0, or for the conditional autoencoder, which no table of faces has;
    /// else when `vb` refuses a tensor.
    pub fn new(baseline: &Baseline, num_features: usize, hidden: usize, vb: VarBuilder) -> Result<Self> {
        if num_features == 0 || hidden == 0 {
            let reason = format!("{num_features} features and {hidden} hidden units: neither may be 0");
            return Err(Error::config("of the baseline's head", reason));
        }
        let coral = matches!(baseline, Baseline::Ordinal(ordinal) if ordinal.head() == OrdinalHead::Coral);
        let branch = |(name, outputs): (String, usize)| {
            let vb = vb.pp(name);
            let out = if coral {
                let weight = (outputs, hidden);
                Linear::new(vb.get_with_hints(weight, "fc2.weight", init::default_weight())?, None)
            } else {
                init::linear(hidden, outputs, vb.pp("fc2"))?
            };
            Ok([init::linear(num_features, hidden, vb.pp("fc1"))?, out])
        };
        let branches = branches(baseline)?.into_iter().map(branch).collect::<Result<_>>()?;
        let ranks = |outputs| vb.get_with_hints(outputs, RANKS, Init::Const(0.0));
        Ok(Self { branches, ranks: coral.then(|| ranks(baseline.num_outputs())).transpose()? })
    }

    /// Computes the outputs `(B, P)` from `g_x` `(B, X)`.
    ///
    /// # Errors
    /// When `g_x` has another shape.
    pub fn forward(&self, g_x: &Tensor) -> Result<Tensor> {
        let branch = |[hidden, out]: &[Linear; 2]| {
            let h = relu(&linear(g_x, hidden.weight(), hidden.bias())?)?;
            linear(&h, out.weight(), out.bias())
        };
        let outputs = self.branches.iter().map(branch).collect::<ebm_nn::Result<Vec<_>>>()?;
        let outputs = Tensor::cat(&outputs, 1)?;
        Ok(match &self.ranks {
            Some(biases) => coral_logits(&outputs, biases)?,
            None => outputs,
        })
    }

    /// Returns the device of the parameters.
    pub(crate) fn device(&self) -> &Device {
        self.branches.first().map_or(&Device::Cpu, |[_, out]| out.weight().device())
    }
}

/// Returns the name and the number of outputs of each branch.
fn branches(baseline: &Baseline) -> Result<Vec<(String, usize)>> {
    let named = |names: &[&str], outputs| names.iter().map(|name| ((*name).to_owned(), outputs)).collect();
    let (dim, outputs) = (baseline.dim(), baseline.num_outputs());
    Ok(match baseline {
        Baseline::Direct(_) => named(&["mean"], dim),
        Baseline::Gaussian(_) => named(&["mean", "log_variance"], dim),
        Baseline::Laplace(_) | Baseline::JointLaplace(_) => named(&["mean", "log_scale"], dim),
        Baseline::Softmax(model) => (0..dim).map(|k| (format!("logits.{k}"), model.bins().len())).collect(),
        Baseline::Ordinal(model) => match model.head() {
            OrdinalHead::Niu => named(&["logits"], outputs),
            OrdinalHead::Coral => named(&["score"], 1),
        },
        Baseline::MixtureOfGaussians(_) | Baseline::Quantiles(_) => named(&["outputs"], outputs),
        Baseline::ConditionalVae(_) => {
            let reason =
                "the conditional autoencoder has no head for faces; take another baseline".to_owned();
            return Err(Error::config("of the baseline's head", reason));
        }
    })
}
