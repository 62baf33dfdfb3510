//! Inverted residual (Sandler et al., 2018) of constant parameters in one pass, f32, on the CPU.
//!
//! The map between expansion and projection is several times larger than input and output. Layer after layer, it would go to
//! memory and back twice. Here a task computes a band of rows for a few channels, which fill one panel of weights. The input
//! of the depthwise convolution stays in the second-level cache. Only the output, which the projection reads, is written to
//! memory.

mod band;

use std::ops::Range;

use candle_core::{Result as CandleResult, Tensor};
use rayon::prelude::*;

use self::band::Band;
use super::Padding;
use super::kernel::computed;
use super::packed::{Epilogue, Panels, Rows, Workspace, line_start, panel_width, product, room};
use super::relu::Activation;
use super::storage::{bias_numbers, numbers};
use crate::simd::arch;
use crate::{Error, Result};

/// Name in errors.
const OP: &str = "inverted residual";

/// Numbers of the map that a task expands. They stay in the second-level cache.
const BAND: usize = 96 << 10;

/// Parameters of a layer, f32.
#[derive(Clone, Copy, Debug)]
pub struct Parameters<'a> {
    /// Weight (O, I, k, k), or depthwise (O, 1, k, k).
    pub weight: &'a Tensor,
    /// Bias (O).
    pub bias: Option<&'a Tensor>,
}

/// Inverted residual `y = project(activation(depthwise(activation(expand(x))))) [+ x]` on maps with the channels innermost.
/// It is for inference and has no gradient. Results have the same bits for every number of threads, and the bits of layer
/// after layer.
#[derive(Clone, Debug)]
pub struct PackedInverted {
    /// Panels (inputs × channels) and bias of the expansion, or `None` if x is not expanded.
    expand: Option<(Panels, Vec<f32>)>,
    /// Depthwise weights (k·k, width), panel after panel of the channels. They and the bias are padded with zeros.
    taps: Vec<f32>,
    bias: Vec<f32>,
    /// Panels (channels × outputs), where the channels are padded as in the panels of the expansion.
    project: Panels,
    project_bias: Vec<f32>,
    inputs: usize,
    kernel: usize,
    stride: usize,
    padding: Padding,
    activation: Activation,
}

impl PackedInverted {
    /// Returns `true` if there is a loop for depthwise kernels (k, k) of this stride.
    pub(crate) fn serves(kernel: usize, stride: usize) -> bool {
        matches!((kernel, stride), (3 | 5, 1 | 2))
    }

    /// Packs the parameters of the expansion (C, I, 1, 1), if any, the depthwise convolution (C, 1, k, k) and the projection
    /// (O, C, 1, 1). `activation` follows the first two.
    ///
    /// # Errors
    /// [`Error::Argument`] if shapes do not fit, or if k and the stride have no loop.
    pub fn new(
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
                "kernels {kernel} × {across} of {channels} channels with stride {stride} do not fit a projection of {depth}"
            ));
        }
        let packed = |layer: Parameters<'_>, inputs| {
            Ok::<_, Error>(Panels::transposed(&numbers(layer.weight)?, inputs, 1))
        };
        let expand = match expand {
            Some(expand) => Some((packed(expand, inputs)?, bias_numbers(OP, expand.bias, channels)?)),
            None => None,
        };
        let (width, weights) = (panel_width(), numbers(project.weight)?);
        let padded = channels.next_multiple_of(width);
        let mut project_panels = Panels::zeros(padded, outputs);
        project_panels.fill(|k, output| if k < channels { weights[output * channels + k] } else { 0.0 });
        let area = kernel * kernel;
        let mut taps = vec![0.0; padded * area];
        for (channel, own) in numbers(depthwise.weight)?.chunks_exact(area).enumerate() {
            let to = &mut taps[channel / width * width * area + channel % width..];
            own.iter().zip(to.iter_mut().step_by(width)).for_each(|(w, to)| *to = *w);
        }
        let mut depthwise_bias = bias_numbers(OP, depthwise.bias, channels)?;
        depthwise_bias.resize(padded, 0.0);
        Ok(Self {
            expand,
            taps,
            bias: depthwise_bias,
            project: project_panels,
            project_bias: bias_numbers(OP, project.bias, outputs)?,
            inputs,
            kernel,
            stride,
            padding,
            activation,
        })
    }

    /// Computes x (N, H, W, I) -> (N, oh, ow, O), plus x if `residual`.
    ///
    /// # Errors
    /// [`Error::Argument`] if x has another number of channels or is smaller than the kernel, or if `residual` is set and the
    /// result has another shape than x.
    pub fn forward(&self, x: &Tensor, residual: bool) -> Result<Tensor> {
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
            input: [height, width],
            before: [down.0, across.0],
            output: [down.1, across.1],
            residual,
        };
        if residual && (layer.output, self.project.columns()) != (layer.input, inputs) {
            return refuse(format!("x {:?} is not of the result's shape", x.dims()));
        }
        let [height, width] = layer.output;
        Ok(computed([x], (batch, height, width, self.project.columns()), |[x]| layer.of(x))?)
    }
}

struct Layer<'a> {
    parameters: &'a PackedInverted,
    input: [usize; 2],
    /// Rows and columns of zeros above and left of a map.
    before: [usize; 2],
    output: [usize; 2],
    residual: bool,
}

impl Layer<'_> {
    fn of(&self, x: &[f32]) -> CandleResult<Vec<f32>> {
        let PackedInverted { project, project_bias, inputs, .. } = self.parameters;
        let (workspace, image) = (Workspace::shared(), self.input[0] * self.input[1] * inputs);
        let (pixels, width) = (self.output[0] * self.output[1], project.width());
        let mut y = workspace.take(x.len() / image * pixels * project.columns());
        let mut buffer = workspace.take(room(project.depth() * pixels));
        let start = line_start(&buffer);
        let middle = &mut buffer[start..][..project.depth() * pixels];
        // Panel after panel of the channels, and pixel after pixel within a panel.
        let starts: Vec<usize> = (0..pixels).map(|pixel| pixel * width).collect();
        let runs = (0..project.depth() / width).map(|panel| panel * pixels * width);
        let runs: Vec<Range<usize>> = runs.map(|at| at..at + width).collect();
        let images = x.chunks_exact(image);
        for (x, y) in images.zip(y.chunks_exact_mut(pixels * project.columns())) {
            self.middle(x, middle);
            let residual = self.residual.then_some(x);
            let epilogue = Epilogue { bias: project_bias, residual, activation: Activation::None };
            product(Rows { data: middle, starts: &starts, runs: &runs }, project, epilogue, y)?;
        }
        workspace.give(buffer);
        Ok(y)
    }

    /// Computes the input of the projection from an image x (H, W, I).
    fn middle(&self, x: &[f32], middle: &mut [f32]) {
        let PackedInverted { kernel, stride, project, .. } = self.parameters;
        let ([rows, columns], width) = (self.output, project.width());
        let row = self.framed() * width;
        // Bands of almost equal numbers of rows.
        let most = ((BAND / row).saturating_sub(kernel - stride) / stride).max(1);
        let band = rows.div_ceil(rows.div_ceil(most));
        let arch = arch();
        middle.par_chunks_mut(rows * columns * width).enumerate().for_each(|(panel, middle)| {
            middle.par_chunks_mut(band * columns * width).enumerate().for_each(|(number, to)| {
                arch.dispatch(Band { layer: self, x, panel, first: number * band, to });
            });
        });
    }

    /// Returns the number of columns that a row of outputs reads, with the padding.
    fn framed(&self) -> usize {
        (self.output[1] - 1) * self.parameters.stride + self.parameters.kernel
    }
}

fn refuse<T>(reason: String) -> Result<T> {
    Err(Error::Argument { op: OP, reason })
}
