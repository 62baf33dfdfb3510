//! Parameters as the kernel sees them, and the layers that only y passes.

use candle_core::Result;

use super::product::PackedProduct;
use crate::gemm::{MatMut, MatRef, multiply};

/// Sizes of the head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    /// D, the widths of the layers of y, and last K, the number of features of y.
    pub(super) layers: Vec<usize>,
    /// H, the width of the layer that joins a and y.
    pub(super) hidden: usize,
}

impl Sizes {
    /// Returns D.
    pub(super) fn dim(&self) -> usize {
        self.layers.first().copied().unwrap_or(1)
    }

    /// Returns K.
    pub(super) fn width(&self) -> usize {
        self.layers.last().copied().unwrap_or(1)
    }

    /// Returns the number of parameters in the layers of y.
    pub(super) fn of_layers(&self) -> usize {
        self.layers.windows(2).map(|pair| pair[1] * (pair[0] + 1)).sum()
    }

    /// Returns the number of all parameters.
    pub(super) fn parameters(&self) -> usize {
        self.of_layers() + self.hidden * (self.width() + 1) + 1
    }
}

/// Fully-connected layer: weight (outputs × inputs) and bias.
#[derive(Clone, Copy)]
struct Layer<'a, T> {
    weight: &'a [T],
    bias: &'a [T],
}

/// Parts of the parameters θ: weight and bias of each layer of y, then W_y (H × K), w (H), and the last bias.
pub(super) struct Network<'a, T> {
    layers: Vec<Layer<'a, T>>,
    /// Weight W_y (H × K).
    pub(super) join: &'a [T],
    /// Weight w (H).
    pub(super) out: &'a [T],
    pub(super) bias: T,
}

impl<'a, T: PackedProduct> Network<'a, T> {
    pub(super) fn new(sizes: &Sizes, theta: &'a [T]) -> Self {
        let mut rest = theta;
        let mut take = |count: usize| {
            let (taken, left) = rest.split_at(count);
            rest = left;
            taken
        };
        let layers = sizes.layers.windows(2);
        let layers =
            layers.map(|pair| Layer { weight: take(pair[0] * pair[1]), bias: take(pair[1]) }).collect();
        let (join, out) = (take(sizes.hidden * sizes.width()), take(sizes.hidden));
        Self { layers, join, out, bias: take(1)[0] }
    }

    /// Returns the features of the rows `y`: `y` itself, then the result of each layer. Each layer ends in a ReLU.
    pub(super) fn features(&self, y: &[T], rows: usize) -> Result<Vec<Vec<T>>> {
        let mut values = vec![y.to_vec()];
        for layer in &self.layers {
            let (input, outputs) = (&values[values.len() - 1], layer.bias.len());
            let inputs = input.len() / rows;
            let mut output = vec![T::zero(); rows * outputs];
            multiply(
                &mut MatMut::new(&mut output, rows, outputs)?,
                false,
                MatRef::new(input, (rows, inputs), (inputs, 1))?,
                MatRef::new(layer.weight, (outputs, inputs), (inputs, 1))?.t(),
            )?;
            for row in output.chunks_exact_mut(outputs) {
                row.iter_mut().zip(layer.bias).for_each(|(value, bias)| *value = relu(*value + *bias));
            }
            values.push(output);
        }
        Ok(values)
    }

    /// Goes back through the layers: `gradient`, in the last features of `values`, becomes the gradient in y if that is
    /// `wanted`. Adds the gradients of the layers' parameters to `theta`, if given.
    pub(super) fn back(
        &self,
        values: &[Vec<T>],
        mut gradient: Vec<T>,
        rows: usize,
        wanted: bool,
        mut theta: Option<&mut [T]>,
    ) -> Result<Vec<T>> {
        let mut end = self.layers.iter().map(|layer| layer.weight.len() + layer.bias.len()).sum::<usize>();
        for (index, (layer, pair)) in self.layers.iter().zip(values.windows(2)).enumerate().rev() {
            let (input, outputs) = (&pair[0], layer.bias.len());
            let inputs = input.len() / rows;
            for (gradient, output) in gradient.iter_mut().zip(&pair[1]) {
                *gradient = if *output > T::zero() { *gradient } else { T::zero() };
            }
            let slopes = MatRef::new(&gradient, (rows, outputs), (outputs, 1))?;
            if let Some(theta) = theta.as_deref_mut() {
                let start = end - layer.weight.len() - layer.bias.len();
                let (weight, bias) = theta[start..end].split_at_mut(layer.weight.len());
                let input = MatRef::new(input, (rows, inputs), (inputs, 1))?;
                multiply(&mut MatMut::new(weight, outputs, inputs)?, true, slopes.t(), input)?;
                for row in gradient.chunks_exact(outputs) {
                    bias.iter_mut().zip(row).for_each(|(bias, gradient)| *bias += *gradient);
                }
                end = start;
            }
            if index > 0 || wanted {
                let mut before = vec![T::zero(); rows * inputs];
                let weight = MatRef::new(layer.weight, (outputs, inputs), (inputs, 1))?;
                multiply(&mut MatMut::new(&mut before, rows, inputs)?, false, slopes, weight)?;
                gradient = before;
            }
        }
        Ok(gradient)
    }
}

/// Returns max(x, 0), or NaN for NaN.
#[inline(always)]
pub(super) fn relu<T: PackedProduct>(x: T) -> T {
    if x <= T::zero() { T::zero() } else { x }
}
