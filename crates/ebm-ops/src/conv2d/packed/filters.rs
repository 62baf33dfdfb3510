//! Packed weights and the choice of the method: Winograd's, or a product over an image with a border of zeros, without
//! columns (implicit GEMM).

use std::sync::OnceLock;

use candle_core::Result;

use super::super::geometry::Geometry;
use super::border::{Frame, framed};
use super::winograd::{TileSize, Winograd};
use crate::packed::{Epilogue, Panels, Rows, Workspace, product};

/// Weights in the order of [`Weights::forward`](super::weights::Weights::forward).
#[derive(Clone, Debug)]
pub(super) struct Filters {
    panels: Panels,
    /// Whether they are the weights of a layer that is used repeatedly.
    kept: bool,
    /// Transformed weights for large tiles and for small ones. The first map that they suit computes them.
    winograd: [OnceLock<Winograd>; 2],
}

impl Filters {
    /// Makes the weights of a layer that is used repeatedly.
    pub(super) fn kept(panels: Panels) -> Self {
        Self { panels, kept: true, winograd: Default::default() }
    }

    /// Makes weights for one use.
    pub(super) fn once(panels: Panels) -> Self {
        Self { kept: false, ..Self::kept(panels) }
    }

    /// Computes `y ← epilogue(conv(x, w))` for x (N, H, W, C) and y (N, oh, ow, O).
    pub(super) fn convolve(
        &self,
        x: &[f32],
        g: &Geometry,
        epilogue: Epilogue<'_>,
        y: &mut [f32],
    ) -> Result<()> {
        if let Some(tile_size) = TileSize::for_convolution(g, self.kept) {
            let [large, small] = &self.winograd;
            let kept = if tile_size == TileSize::Large { large } else { small };
            let winograd = kept.get_or_init(|| Winograd::new(tile_size, &self.panels, g.channels));
            winograd.convolve(x, g, epilogue, y);
            return Ok(());
        }
        // The numbers under a row of the kernel lie end to end, so a row of A has one run for each row of the kernel.
        let frame = Frame::of(g);
        let image = framed(x, &frame);
        let (starts, runs) = (frame.starts([0, 0], g.output(), g.stride), frame.runs(g.kernel));
        let result = product(Rows { data: &image, starts: &starts, runs: &runs }, &self.panels, epilogue, y);
        Workspace::shared().give_owned(image);
        result
    }
}
