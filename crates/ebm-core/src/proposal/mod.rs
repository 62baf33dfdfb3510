//! Proposals, the distributions of the samples in Eq. 4: Eq. 5 and its rivals.

mod boxes;
mod gaussian_mixture;
mod uniform;

use candle_core::Tensor;
use rand::RngCore;

pub use boxes::{IouStratified, PerturbedBoxes};
pub use gaussian_mixture::{GaussianMixture, SharedOffsets};
pub use uniform::Uniform;

use crate::Result;

/// Distribution `q(y | y_i)` that depends on the target `y_i`, with samples and their density.
pub trait Proposal {
    /// Draws `num_samples` samples for each of the B centres `y_i`. `center` is `(B, D)`, and the result is
    /// `(B, M, D)` with the type and device of `center`.
    ///
    /// # Errors
    /// If `center` has another shape than the distribution, or `num_samples` is 0.
    fn sample(&self, center: &Tensor, num_samples: usize, rng: &mut dyn RngCore) -> Result<Tensor>;

    /// Returns `log q(y | y_i)`, shape `(B, M)`, at `y`, shape `(B, M, D)`, for the centres `center`, `(B, D)`.
    ///
    /// # Errors
    /// If the shapes do not fit together.
    fn log_prob(&self, y: &Tensor, center: &Tensor) -> Result<Tensor>;

    /// Returns the results of [`sample`](Self::sample) and of [`log_prob`](Self::log_prob) at the samples.
    /// Override this method if both together cost less than one after the other.
    ///
    /// # Errors
    /// The errors of both methods.
    fn sample_with_log_prob(
        &self,
        center: &Tensor,
        num_samples: usize,
        rng: &mut dyn RngCore,
    ) -> Result<(Tensor, Tensor)> {
        let samples = self.sample(center, num_samples, rng)?;
        let log_q = self.log_prob(&samples, center)?;
        Ok((samples, log_q))
    }
}

/// Implements [`Proposal`] for a pointer to a proposal.
macro_rules! pointer {
    ($pointer:ty) => {
        impl<P: Proposal + ?Sized> Proposal for $pointer {
            fn sample(&self, center: &Tensor, num_samples: usize, rng: &mut dyn RngCore) -> Result<Tensor> {
                (**self).sample(center, num_samples, rng)
            }

            fn log_prob(&self, y: &Tensor, center: &Tensor) -> Result<Tensor> {
                (**self).log_prob(y, center)
            }

            fn sample_with_log_prob(
                &self,
                center: &Tensor,
                num_samples: usize,
                rng: &mut dyn RngCore,
            ) -> Result<(Tensor, Tensor)> {
                (**self).sample_with_log_prob(center, num_samples, rng)
            }
        }
    };
}

pointer!(&P);
pointer!(Box<P>);
