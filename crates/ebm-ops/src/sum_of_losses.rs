//! Sum of losses that keeps the graph of only one loss at a time.

use candle_core::{DType, Result, Shape, Tensor};

use super::backward;
use super::float::Float;
use super::graph::sum;
use super::kernel::{Apply, Gradients, Kernel};

/// Returns the sum of `losses`, scalars of one type, or `None` if there is no loss. The sum is differentiable in the
/// variables of the losses and in nothing else.
///
/// The gradients of each loss are computed before the next loss is asked for. If an iterator makes the losses one by one,
/// memory holds the graph of one loss and a gradient for each variable, instead of the graphs of all. The time of the
/// backward passes is spent here, and the sum's own backward pass is short.
///
/// # Errors
/// Returns the errors of `losses`, and an error if an operation in a loss has no gradient.
pub fn sum_of_losses<E: From<candle_core::Error>>(
    losses: impl IntoIterator<Item = std::result::Result<Tensor, E>>,
) -> std::result::Result<Option<Tensor>, E> {
    let mut total: Option<Tensor> = None;
    let mut variables: Vec<(Tensor, Tensor)> = Vec::new();
    for loss in losses {
        let loss = loss?;
        let nodes = loss.sorted_nodes();
        let mut gradients = backward(&loss)?;
        for variable in nodes.into_iter().filter(|node| node.is_variable()) {
            let Some(gradient) = gradients.remove(variable) else { continue };
            match variables.iter_mut().find(|(known, _)| known.id() == variable.id()) {
                Some((_, known)) => *known = sum(known, &gradient)?,
                None => variables.push((variable.clone(), gradient.detach())),
            }
        }
        let value = loss.detach();
        total = Some(match total {
            Some(total) => (total + value)?,
            None => value,
        });
    }
    let Some(mut total) = total else { return Ok(None) };
    for (variable, gradient) in variables {
        // The loss may be on the CPU while a variable is on a GPU.
        let nothing = nothing(&variable, gradient)?.to_dtype(total.dtype())?.to_device(total.device())?;
        total = (total + nothing)?;
    }
    Ok(Some(total))
}

/// Returns 0 with this gradient in `variable`.
fn nothing(variable: &Tensor, gradient: Tensor) -> Result<Tensor> {
    if variable.device().is_cpu() {
        return KnownGradient(gradient).apply([variable]);
    }
    let product = (variable * gradient)?.sum_all()?;
    &product - product.detach()
}

/// Kernel variable -> 0 with a known gradient.
struct KnownGradient(Tensor);

impl Kernel<1> for KnownGradient {
    const NAME: &'static str = "sum-of-losses";

    fn shape(&self, _: [&Shape; 1]) -> Result<Shape> {
        Ok(Shape::from(()))
    }

    fn host<T: Float>(&self, _: [&[T]; 1]) -> Result<Vec<T>> {
        Ok(vec![T::zero()])
    }

    fn gradients(&self, _: [&Tensor; 1], _: &Tensor, g: &Tensor) -> Gradients<1> {
        let factor = g.to_dtype(DType::F64)?.to_scalar::<f64>()?;
        Ok([Some(if factor == 1.0 { self.0.clone() } else { (&self.0 * factor)? })])
    }
}
