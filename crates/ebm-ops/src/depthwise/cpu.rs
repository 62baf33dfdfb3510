//! Loops over the rows of maps. Each number of the result belongs to one task, and sums have one order for every number of
//! threads.

use rayon::prelude::*;

use super::geometry::{Geometry, TapPixel};
use super::kernels::{Lanes, Map, Row, RowGradient, Taps};
use crate::float::Float;
use crate::gemm::even_ranges;
use crate::relu::Activation;
use crate::simd::{Vectorized, arch};
use crate::storage::unwritten;

/// Least number of products of a task.
const PRODUCTS: usize = 1 << 15;
/// Tasks of the weight's gradient, each with its own sums.
const TASKS: usize = 16;

/// Operations after the sums over the taps: a bias (C), unless it is empty, and an activation.
#[derive(Clone, Copy, Default)]
pub(super) struct Epilogue<'a, T> {
    pub(super) bias: &'a [T],
    pub(super) activation: Activation,
}

/// Returns y (N, oh, ow, C) of x (N, H, W, C) and w (kh·kw, C).
pub(super) fn forward<T: Lanes>(x: &[T], w: &[T], g: &Geometry) -> Vec<T> {
    let mut y = unwritten(g.batch * g.output[0] * g.output[1] * g.channels);
    forward_to(x, w, g, Epilogue { bias: &[], activation: Activation::None }, &mut y);
    y
}

/// Computes [`forward`] with an epilogue, to `y`.
pub(super) fn forward_to<T: Lanes>(x: &[T], w: &[T], g: &Geometry, epilogue: Epilogue<'_, T>, y: &mut [T]) {
    rows(x, g.input, w, g, [g.reads(0), g.reads(1)], epilogue, y);
}

/// Returns dx (N, H, W, C) from dy (N, oh, ow, C).
pub(super) fn input_gradient<T: Lanes>(dy: &[T], w: &[T], g: &Geometry) -> Vec<T> {
    let mut dx = unwritten(g.batch * g.input[0] * g.input[1] * g.channels);
    let epilogue = Epilogue { bias: &[], activation: Activation::None };
    rows(dy, g.output, w, g, [g.readers(0), g.readers(1)], epilogue, &mut dx);
    dx
}

/// Computes every row of `to`. `down` and `across` list the rows and columns of `from` that each of its rows and columns
/// reads.
fn rows<T: Lanes>(
    from: &[T],
    [height, width]: [usize; 2],
    w: &[T],
    g: &Geometry,
    [down, across]: [Vec<Vec<TapPixel>>; 2],
    Epilogue { bias, activation }: Epilogue<'_, T>,
    to: &mut [T],
) {
    let (len, arch) = (across.len() * g.channels, arch());
    let bounds = activation.bounds().map(T::from_f64);
    let rows = to.par_chunks_exact_mut(len).enumerate();
    rows.with_min_len(PRODUCTS.div_ceil(len * g.taps())).for_each(|(row, to)| {
        let image = &from[row / down.len() * height * width * g.channels..][..height * width * g.channels];
        let taps = Taps { w, kernel_w: g.kernel[1], rows: &down[row % down.len()], columns: &across };
        let from = Map { image, width, channels: g.channels };
        T::compute(arch, Row { to, from, taps, bias, bounds });
    });
}

/// Returns dw (kh·kw, C) from x (N, H, W, C) and dy (N, oh, ow, C).
pub(super) fn weight_gradient<T: Float>(x: &[T], dy: &[T], g: &Geometry) -> Vec<T> {
    let ([height, width], [out_h, out_w], arch) = (g.input, g.output, arch());
    let (down, across) = (g.reads(0), g.reads(1));
    let (image, row_len) = (height * width * g.channels, out_w * g.channels);
    let partial = |rows: std::ops::Range<usize>| {
        let mut dw = vec![T::zero(); g.taps() * g.channels];
        for row in rows {
            let image = &x[row / out_h * image..][..image];
            let taps = Taps { w: &[], kernel_w: g.kernel[1], rows: &down[row % out_h], columns: &across };
            let dy = &dy[row * row_len..][..row_len];
            let from = Map { image, width, channels: g.channels };
            RowGradient { dw: &mut dw, from, taps, dy }.dispatch(arch);
        }
        dw
    };
    let partials: Vec<Vec<T>> = even_ranges(g.batch * out_h, TASKS, 1).into_par_iter().map(partial).collect();
    let mut dw = vec![T::zero(); g.taps() * g.channels];
    for partial in partials {
        dw.iter_mut().zip(partial).for_each(|(sum, part)| *sum += part);
    }
    dw
}
