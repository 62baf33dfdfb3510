//! Direct regression: the network outputs y.

use candle_core::Tensor;
use ebm_base::settings;
use serde::{Deserialize, Serialize};

use super::{Parametric, batch, targets};
use crate::loss::{absolute, smooth_l1};
use crate::{Result, check};

settings! {
    /// Loss of direct regression, as a function of the difference d in each coordinate.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case", deny_unknown_fields)]
    pub enum DirectLoss {
        /// `d²`.
        L2,
        /// `|d|`.
        L1,
        /// Smooth-L1: `d²/(2β)` where `|d| < β`, `|d| − β/2` elsewhere. The paper's Huber loss is β = 1.
        Huber {
            /// β, a positive number in the units of y.
            beta: f64 where 1e-9..=1e6,
        },
    }
}

/// Direct regression (Section 2), whose P = D outputs are the prediction.
///
/// Direct regression has no density: the loss fits a location and no width. The loss is summed over the
/// coordinates as in Section 2, `‖ŷ − y‖²`; a mean over them would differ by the factor D.
#[derive(Clone, Debug, PartialEq)]
pub struct Direct {
    dim: usize,
    pub(super) loss: DirectLoss,
}

impl Direct {
    /// Creates a direct regression of `dim` coordinates.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting) when `dim` is 0 or β is not positive.
    pub fn new(dim: usize, loss: DirectLoss) -> Result<Self> {
        if let DirectLoss::Huber { beta } = loss {
            check::setting("beta", beta > 0.0 && beta.is_finite(), beta, "a positive number")?;
        }
        Ok(Self { dim: check::at_least_one("dim", dim)?, loss })
    }
}

impl Parametric for Direct {
    fn dim(&self) -> usize {
        self.dim
    }

    fn num_outputs(&self) -> usize {
        self.dim
    }

    fn loss(&self, outputs: &Tensor, y: &Tensor) -> Result<Tensor> {
        let y = targets(self, outputs, y)?; // (B, 1, D)
        let difference = (outputs.unsqueeze(1)? - y)?;
        let elements = match self.loss {
            DirectLoss::L2 => difference.sqr()?,
            DirectLoss::L1 => absolute(&difference)?,
            DirectLoss::Huber { beta } => smooth_l1(&difference, beta)?,
        };
        Ok(elements.sum(2)?.mean_all()?)
    }

    fn mean(&self, outputs: &Tensor) -> Result<Tensor> {
        batch(self, outputs)?;
        Ok(outputs.clone())
    }

    fn log_prob(&self, outputs: &Tensor, _: &Tensor) -> Result<Option<Tensor>> {
        batch(self, outputs)?;
        Ok(None)
    }
}
