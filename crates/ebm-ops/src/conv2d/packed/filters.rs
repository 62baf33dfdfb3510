//! Packed weights and the choice of the method.

use std::sync::OnceLock;

use candle_core::Result;

use super::super::geometry::Geometry;
use super::direct;
use super::winograd::{Form, Winograd};
use crate::packed::{Epilogue, Panels, Workspace};

/// Weights in the order of [`Weights::forward`](super::weights::Weights::forward).
#[derive(Clone, Debug)]
pub(super) struct Filters {
    panels: Panels,
    /// Whether they are of a layer that is used again and again.
    kept: bool,
    /// The transformed weights, from the first map on that they suit: for large tiles and for small ones.
    winograd: [OnceLock<Winograd>; 2],
}

impl Filters {
    /// Of a layer that is used again and again.
    pub(super) fn kept(panels: Panels) -> Self {
        Self { panels, kept: true, winograd: Default::default() }
    }

    /// For one use.
    pub(super) fn once(panels: Panels) -> Self {
        Self { kept: false, ..Self::kept(panels) }
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
        if let Some(form) = Form::of(g, self.kept) {
            let [large, small] = &self.winograd;
            let kept = if form == Form::Large { large } else { small };
            let winograd = kept.get_or_init(|| Winograd::new(form, &self.panels, g.channels));
            winograd.convolve(x, g, epilogue, y, workspace);
            return Ok(());
        }
        direct::convolve(x, g, &self.panels, epilogue, y, workspace)
    }
}
