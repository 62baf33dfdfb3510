//! Models of Section 2 and of the supplement, which the paper compares with and refines.
//!
//! Each model is a family of densities `p(y; φ)` whose parameters φ are the outputs of a network for x, or a loss
//! that can be read as one. All implement [`Parametric`], which has a loss for training and the mean, prediction
//! and density of the result.
//!
//! | in the paper | here |
//! |---|---|
//! | Direct: L² or Huber (Tables 4 and 5; Faster-RCNN in Table 2) | [`Direct`] |
//! | Gaussian | [`Gaussian`] |
//! | Laplace (Tables 2 and 4) | [`Laplace`] |
//! | Laplace of the head pose (Table 5) | [`JointLaplace`] |
//! | Gaussian mixture of 2, 4, 8 (Table 2) | [`MixtureOfGaussians`], whose density is a [`GaussianMixtureDensity`] |
//! | Gaussian cVAE (Table 2) | [`ConditionalVae`] with the networks of a [`LatentVariableModel`] |
//! | Softmax with CE, L² and Var (Tables 4 and 5) | [`Softmax`] over [`Bins`] |
//! | Quantile regression, not in the paper | [`Quantiles`] |
//! | Niu et al., Cao et al. (Table 4) | [`Ordinal`] with [`OrdinalHead::Niu`], [`OrdinalHead::Coral`] |
//! | Any of them, from a configuration file | [`Baseline`] |
//!
//! ```
//! use candle_core::{Device, Tensor, Var};
//! use ebm_core::parametric::{Gaussian, Parametric};
//!
//! let model = Gaussian::new(1)?;
//! let outputs = Var::new(&[[35.5, 4f64.ln()]], &Device::Cpu)?; // a network's: mean and log σ², (B, P)
//! let y = Tensor::new(&[[37.0]], &Device::Cpu)?; // (B, D)
//! let gradients = model.loss(&outputs, &y)?.backward()?;
//! assert!(gradients.get(&outputs).is_some());
//! assert_eq!(model.predict(&outputs)?.to_vec2::<f64>()?, [[35.5]]);
//! # Ok::<(), ebm_core::Error>(())
//! ```

mod baseline;
mod bins;
mod conditional_vae;
mod direct;
mod location_scale;
mod mixture;
mod mixture_density;
mod ordinal;
mod quantiles;
mod softmax;

use candle_core::Tensor;

pub use baseline::Baseline;
pub use bins::Bins;
pub use conditional_vae::{ConditionalVae, LatentVariableModel};
pub use direct::{Direct, DirectLoss};
pub use location_scale::{Gaussian, JointLaplace, Laplace, gaussian_kl};
pub use mixture::MixtureOfGaussians;
pub use mixture_density::GaussianMixtureDensity;
pub use ordinal::{Ordinal, OrdinalHead, coral_logits};
pub use quantiles::Quantiles;
pub use softmax::Softmax;

use crate::{Error, Result, check};

/// Model `p(y | x) = p(y; φ(x))` of targets with D coordinates, whose parameters φ are P outputs of a network.
///
/// The outputs of a batch of B inputs are `(B, P)`, in the layout of each family. All results are differentiable
/// in the outputs, except those [`predict`](Self::predict) results that select or count.
pub trait Parametric {
    /// Returns D, the number of coordinates of a target.
    fn dim(&self) -> usize;

    /// Returns P, the number of outputs of the network for each x.
    fn num_outputs(&self) -> usize;

    /// Returns the scalar loss of `outputs`, `(B, P)`, at the targets `y`, `(B, D)`: the published loss, summed
    /// over the coordinates and averaged over the batch. The gradient reaches the outputs and not the targets.
    ///
    /// # Errors
    /// [`Error::Empty`] for an empty batch, [`Error::NonFinite`] for a target that is not finite, and
    /// [`Error::Shape`].
    fn loss(&self, outputs: &Tensor, y: &Tensor) -> Result<Tensor>;

    /// Returns the expected value of y, `(B, D)`.
    ///
    /// # Errors
    /// [`Error::Empty`] and [`Error::Shape`].
    fn mean(&self, outputs: &Tensor) -> Result<Tensor>;

    /// Returns the prediction of the paper, `(B, D)`, which is also the initial estimate that the paper refines.
    /// The default is the mean.
    ///
    /// # Errors
    /// The errors of [`mean`](Self::mean), and [`Error::NonFinite`] if a comparison of the outputs needs finite
    /// ones.
    fn predict(&self, outputs: &Tensor) -> Result<Tensor> {
        self.mean(outputs)
    }

    /// Returns `log p(y | x)`, `(B, M)`, of the candidates `y`, `(B, M, D)`, in nats. The density is normalised,
    /// including all constants that the loss leaves out. Returns `None` for a model without a density.
    ///
    /// # Errors
    /// The errors of [`predict`](Self::predict).
    fn log_prob(&self, outputs: &Tensor, y: &Tensor) -> Result<Option<Tensor>>;
}

/// Name of the tensor `(B, P)` in error messages.
const OUTPUTS: &str = "the network's outputs";

/// Returns B of the outputs `(B, P)` of `model`.
fn batch(model: &impl Parametric, outputs: &Tensor) -> Result<usize> {
    let (batch, _) = check::dims2(OUTPUTS, outputs)?;
    check::dims(OUTPUTS, outputs, "(B, P)", &[batch, model.num_outputs()])?;
    Ok(batch)
}

/// Returns the targets `y`, `(B, D)`, as detached candidates `(B, 1, D)`, after a check that they are finite.
fn targets(model: &impl Parametric, outputs: &Tensor, y: &Tensor) -> Result<Tensor> {
    let batch = batch(model, outputs)?;
    check::dims("the target y", y, "(B, D)", &[batch, model.dim()])?;
    check::finite("the target y", y)?;
    Ok(y.detach().unsqueeze(1)?)
}

/// Returns M of the candidates `y`, `(B, M, D)`, which must be at least 1.
fn count(model: &impl Parametric, outputs: &Tensor, y: &Tensor) -> Result<usize> {
    let batch = batch(model, outputs)?;
    let (_, count, _) = check::dims3("y", y)?;
    check::dims("y", y, "(B, M, D)", &[batch, count, model.dim()])?;
    if count == 0 {
        return Err(Error::Empty { what: "y", shape: y.dims().to_vec() });
    }
    Ok(count)
}
