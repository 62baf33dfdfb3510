//! The gradient of a convolution in its input: convolutions of the output's gradient with mirrored kernels.
//!
//! Output q reads input i = s·q + u − p by tap u. So an input i takes part only through the taps u ≡ i + p (mod s). With i +
//! p = s·q + a and u = a + s·t, `dx[i] = Σ_t w[a + s·t] · dy[q − t]`. For each of the s² phases a this is a convolution of
//! stride 1 with some of the taps, backwards. With stride 1 the only phase is all of dx.

use candle_core::Result;
use rayon::prelude::*;

use super::super::geometry::Geometry;
use super::border::{Frame, framed};
use super::filters::Filters;
use super::weights::Weights;
use super::{stored, weights};
use crate::packed::{Epilogue, Rows, Workspace, product};
use crate::storage::{unwritten, zeros};

/// Returns dx (N, H, W, C) from dy (N, oh, ow, O).
pub(in crate::conv2d) fn input_gradient(w: &[f32], dy: &[f32], g: &Geometry) -> Result<Vec<f32>> {
    if stored::suits(g) {
        return stored::input_gradient(dy, w, g);
    }
    let w = weights(w, g);
    let len = g.batch * g.height * g.width * g.channels;
    if g.stride == 1 && g.padding[0] < g.kernel[0] && g.padding[1] < g.kernel[1] {
        let [height, width] = g.output();
        let mirrored = Geometry {
            channels: g.filters,
            height,
            width,
            filters: g.channels,
            padding: [0, 1].map(|axis| g.kernel[axis] - 1 - g.padding[axis]),
            ..*g
        };
        let taps = g.kernel.map(|size| (0..size).rev().collect::<Vec<_>>());
        let filters = Filters::once(w.backward([&taps[0], &taps[1]]));
        let mut dx = unwritten(len);
        filters.convolve(dy, &mirrored, Epilogue::default(), &mut dx)?;
        return Ok(dx);
    }
    let phases = [0, 1].map(|axis| (0..g.stride).map(|a| Phase::new(g, axis, a)).collect::<Vec<_>>());
    let frame = frame(g, &phases);
    let (image, mut dx) = (framed(dy, &frame), zeros(len));
    for down in &phases[0] {
        for across in &phases[1] {
            convolve_phase([down, across], &image, &frame, w, g, &mut dx)?;
        }
    }
    Workspace::shared().give_owned(image);
    Ok(dx)
}

/// The inputs i ≡ a − p (mod s) along an axis.
struct Phase {
    /// Taps u ≡ a (mod s), last first.
    taps: Vec<usize>,
    /// First input of the phase.
    first: usize,
    /// Number of inputs of the phase.
    count: usize,
    /// q of the first input.
    q: usize,
}

impl Phase {
    fn new(g: &Geometry, axis: usize, a: usize) -> Self {
        let (size, padding, s) = ([g.height, g.width][axis], g.padding[axis], g.stride);
        let q = padding.saturating_sub(a).div_ceil(s);
        let first = s * q + a - padding;
        let taps = (a..g.kernel[axis]).step_by(s).collect::<Vec<_>>().into_iter().rev().collect();
        Self { taps, first, count: size.saturating_sub(first).div_ceil(s), q }
    }
}

/// Returns the sizes of dy with enough zeros around it for every phase.
fn frame(g: &Geometry, phases: &[Vec<Phase>; 2]) -> Frame {
    let inner = g.output();
    let before = g.kernel.map(|size| size.div_ceil(g.stride) - 1);
    let outer = [0, 1].map(|axis| {
        let ends = phases[axis].iter().map(|phase| phase.q + phase.count);
        before[axis] + ends.chain([inner[axis]]).max().unwrap_or_default()
    });
    Frame { batch: g.batch, channels: g.filters, inner, before, outer }
}

fn convolve_phase(
    phase: [&Phase; 2],
    image: &[f32],
    frame: &Frame,
    w: Weights<'_>,
    g: &Geometry,
    dx: &mut [f32],
) -> Result<()> {
    let [taps, counts] = [phase.map(|p| p.taps.len()), phase.map(|p| p.count)];
    if taps.contains(&0) || counts.contains(&0) {
        return Ok(());
    }
    let panels = w.backward(phase.map(|p| p.taps.as_slice()));
    // The place of the gradient that meets the last tap, which is the first in order.
    let corner = [0, 1].map(|axis| frame.before[axis] + phase[axis].q + 1 - taps[axis]);
    let (starts, runs) = (frame.starts(corner, counts, 1), frame.runs(taps));
    let mut part = Workspace::shared().take(starts.len() * g.channels);
    product(Rows { data: image, starts: &starts, runs: &runs }, &panels, Epilogue::default(), &mut part)?;
    scatter(&part, phase, g, dx);
    Workspace::shared().give(part);
    Ok(())
}

/// Writes the gradients of a phase's inputs, (N, count, count, C), to their places.
fn scatter(part: &[f32], [down, across]: [&Phase; 2], g: &Geometry, dx: &mut [f32]) {
    let (c, row) = (g.channels, across.count * g.channels);
    dx.par_chunks_mut(g.width * c).enumerate().for_each(|(i, to)| {
        let (n, i) = (i / g.height, i % g.height);
        if i < down.first || !(i - down.first).is_multiple_of(g.stride) {
            return;
        }
        let from = &part[(n * down.count + (i - down.first) / g.stride) * row..][..row];
        for (j, from) in from.chunks_exact(c).enumerate() {
            to[(across.first + j * g.stride) * c..][..c].copy_from_slice(from);
        }
    });
}
