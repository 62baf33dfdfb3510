//! An inverted residual (Sandler et al., 2018) of constant parameters in one pass: f32, on the CPU.
//!
//! The map between expansion and projection is several times larger than input and output, and layer after layer
//! it would go to memory and back twice. Here a task makes a few of its channels, as many as a panel of weights
//! has columns, of a band of rows: what the depthwise convolution reads stays in the second-level cache, and
//! only what it makes, which the projection reads, is written out.

use std::ops::Range;

use candle_core::{CpuStorage, DType, Result as CandleResult, Shape, Tensor};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::Padding;
use super::kernel::{Argument, Kernel};
use super::layout::Order;
use super::packed::{
    Epilogue, MOST_ROWS, Panels, Rows, Sums, VECTORS, Workspace, finish, line_start, multiply, product, room,
    tile, tiles,
};
use super::relu::Activation;
use super::storage::elements;
use crate::{Error, Result};

/// Numbers of the map that a task expands: they stay in the second-level cache.
const BAND: usize = 96 << 10;
/// Neighbouring pixels of a row that are summed at a time, so that a weight is read once for all of them.
const PIXELS: usize = 6;

/// A layer's weight (O, I, k, k), depthwise (O, 1, k, k), and its bias (O), f32.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameters<'a> {
    pub(crate) weight: &'a Tensor,
    pub(crate) bias: Option<&'a Tensor>,
}

impl<'a> Parameters<'a> {
    /// Those of a layer, weight and bias.
    pub(crate) fn of((weight, bias): &'a (Tensor, Option<Tensor>)) -> Self {
        Self { weight, bias: bias.as_ref() }
    }
}

/// `y = project(activation(depthwise(activation(expand(x))))) [+ x]`, maps with the channels innermost. For
/// inference: no gradient. Results have the same bits for every number of threads, and as layer after layer.
#[derive(Clone, Debug)]
pub(crate) struct PackedInverted {
    /// (inputs × channels) and its bias; none where x is not expanded.
    expand: Option<(Panels, Vec<f32>)>,
    /// Panel after panel of the channels (k·k, width), and the bias, both filled up with zeros.
    taps: Vec<f32>,
    bias: Vec<f32>,
    /// (channels × outputs), the channels filled up as the panels are.
    project: Panels,
    project_bias: Vec<f32>,
    inputs: usize,
    kernel: usize,
    stride: usize,
    padding: Padding,
    activation: Activation,
}

impl PackedInverted {
    /// Whether there is a loop for depthwise kernels (k, k) of this stride.
    pub(crate) fn serves(kernel: usize, stride: usize) -> bool {
        matches!((kernel, stride), (3 | 5, 1 | 2))
    }

    /// Of the expansion's (C, I, 1, 1), if any, the depthwise convolution's (C, 1, k, k) and the projection's
    /// (O, C, 1, 1) parameters; `activation` follows the first two.
    ///
    /// # Errors
    /// [`Error::Argument`] where shapes do not fit, or k and the stride have [no loop](Self::serves).
    pub(crate) fn new(
        expand: Option<Parameters<'_>>,
        depthwise: Parameters<'_>,
        project: Parameters<'_>,
        stride: usize,
        padding: Padding,
        activation: Activation,
    ) -> Result<Self> {
        let (&[channels, 1, kernel, across], &[outputs, depth, 1, 1]) =
            (depthwise.weight.dims(), project.weight.dims())
        else {
            return refuse(format!(
                "expected weights (C, 1, k, k) and (O, C, 1, 1), got {:?} and {:?}",
                depthwise.weight.dims(),
                project.weight.dims()
            ));
        };
        let inputs = match expand.map(|expand| expand.weight.dims()) {
            None => channels,
            Some(&[filters, inputs, 1, 1]) if filters == channels => inputs,
            Some(found) => return refuse(format!("expected a weight ({channels}, I, 1, 1), got {found:?}")),
        };
        if depth != channels || kernel != across || !Self::serves(kernel, stride) {
            return refuse(format!(
                "{channels} channels of kernels {kernel} × {across} with stride {stride}, and a projection of {depth}"
            ));
        }
        let packed = |layer: Parameters<'_>, inputs| {
            Ok::<_, Error>(Panels::transposed(&numbers(layer.weight)?, inputs, 1))
        };
        let expand = match expand {
            Some(expand) => Some((packed(expand, inputs)?, bias(expand, channels)?)),
            None => None,
        };
        let mut project_panels = Panels::zeros(channels, outputs);
        let width = project_panels.width();
        let padded = channels.next_multiple_of(width);
        if padded > channels {
            project_panels = Panels::zeros(padded, outputs);
        }
        let weights = numbers(project.weight)?;
        for (panel, to) in project_panels.panels_mut_in_order().enumerate() {
            for (j, row) in weights.chunks_exact(channels).skip(panel * width).take(width).enumerate() {
                row.iter().zip(to[j..].iter_mut().step_by(width)).for_each(|(w, to)| *to = *w);
            }
        }
        let area = kernel * kernel;
        let mut taps = vec![0.0; padded * area];
        for (channel, own) in numbers(depthwise.weight)?.chunks_exact(area).enumerate() {
            let to = &mut taps[channel / width * width * area + channel % width..];
            own.iter().zip(to.iter_mut().step_by(width)).for_each(|(w, to)| *to = *w);
        }
        let mut depthwise_bias = bias(depthwise, channels)?;
        depthwise_bias.resize(padded, 0.0);
        Ok(Self {
            expand,
            taps,
            bias: depthwise_bias,
            project: project_panels,
            project_bias: bias(project, outputs)?,
            inputs,
            kernel,
            stride,
            padding,
            activation,
        })
    }

    /// x (N, H, W, I) -> (N, oh, ow, O), plus x where `residual`.
    ///
    /// # Errors
    /// [`Error::Argument`] where x has another number of channels, is smaller than the kernel, or is to be added
    /// to a result of another shape.
    pub(crate) fn forward(&self, x: &Tensor, residual: bool) -> Result<Tensor> {
        let &[batch, height, width, inputs] = x.dims() else {
            return refuse(format!("expected x (N, H, W, C), got {:?}", x.dims()));
        };
        let along = |size| self.padding.along(size, self.kernel, self.stride);
        let (Some(down), Some(across), true) = (along(height), along(width), inputs == self.inputs) else {
            return refuse(format!(
                "kernels of {} with {:?} over {} channels do not fit {:?}",
                self.kernel,
                self.padding,
                self.inputs,
                x.dims()
            ));
        };
        let layer = Layer {
            parameters: self,
            batch,
            input: [height, width],
            before: [down.0, across.0],
            output: [down.1, across.1],
            residual,
        };
        if residual && (layer.output, self.project.columns()) != (layer.input, inputs) {
            return refuse(format!("x {:?} is not of the result's shape", x.dims()));
        }
        Ok(layer.run([x])?)
    }
}

struct Layer<'a> {
    parameters: &'a PackedInverted,
    batch: usize,
    input: [usize; 2],
    /// The zeros above and left of a map.
    before: [usize; 2],
    output: [usize; 2],
    residual: bool,
}

impl Kernel<1> for Layer<'_> {
    fn name(&self) -> &'static str {
        "inverted residual"
    }

    fn shape(&self, _: [&Shape; 1]) -> CandleResult<Shape> {
        Ok(Order::ChannelsLast.shape(self.batch, self.parameters.project.columns(), self.output))
    }

    fn cpu(&self, [(storage, layout)]: [Argument<'_>; 1]) -> CandleResult<CpuStorage> {
        let PackedInverted { project, project_bias, inputs, .. } = self.parameters;
        let (x, workspace) = (elements::<f32>(storage, layout)?, Workspace::shared());
        let (pixels, width) = (self.output[0] * self.output[1], project.width());
        let mut y = workspace.take(self.batch * pixels * project.columns());
        let mut buffer = workspace.take(room(project.depth() * pixels));
        let start = line_start(&buffer);
        let middle = &mut buffer[start..][..project.depth() * pixels];
        // Panel after panel of the channels, in each of them pixel after pixel.
        let starts: Vec<usize> = (0..pixels).map(|pixel| pixel * width).collect();
        let runs = (0..project.depth() / width).map(|panel| panel * pixels * width);
        let runs: Vec<Range<usize>> = runs.map(|at| at..at + width).collect();
        let images = x.chunks_exact(self.input[0] * self.input[1] * inputs);
        for (x, y) in images.zip(y.chunks_exact_mut(pixels * project.columns())) {
            self.middle(x, middle);
            let residual = self.residual.then_some(x);
            let epilogue = Epilogue { bias: project_bias, residual, activation: Activation::None };
            product(Rows { data: middle, starts: &starts, runs: &runs }, project, epilogue, y)?;
        }
        workspace.give(buffer);
        Ok(CpuStorage::F32(y))
    }
}

impl Layer<'_> {
    /// What the projection reads, of an image x (H, W, I).
    fn middle(&self, x: &[f32], middle: &mut [f32]) {
        let PackedInverted { kernel, stride, project, .. } = self.parameters;
        let ([rows, columns], width) = (self.output, project.width());
        let row = self.framed() * width;
        // Bands of almost equal numbers of rows.
        let most = ((BAND / row).saturating_sub(kernel - stride) / stride).max(1);
        let band = rows.div_ceil(rows.div_ceil(most));
        let arch = Arch::new();
        middle.par_chunks_mut(rows * columns * width).enumerate().for_each(|(panel, middle)| {
            middle.par_chunks_mut(band * columns * width).enumerate().for_each(|(number, to)| {
                arch.dispatch(Band { layer: self, x, panel, first: number * band, to });
            });
        });
    }

    /// The columns that a row of outputs meets, with those of zeros.
    fn framed(&self) -> usize {
        (self.output[1] - 1) * self.parameters.stride + self.parameters.kernel
    }
}

/// Rows of the result of the depthwise convolution, of the channels of one panel.
struct Band<'a> {
    layer: &'a Layer<'a>,
    x: &'a [f32],
    panel: usize,
    /// The first row.
    first: usize,
    to: &'a mut [f32],
}

impl WithSimd for Band<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Layer { parameters, input: [height, columns], before: [top, left], output, .. } = *self.layer;
        let PackedInverted { kernel, stride, .. } = *parameters;
        let (width, framed) = (VECTORS * S::F32_LANES, self.layer.framed());
        let rows = self.to.len() / (output[1] * width);
        let (reach, begin) = ((rows - 1) * stride + kernel, self.first * stride);
        // Rows of the image among those that are met: what is above and below them is zeros.
        let there = begin.saturating_sub(top).min(height)..(begin + reach).saturating_sub(top).min(height);
        let columns_met = columns.min(framed.saturating_sub(left));
        let workspace = Workspace::shared();
        let mut buffer = workspace.take(room(reach * framed * width));
        let start = line_start(&buffer);
        let frame = &mut buffer[start..][..reach * framed * width];
        for (i, row) in frame.chunks_exact_mut(framed * width).enumerate() {
            if there.contains(&(begin + i).wrapping_sub(top)) {
                row[..left * width].fill(0.0);
                row[(left + columns_met) * width..].fill(0.0);
            } else {
                row.fill(0.0);
            }
        }
        // The place of a pixel in the frame; none where no output meets it.
        let place = |pixel: usize| {
            let (row, column) = (pixel / columns, pixel % columns);
            (column < columns_met).then(|| ((row + top - begin) * framed + left + column) * width)
        };
        self.expand(simd, there.start * columns..there.end * columns, place, frame);
        match (kernel, stride) {
            (3, 1) => self.depthwise::<S, 3, 1>(simd, frame),
            (3, 2) => self.depthwise::<S, 3, 2>(simd, frame),
            (5, 1) => self.depthwise::<S, 5, 1>(simd, frame),
            _ => self.depthwise::<S, 5, 2>(simd, frame),
        }
        workspace.give(buffer);
    }
}

impl Band<'_> {
    /// The panel's channels of these pixels, to where `place` says.
    #[inline(always)]
    fn expand<S: Simd>(
        &self,
        simd: S,
        pixels: Range<usize>,
        place: impl Fn(usize) -> Option<usize>,
        frame: &mut [f32],
    ) {
        let PackedInverted { expand, inputs, activation, .. } = self.layer.parameters;
        let (width, inputs) = (VECTORS * S::F32_LANES, *inputs);
        let Some((panels, bias)) = expand else {
            let own = self.panel * width..inputs.min((self.panel + 1) * width);
            for (pixel, place) in pixels.filter_map(|pixel| Some((pixel, place(pixel)?))) {
                let to = &mut frame[place..][..width];
                to[..own.len()].copy_from_slice(&self.x[pixel * inputs..][own.clone()]);
                to[own.len()..].fill(0.0);
            }
            return;
        };
        let panel = panels.panel(self.panel);
        // The last panel's bias is filled up here: its columns are zeros.
        let own = &bias[self.panel * width..bias.len().min((self.panel + 1) * width)];
        let mut filled = [0.0; VECTORS * MOST_LANES];
        filled[..own.len()].copy_from_slice(own);
        let (bias, run, mut sums) = (&filled[..width], 0..inputs, Sums::new());
        for part in 0..tiles::<S>(pixels.len()) {
            let range = tile::<S>(pixels.len(), part);
            let mut starts = [0; MOST_ROWS];
            let first = pixels.start + range.start;
            starts.iter_mut().zip(first..).for_each(|(start, pixel)| *start = pixel * inputs);
            let starts = &starts[..range.len()];
            multiply(simd, Rows { data: self.x, starts, runs: std::slice::from_ref(&run) }, panel, &mut sums);
            for i in 0..range.len() {
                if let Some(place) = place(first + i) {
                    let to = &mut frame[place..][..width];
                    finish(simd, sums.row(i, width), bias, &[], *activation, to);
                }
            }
        }
    }

    #[inline(always)]
    fn depthwise<S: Simd, const K: usize, const STRIDE: usize>(self, simd: S, frame: &[f32]) {
        let PackedInverted { taps, bias, activation, .. } = self.layer.parameters;
        let (framed, columns) = (self.layer.framed(), self.layer.output[1]);
        let all = |numbers| S::as_simd_f32s(numbers).0.as_chunks::<VECTORS>().0;
        let (frame, bias) = (all(frame), all(bias)[self.panel]);
        let taps = &all(taps)[self.panel * K * K..][..K * K];
        let bounds = activation.bounds().map(|bound| simd.splat_f32s(bound as f32));
        let to = S::as_mut_simd_f32s(self.to).0.as_chunks_mut::<VECTORS>().0;
        for (i, to) in to.chunks_exact_mut(columns).enumerate() {
            let row = Row { frame: &frame[i * STRIDE * framed..], framed, taps, bias, bounds };
            let mut at = 0;
            while at < columns {
                // The last pixels are computed twice rather than one by one.
                let first = at.min(columns.saturating_sub(PIXELS));
                if columns < PIXELS {
                    row.pixels::<S, K, STRIDE, 1>(simd, at, to);
                    at += 1;
                } else {
                    row.pixels::<S, K, STRIDE, PIXELS>(simd, first, to);
                    at = first + PIXELS;
                }
            }
        }
    }
}

/// Lanes of the widest vectors.
const MOST_LANES: usize = 16;

/// What a row of outputs is made of: the rows of the frame that it meets, from the first on.
#[derive(Clone, Copy)]
struct Row<'a, V> {
    frame: &'a [[V; VECTORS]],
    framed: usize,
    taps: &'a [[V; VECTORS]],
    bias: [V; VECTORS],
    bounds: [V; 2],
}

impl<V: Copy> Row<'_, V> {
    /// The P pixels from `first` on.
    #[inline(always)]
    fn pixels<S: Simd<f32s = V>, const K: usize, const STRIDE: usize, const P: usize>(
        self,
        simd: S,
        first: usize,
        to: &mut [[V; VECTORS]],
    ) {
        let mut sums = [self.bias; P];
        for u in 0..K {
            let window = &self.frame[u * self.framed + first * STRIDE..][..(P - 1) * STRIDE + K];
            let taps = &self.taps[u * K..][..K];
            for v in 0..K {
                for p in 0..P {
                    for i in 0..VECTORS {
                        sums[p][i] = simd.mul_add_e_f32s(window[p * STRIDE + v][i], taps[v][i], sums[p][i]);
                    }
                }
            }
        }
        let [least, most] = self.bounds;
        for (to, sums) in to[first..][..P].iter_mut().zip(sums) {
            for (to, sum) in to.iter_mut().zip(sums) {
                // Either is the sum where that is NaN.
                *to = simd.min_f32s(most, simd.max_f32s(least, sum));
            }
        }
    }
}

fn bias(layer: Parameters<'_>, len: usize) -> Result<Vec<f32>> {
    match layer.bias {
        None => Ok(vec![0.0; len]),
        Some(bias) if bias.dims() == [len] => numbers(bias),
        Some(bias) => refuse(format!("expected a bias ({len}), got {:?}", bias.dims())),
    }
}

/// The numbers of a tensor in its order, as f32.
fn numbers(tensor: &Tensor) -> Result<Vec<f32>> {
    Ok(tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?)
}

fn refuse<T>(reason: String) -> Result<T> {
    Err(Error::Argument { op: "inverted residual", reason })
}

#[cfg(test)]
mod tests;
