//! The linear layer with weights packed once, for inference and for gradients in the input.

use std::sync::OnceLock;

use candle_core::Tensor;

use rayon::prelude::*;

use crate::device::Precision;
use crate::packed::{Epilogue, Left, Output, Panels, Right, Sizes, Workspace, dense, halves, pair, round};
use crate::relu::Activation;
use crate::storage::numbers;
use crate::{Error, Result};

/// Linear layer `y = activation(x Wᵀ + b)` on slices, f32, on the CPU, with W in the order in which the processor reads it.
///
/// A product reads the weights from memory once for any number of rows. Results have the same bits for every number of
/// threads.
#[derive(Clone, Debug)]
pub struct PackedLinear {
    weight: Weights,
    bias: Vec<f32>,
    /// Wᵀ, which the first gradient computes.
    transposed: OnceLock<Weights>,
}

impl PackedLinear {
    /// Packs `weight` (O, I) and `bias` (O), as f32.
    ///
    /// # Errors
    /// [`Error::Argument`] if a shape does not fit or an extent is zero.
    pub fn new(weight: &Tensor, bias: Option<&Tensor>) -> Result<Self> {
        Self::with_inputs(weight, bias, Precision::Full, &|i| i)
    }

    /// Packs as [`new`](Self::new) does, for inputs in another order than the weight's: input i of the layer is multiplied
    /// with column `column(i)` of `weight`. With [`Precision::Bf16`] the weights are held in bf16 and x is rounded to it.
    /// Bias, sums and results are f32.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new), and an error if a column is not one of `0..I`.
    pub fn with_inputs(
        weight: &Tensor,
        bias: Option<&Tensor>,
        precision: Precision,
        column: &dyn Fn(usize) -> usize,
    ) -> Result<Self> {
        let &[outputs, inputs] = weight.dims() else {
            return refuse(format!("expected a weight (O, I), got {:?}", weight.dims()));
        };
        if weight.elem_count() == 0 {
            return refuse(format!("the extents of the weight {:?} must be positive", weight.dims()));
        }
        if let Some(bias) = bias
            && bias.dims() != [outputs]
        {
            return refuse(format!("expected a bias ({outputs}), got {:?}", bias.dims()));
        }
        let columns: Vec<usize> = (0..inputs).map(column).collect();
        if let Some(bad) = columns.iter().find(|&&column| column >= inputs) {
            return refuse(format!("the weight {:?} has no column {bad}", weight.dims()));
        }
        let weight = numbers(weight)?;
        let element = |i: usize, o: usize| weight[o * inputs + columns[i]];
        let mut packed = Weights::zeros(Panels::zeros, inputs, outputs, precision == Precision::Bf16);
        let fill = packed.filler(element);
        packed.panels.panels_mut().enumerate().for_each(|(panel, to)| fill(panel, to));
        Ok(Self { weight: packed, bias: bias.map_or(Ok(Vec::new()), numbers)?, transposed: OnceLock::new() })
    }

    /// Returns the number of inputs I.
    pub fn inputs(&self) -> usize {
        self.weight.depth
    }

    /// Returns the number of outputs O.
    pub fn outputs(&self) -> usize {
        self.weight.panels.columns()
    }

    /// Computes `x` (N, I) -> (N, O), with ReLU if `relu`. Hand the result back to `workspace` when done with it.
    ///
    /// # Errors
    /// [`Error::Argument`] if the length of `x` is not a multiple of I.
    pub fn forward(&self, x: &[f32], relu: bool, workspace: &Workspace) -> Result<Vec<f32>> {
        let activation = Activation::relu_where(relu);
        let epilogue = Epilogue { bias: &self.bias, residual: None, activation };
        self.weight.times(x, epilogue, workspace)
    }

    /// Returns the gradient in x, (N, I), from `gradient` in y, (N, O). The bias does not matter. If `activation` is given,
    /// it is y (N, O) after a ReLU, and `gradient` counts only where y is positive.
    ///
    /// # Errors
    /// [`Error::Argument`] if a length is not a multiple of O, or the two differ.
    pub fn input_gradient(
        &self,
        gradient: &[f32],
        activation: Option<&[f32]>,
        workspace: &Workspace,
    ) -> Result<Vec<f32>> {
        let transposed = self.transposed.get_or_init(|| self.weight.transposed());
        let Some(activation) = activation else {
            return transposed.times(gradient, Epilogue::default(), workspace);
        };
        if activation.len() != gradient.len() {
            return refuse(format!("a gradient of {} for {} activations", gradient.len(), activation.len()));
        }
        let mut open = workspace.take(gradient.len());
        for ((open, gradient), y) in open.iter_mut().zip(gradient).zip(activation) {
            *open = if *y > 0.0 { *gradient } else { 0.0 };
        }
        let result = transposed.times(&open, Epilogue::default(), workspace);
        workspace.give(open);
        result
    }
}

/// Matrix B (depth × columns) in panels.
#[derive(Clone, Debug)]
struct Weights {
    /// Panels of f32, or of pairs of bf16.
    panels: Panels,
    is_bf16: bool,
    depth: usize,
}

impl Weights {
    /// Makes a matrix of zeros in the memory that `zeros` allocates.
    fn zeros(zeros: fn(usize, usize) -> Panels, depth: usize, columns: usize, is_bf16: bool) -> Self {
        let steps = if is_bf16 { depth.div_ceil(2) } else { depth };
        Self { panels: zeros(steps, columns), is_bf16, depth }
    }

    /// Returns a function that fills a panel, given its number and its memory. Element (k, column) of B is
    /// `element(k, column)`.
    fn filler<F: Fn(usize, usize) -> f32>(&self, element: F) -> impl Fn(usize, &mut [f32]) + use<F> {
        let (width, columns, depth, is_bf16) =
            (self.panels.width(), self.panels.columns(), self.depth, self.is_bf16);
        move |panel, to| {
            for (j, column) in (panel * width..columns.min((panel + 1) * width)).enumerate() {
                for (step, to) in to.chunks_exact_mut(width).enumerate() {
                    to[j] = if is_bf16 {
                        let second = 2 * step + 1;
                        let last = if second < depth { element(second, column) } else { 0.0 };
                        pair(element(2 * step, column), last)
                    } else {
                        element(step, column)
                    };
                }
            }
        }
    }

    fn get(&self, k: usize, column: usize) -> f32 {
        if self.is_bf16 { halves(self.panels.get(k / 2, column))[k % 2] } else { self.panels.get(k, column) }
    }

    /// Returns Bᵀ, computed on this thread alone: others may wait for the result, and must not be given work meanwhile.
    fn transposed(&self) -> Self {
        let mut transposed = Self::zeros(Panels::zeros_here, self.panels.columns(), self.depth, self.is_bf16);
        let fill = transposed.filler(|o, i| self.get(i, o));
        transposed.panels.panels_mut_in_order().enumerate().for_each(|(panel, to)| fill(panel, to));
        transposed
    }

    /// Computes `epilogue(a · B)` for rows of a that lie end to end.
    fn times(&self, a: &[f32], epilogue: Epilogue<'_>, workspace: &Workspace) -> Result<Vec<f32>> {
        if !a.len().is_multiple_of(self.depth) {
            return refuse(format!("{} numbers are not whole rows of {}", a.len(), self.depth));
        }
        let (rows, steps) = (a.len() / self.depth, self.panels.depth());
        let sizes = Sizes { rows, depth: steps, columns: self.panels.columns() };
        let mut c = workspace.take(rows * sizes.columns);
        let output = Output::Rows(&mut c, epilogue);
        match (rows, self.is_bf16) {
            (0, _) => {}
            (_, false) => dense(Left::Rows(a), Right::Panels(&self.panels), sizes, output)?,
            (_, true) => {
                let mut pairs = workspace.take(rows * steps);
                let of_rows = pairs.par_chunks_exact_mut(steps).zip(a.par_chunks_exact(self.depth));
                of_rows.for_each(|(to, row)| round(row, to));
                dense(Left::Pairs(&pairs), Right::Panels(&self.panels), sizes, output)?;
                workspace.give(pairs);
            }
        }
        Ok(c)
    }
}

fn refuse<T>(reason: String) -> Result<T> {
    Err(Error::Argument { op: "PackedLinear", reason })
}
