//! ATOM's classifier, which finds the approximate position of the target. Its two layers are trained while tracking.
//!
//! A projection w₁ and a filter w₂ compute the score φ(w₂ ∗ (w₁ x)) of each cell of the features x. The label is a
//! Gaussian about the target. The first frame trains both layers by Gauss-Newton. Later frames train the filter
//! alone, on remembered samples.

mod blocks;
mod gauss_newton;
mod label;
mod least_squares;
mod memory;

use candle_core::{D, Tensor};
use ebm_experiment::config::{check_ranges, settings_table};
use rand::RngCore;
use rand_distr::{Distribution, StandardNormal};

use self::blocks::Blocks;
use self::gauss_newton::gauss_newton;
use self::least_squares::{Mlu, Samples};
use self::memory::Memory;
use crate::Result;

settings_table! {
    /// Settings of the classifier.
    pub struct ClassifierConfig {
        /// Number of channels after the projection w₁.
        pub channels: usize where 1..=4096,
        /// Side of the filter w₂.
        pub kernel: usize where 1..=64 => "cells",
        /// m in φ(x) = m (e^{x/m} − 1) for x < 0.
        pub negative_slope: f64 where 1e-6..=1e3,
        /// Factor λ of ‖w₂‖².
        pub filter_regularisation: f64 where 1e-12..=1e6,
        /// Factor λ of ‖w₁‖².
        pub projection_regularisation: f64 where 1e-12..=1e6,
        /// Number of Gauss-Newton steps in the first frame.
        pub first_steps: usize where 0..=10_000,
        /// Number of iterations of conjugate gradients in each step of the first frame.
        pub first_iterations: usize where 0..=10_000,
        /// Number of iterations of conjugate gradients in a later update.
        pub update_iterations: usize where 0..=10_000,
        /// Frames between two updates.
        pub update_interval: usize where 1..=1_000_000_000 => "frames",
        /// Number of samples that are remembered.
        pub memory: usize where 0..=100_000,
        /// Growth of the weights of samples: a new sample has 1 / (1 − rate) times the weight of the sample before it.
        /// In the long run, its fraction of the total weight is the rate.
        pub learning_rate: f64 where 0.0..=0.999,
        /// Learning rate of a frame with a hard negative.
        pub hard_negative_learning_rate: f64 where 0.0..=0.999,
        /// Minimum fraction of the total weight that the first frame's samples keep.
        pub initial_share: f64 where 0.0..=0.999,
        /// Standard deviation of the label, as a fraction of √(width · height) of the target.
        pub label_sigma: f64 where 1e-6..=1e3,
    }
}

impl Default for ClassifierConfig {
    /// Returns ATOM's settings.
    fn default() -> Self {
        Self {
            channels: 64,
            kernel: 4,
            negative_slope: 0.05,
            filter_regularisation: 0.1,
            projection_regularisation: 1e-4,
            first_steps: 6,
            first_iterations: 10,
            update_iterations: 5,
            update_interval: 10,
            memory: 250,
            learning_rate: 0.01,
            hard_negative_learning_rate: 0.02,
            initial_share: 0.25,
            label_sigma: 0.25,
        }
    }
}

/// Features after the projection, `(N, H·W, P)`.
#[derive(Clone, Debug)]
pub struct Projected(Tensor);

/// The classifier of one target.
#[derive(Clone, Debug)]
pub struct Classifier {
    config: ClassifierConfig,
    /// Side H = W of the features, in cells.
    size: usize,
    /// Standard deviation of the label, in cells.
    sigma: f64,
    /// Projection w₁ `(C, P)`.
    projection: Tensor,
    /// Filter w₂ `(P, kernel²)`.
    filter: Tensor,
    memory: Memory,
}

impl Classifier {
    /// Trains w₁ and w₂ on views of the first frame. `features` `(N, C, H, H)` are [`normalised`](Self::normalised). In
    /// view i, the target is `offsets[i]` = (y, x) cells from the centre. `target_cells` is √(width · height) of the
    /// target, in cells.
    ///
    /// # Errors
    /// [`crate::Error::Config`] for invalid settings; else when a tensor operation fails.
    pub fn new(
        config: &ClassifierConfig,
        features: &Tensor,
        offsets: &[[f64; 2]],
        target_cells: f64,
        rng: &mut dyn RngCore,
    ) -> Result<Self> {
        check_ranges("classifier", config)?;
        let (n, channels, size, _) = features.dims4()?;
        let sigma = config.label_sigma * target_cells;
        let rows = rows_of_channels(features)?;
        let device = features.device();
        let labels = offsets
            .iter()
            .map(|offset| label::gaussian_label(size, config.kernel, sigma, *offset, device))
            .collect::<Result<Vec<_>>>()?;
        let labels = Tensor::cat(&labels, 0)?.to_dtype(features.dtype())?;
        let weights = Tensor::full(1.0 / n as f64, n, device)?.to_dtype(features.dtype())?;

        // The scores are bilinear, so at zero the gradient vanishes. The initial values are random.
        let mut draw = |shape: (usize, usize), deviation: f64| -> Result<Tensor> {
            let normal = |_| {
                let value: f64 = StandardNormal.sample(&mut *rng);
                value * deviation
            };
            let values: Vec<f64> = (0..shape.0 * shape.1).map(normal).collect();
            Ok(Tensor::from_vec(values, shape, device)?.to_dtype(features.dtype())?)
        };
        let taps = config.kernel * config.kernel;
        let [filter_deviation, projection_deviation] = initial_deviations(channels, config.channels * taps);
        let projection = draw((channels, config.channels), projection_deviation)?;
        let theta: Blocks = vec![draw((config.channels, taps), filter_deviation)?, projection];
        let mlu = Mlu(config.negative_slope);
        let samples = Samples::new(&rows, &labels, &weights, config.kernel, mlu)?;
        let lambda = [config.filter_regularisation, config.projection_regularisation];
        let theta = gauss_newton(&samples, &lambda, theta, config.first_steps, config.first_iterations)?;
        let [filter, projection] = [theta[0].clone(), theta[1].clone()];
        let projected = rows.broadcast_matmul(&projection)?;
        let memory = Memory::new(&projected, &labels, config.memory, config.initial_share)?;
        Ok(Self { config: config.clone(), size, sigma, projection, filter, memory })
    }

    /// Divides the features `(N, C, H, H)` of each image by the root of their mean square.
    ///
    /// # Errors
    /// When the features have another shape.
    pub fn normalised(features: &Tensor) -> Result<Tensor> {
        let power = features.sqr()?.flatten_from(1)?.mean(D::Minus1)?;
        let scale = (power + 1e-10)?.sqrt()?.recip()?.reshape(((), 1, 1, 1))?;
        Ok(features.broadcast_mul(&scale)?)
    }

    /// Normalises the features x `(N, C, H, H)` and computes w₁ x.
    ///
    /// # Errors
    /// When the features have another shape.
    pub fn project(&self, features: &Tensor) -> Result<Projected> {
        Ok(Projected(rows_of_channels(&Self::normalised(features)?)?.broadcast_matmul(&self.projection)?))
    }

    /// Computes the score w₂ ∗ (w₁ x) of each cell, `(N, H, H)`.
    ///
    /// # Errors
    /// When a tensor operation fails.
    pub fn scores(&self, features: &Projected) -> Result<Tensor> {
        let products = features.0.broadcast_matmul(&self.filter)?;
        let n = products.dim(0)?;
        Ok(ebm_ops::heads::sum_taps(&products.reshape((n, self.size, self.size, ()))?)?)
    }

    /// Adds a frame to the memory. Its target is `offset` = (y, x) cells from the centre.
    ///
    /// # Errors
    /// When a tensor operation fails.
    pub fn remember(&mut self, features: &Projected, offset: [f64; 2], hard_negative: bool) -> Result<()> {
        let (x, kernel) = (&features.0, self.config.kernel);
        let label = label::gaussian_label(self.size, kernel, self.sigma, offset, x.device())?;
        let config = &self.config;
        let rate = if hard_negative { config.hard_negative_learning_rate } else { config.learning_rate };
        self.memory.add(x, &label.to_dtype(x.dtype())?, rate)
    }

    /// Trains the filter on the samples in the memory.
    ///
    /// # Errors
    /// When a tensor operation fails.
    pub fn update(&mut self) -> Result<()> {
        let config = &self.config;
        let (x, labels, weights) = self.memory.contents()?;
        let samples = Samples::new(&x, &labels, &weights, config.kernel, Mlu(config.negative_slope))?;
        let lambda = [config.filter_regularisation];
        let theta = gauss_newton(&samples, &lambda, vec![self.filter.clone()], 1, config.update_iterations)?;
        self.filter = theta[0].clone();
        Ok(())
    }

    /// Returns `true` if the filter is due for an update in frame `frame`. The first frame is 0.
    pub fn is_due(&self, frame: usize) -> bool {
        frame >= 1 && frame.is_multiple_of(self.config.update_interval)
    }

    /// Returns the shift of a score map from the features, in cells along each side.
    pub fn shift(&self) -> f64 {
        label::kernel_shift(self.config.kernel)
    }
}

/// Returns the standard deviations of the initial w₂, a filter of `taps` numbers, and of the initial w₁, a projection
/// of `channels` channels. As in ATOM, w₂ starts near zero, so that the first step changes w₂ alone.
fn initial_deviations(channels: usize, taps: usize) -> [f64; 2] {
    [(taps as f64).recip(), (channels as f64).sqrt().recip()]
}

/// Reorders `(N, C, H, W)` -> `(N, H·W, C)`.
fn rows_of_channels(features: &Tensor) -> Result<Tensor> {
    Ok(features.flatten_from(2)?.transpose(1, 2)?.contiguous()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published settings draw w₂, 4 × 4 taps of 64 channels, with a standard deviation of 1/1024, and w₁
    /// of 256 channels with 1/16.
    #[test]
    fn the_filter_begins_near_zero() {
        assert_eq!(initial_deviations(256, 64 * 16), [1.0 / 1024.0, 1.0 / 16.0]);
    }
}
