//! Packed weights and the choice of the method.

use std::sync::OnceLock;

use candle_core::Result;

use super::super::geometry::Geometry;
use super::direct;
use super::winograd::{self, Winograd};
use crate::ops::packed::{Epilogue, Panels, Workspace};

/// Weights in the order of [`Weights::forward`](super::weights::Weights::forward).
#[derive(Clone, Debug)]
pub(super) struct Filters {
    panels: Panels,
    /// The transformed weights, from the first map on that they suit.
    winograd: OnceLock<Winograd>,
}

impl Filters {
    pub(super) fn new(panels: Panels) -> Self {
        Self { panels, winograd: OnceLock::new() }
    }

    /// `y ← epilogue(conv(x, w))`, x (N, H, W, C), y (N, oh, ow, O).
    pub(super) fn convolve(
        &self,
        x: &[f32],
        g: &Geometry,
        epilogue: Epilogue<'_>,
        y: &mut [f32],
        workspace: &Workspace,
    ) -> Result<()> {
        if winograd::suits(g) {
            let winograd = self.winograd.get_or_init(|| Winograd::new(&self.panels, g.channels));
            winograd.convolve(x, g, epilogue, y, workspace);
            return Ok(());
        }
        direct::convolve(x, g, &self.panels, epilogue, y, workspace)
    }
}
