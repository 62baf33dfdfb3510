//! Where samples of Eq. 4 come from: Eq. 5 and its rivals.

mod boxes;
mod gaussian_mixture;
mod uniform;

use candle_core::Tensor;
use rand::RngCore;

pub use boxes::{IouStratified, PerturbedBoxes};
pub use gaussian_mixture::{GaussianMixture, SharedOffsets};
pub use uniform::Uniform;

use crate::Result;

/// A distribution `q(y | y_i)` that depends on the target `y_i`: samples and their density.
pub trait Proposal {
    /// `num_samples` draws for each of the B centres `y_i`: `center` is `(B, D)`, the result `(B, M, D)` with
    /// the type and device of `center`.
    ///
    /// # Errors
    /// When `center` has another shape than the distribution, or there is nothing to draw.
    fn sample(&self, center: &Tensor, num_samples: usize, rng: &mut dyn RngCore) -> Result<Tensor>;

    /// `log q(y | y_i)`, shape `(B, M)`, at `y`, shape `(B, M, D)`, for the centres `(B, D)`.
    ///
    /// # Errors
    /// When the shapes do not fit together.
    fn log_prob(&self, y: &Tensor, center: &Tensor) -> Result<Tensor>;

    /// [`sample`](Self::sample) and [`log_prob`](Self::log_prob) of the samples, for a distribution that has
    /// both at a lower price than one after the other.
    ///
    /// # Errors
    /// Those of the two.
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

/// What points to a proposal is one.
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
