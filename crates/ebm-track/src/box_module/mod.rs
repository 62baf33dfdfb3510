//! The modulated box module: f(x, y) of a box y in a frame x, given a reference frame of the target (Section 4.2).
//!
//! ```text
//! reference frame, its box ── reference branch ── two modulation vectors      once per target
//! test frame ── test branch · modulation vectors ── two maps                  once per frame
//! box ── PrRoIPool of both maps ── one layer each ── f                        for every box, with its gradient
//! ```
//!
//! Parameters have the names of ATOM's `bb_regressor`. A box is `(x, y, w, h)` in pixels of the crop and
//! covers the continuous region from (x, y) to (x + w, y + h).
//!
//! | item | meaning |
//! |---|---|
//! | [`BoxModule`] | the network |
//! | [`BoxNetwork`] | the interface that a tracker uses |
//! | [`PixelSteps`] | f over `(x, y, w, h)` with ATOM's step |

mod features;
mod layers;
mod network;
mod onnx;
mod packed;
mod pixel_steps;

use candle_core::Tensor;
use ebm_core::EnergyModel;
use ebm_experiment::config::settings_table;

pub use features::{Modulation, TargetFeatures, TestFeatures, corners, rects};
pub use network::BoxModule;
pub use pixel_steps::PixelSteps;

use crate::{BackboneFeatures, Result};

/// Scales of layer2 and layer3: pixels of the map per pixel of the crop.
const SCALES: [f64; 2] = [1.0 / 8.0, 1.0 / 16.0];

settings_table! {
    /// Sizes of a [`BoxModule`].
    #[derive(Eq)]
    pub struct BoxModuleConfig {
        /// Channels of layer2 and layer3.
        pub backbone: [usize; 2] where 1..=65_536,
        /// Channels of the reference branch's convolution of layer2.
        pub reference: usize where 1..=65_536,
        /// Channels of the other inner layers.
        pub hidden: usize where 1..=65_536,
        /// Channels of the two modulated maps.
        pub pred_input: [usize; 2] where 1..=65_536,
        /// Outputs of the layers on pooled boxes, one layer for each map.
        pub pred_inter: [usize; 2] where 1..=65_536,
        /// Bins along each side in the pooling of the reference branch.
        pub reference_pool: [usize; 2] where 1..=64,
        /// Bins along each side in the pooling of the test branch.
        pub pool: [usize; 2] where 1..=64,
    }
}

impl BoxModuleConfig {
    /// Returns ATOM's sizes for maps with the channels `backbone`, [128, 256] for ResNet-18.
    pub fn atom(backbone: [usize; 2]) -> Self {
        Self {
            backbone,
            reference: 128,
            hidden: 256,
            pred_input: [256, 256],
            pred_inter: [256, 256],
            reference_pool: [3, 1],
            pool: [5, 3],
        }
    }

    /// Returns these sizes with the channels of every layer of the module divided by `factor`, at least one.
    pub fn narrowed(self, factor: usize) -> Self {
        let fewer = |channels: usize| (channels / factor.max(1)).max(1);
        Self {
            reference: fewer(self.reference),
            hidden: fewer(self.hidden),
            pred_input: self.pred_input.map(fewer),
            pred_inter: self.pred_inter.map(fewer),
            ..self
        }
    }
}

/// The interface of a box module that a tracker uses.
pub trait BoxNetwork: EnergyModel<Features = TargetFeatures> {
    /// Computes the modulation by the targets in `boxes` `(N, 4)`, x, y, w, h, of the N crops with features
    /// `reference`.
    ///
    /// # Errors
    /// When shapes do not fit or a box is not finite.
    fn modulation(&self, reference: &BackboneFeatures, boxes: &Tensor) -> Result<Modulation>;

    /// Computes the modulated maps of the N crops with features `test`, for one target or for N targets.
    ///
    /// # Errors
    /// When shapes do not fit.
    fn test_features(&self, test: &BackboneFeatures, modulation: &Modulation) -> Result<TestFeatures>;

    /// Computes f `(B, M)` of boxes with the corners `corners` `(B, M, 4)`, x0, y0, x1, y1, M in each of the B test
    /// crops. A box without area has a value but no gradient.
    ///
    /// # Errors
    /// When shapes do not fit.
    fn corner_scores(&self, features: &TestFeatures, corners: &Tensor) -> Result<Tensor>;

    /// Computes f `(B, M)` and its gradient in the corners `(B, M, 4)`.
    ///
    /// # Errors
    /// As [`corner_scores`](Self::corner_scores).
    fn corner_gradients(&self, features: &TestFeatures, corners: &Tensor) -> Result<(Tensor, Tensor)>;
}
