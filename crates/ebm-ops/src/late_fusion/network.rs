//! The parameters as the kernel sees them, and the layers that y passes alone.

use candle_core::Result;

use super::product::PackedProduct;
use crate::gemm::{MatMut, MatRef, multiply};

/// The sizes of the head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    /// D, the widths of the layers of y, and last K, the features of y.
    pub(super) layers: Vec<usize>,
    /// H, the width of the layer that joins.
    pub(super) hidden: usize,
}

impl Sizes {
    /// D.
    pub(super) fn dim(&self) -> usize {
        self.layers.first().copied().unwrap_or(1)
    }

    /// K.
    pub(super) fn width(&self) -> usize {
        self.layers.last().copied().unwrap_or(1)
    }

    /// How many parameters the layers of y have.
    pub(super) fn of_layers(&self) -> usize {
        self.layers.windows(2).map(|pair| pair[1] * (pair[0] + 1)).sum()
    }

    /// How many parameters there are.
    pub(super) fn parameters(&self) -> usize {
        self.of_layers() + self.hidden * (self.width() + 1) + 1
    }
}

/// A fully-connected layer: weight (outputs × inputs) and bias.
#[derive(Clone, Copy)]
struct Layer<'a, T> {
    weight: &'a [T],
    bias: &'a [T],
}

/// The parameters θ, cut up: for each layer of y its weight and bias, then W_y (H × K), w (H), and the last
/// bias.
pub(super) struct Network<'a, T> {
    layers: Vec<Layer<'a, T>>,
    /// W_y.
    pub(super) join: &'a [T],
    /// w.
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

    /// The features of the rows `y`: what each layer gives, behind `y` itself. Each layer ends in a ReLU.
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

    /// Back through the layers: `gradient`, of the features that `values` ends with, becomes the one of y,
    /// where that is `wanted`. The gradients of the layers' parameters are added to `theta`, if there is one.
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

/// max(x, 0), or NaN.
#[inline(always)]
pub(super) fn relu<T: PackedProduct>(x: T) -> T {
    if x <= T::zero() { T::zero() } else { x }
}
