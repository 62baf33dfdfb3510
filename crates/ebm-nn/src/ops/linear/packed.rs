//! The linear layer with weights packed once: for inference, and for gradients in the input alone.

use std::sync::OnceLock;

use candle_core::{DType, Tensor};

use crate::ops::packed::{Epilogue, Panels, Rows, Workspace, product, push_blocks};
use crate::{Error, Result};

/// `y = activation(x Wᵀ + b)` on slices, f32, on the CPU, with W in the order in which the processor reads it.
///
/// A product reads the weights from memory once, whatever the number of rows. Results have the same bits for every
/// number of threads.
#[derive(Clone, Debug)]
pub struct PackedLinear {
    /// Row i, column o: W[o, i].
    panels: Panels,
    bias: Vec<f32>,
    /// Row o, column i: W[o, i], from the first gradient on.
    transposed: OnceLock<Panels>,
}

impl PackedLinear {
    /// Packs `weight` (O, I) and `bias` (O).
    ///
    /// # Errors
    /// [`Error::Argument`] where a shape does not fit or an extent is zero.
    pub fn new(weight: &Tensor, bias: Option<&Tensor>) -> Result<Self> {
        Self::with_inputs(weight, bias, |i| i)
    }

    /// [`new`](Self::new) for inputs in another order than the weight's: input i of the layer meets column
    /// `column(i)` of `weight`.
    ///
    /// # Errors
    /// As [`new`](Self::new), and where a column is not one of `0..I`.
    pub fn with_inputs(
        weight: &Tensor,
        bias: Option<&Tensor>,
        column: impl Fn(usize) -> usize,
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
        Ok(Self {
            panels: Panels::new(inputs, outputs, |i, o| weight[o * inputs + columns[i]]),
            bias: bias.map_or(Ok(Vec::new()), numbers)?,
            transposed: OnceLock::new(),
        })
    }

    /// I.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.panels.depth()
    }

    /// O.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.panels.columns()
    }

    /// `x` (N, I) -> (N, O), with ReLU where `relu`. Hand the result back to `workspace` when done with it.
    ///
    /// # Errors
    /// [`Error::Argument`] where the length of `x` is no multiple of I.
    pub fn forward(&self, x: &[f32], relu: bool, workspace: &Workspace) -> Result<Vec<f32>> {
        let epilogue = Epilogue { bias: &self.bias, residual: None, relu };
        times(x, &self.panels, epilogue, workspace)
    }

    /// The gradient in x, (N, I), from `gradient` in y, (N, O); no bias enters. With `activation`, y (N, O) after a ReLU, `gradient` counts
    /// where y is positive alone.
    ///
    /// # Errors
    /// [`Error::Argument`] where a length is no multiple of O, or the two differ.
    pub fn input_gradient(
        &self,
        gradient: &[f32],
        activation: Option<&[f32]>,
        workspace: &Workspace,
    ) -> Result<Vec<f32>> {
        // On this thread alone: others may wait for the cell, and must not be given work meanwhile.
        let transposed = self
            .transposed
            .get_or_init(|| Panels::new(self.outputs(), self.inputs(), |o, i| self.panels.get(i, o)));
        let Some(activation) = activation else {
            return times(gradient, transposed, Epilogue::default(), workspace);
        };
        if activation.len() != gradient.len() {
            return refuse(format!("a gradient of {} for {} activations", gradient.len(), activation.len()));
        }
        let mut open = workspace.take(gradient.len());
        for ((open, gradient), y) in open.iter_mut().zip(gradient).zip(activation) {
            *open = if *y > 0.0 { *gradient } else { 0.0 };
        }
        let result = times(&open, transposed, Epilogue::default(), workspace);
        workspace.give(open);
        result
    }
}

/// `epilogue(a · B)` for rows of a that lie end to end.
fn times(a: &[f32], panels: &Panels, epilogue: Epilogue<'_>, workspace: &Workspace) -> Result<Vec<f32>> {
    let depth = panels.depth();
    if !a.len().is_multiple_of(depth) {
        return refuse(format!("{} numbers are no rows of {depth}", a.len()));
    }
    let count = a.len() / depth;
    let mut c = workspace.take(count * panels.columns());
    if count > 0 {
        let run = 0..depth;
        let rows = Rows { data: a, stride: depth, runs: std::slice::from_ref(&run) };
        let mut blocks = Vec::new();
        push_blocks(&mut blocks, (0, depth), 0, count);
        product(rows, &blocks, panels, epilogue, &mut c)?;
    }
    Ok(c)
}

fn refuse<T>(reason: String) -> Result<T> {
    Err(Error::Argument { op: "PackedLinear", reason })
}

/// The numbers of a tensor in its order, as f32.
fn numbers(tensor: &Tensor) -> Result<Vec<f32>> {
    Ok(tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?)
}
