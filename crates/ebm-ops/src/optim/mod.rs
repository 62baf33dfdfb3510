//! Optimisers with torch's arithmetic, state that can be saved, and no temporaries on the CPU.

mod adam;
mod fused;
mod sgd;

pub use adam::Adam;
pub use sgd::Sgd;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use candle_core::backprop::GradStore;
use candle_core::{DType, Device, Tensor, Var};

use crate::{Error, Result};

/// Settings that differ between parameters: torch's parameter groups, as a function of the name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParamGroup {
    /// Factor of the learning rate.
    pub lr_multiplier: f64,
    /// Coefficient of the L2 penalty that is added to the gradient (coupled weight decay).
    pub weight_decay: f64,
}

impl ParamGroup {
    /// Returns settings with the unchanged learning rate and this weight decay.
    pub fn decay(weight_decay: f64) -> Self {
        Self { lr_multiplier: 1., weight_decay }
    }

    /// Returns the rule of the detection code: biases learn at twice the rate without weight decay, and other parameters have
    /// `weight_decay`.
    pub fn double_bias(weight_decay: f64) -> impl Fn(&str) -> Self {
        move |name| {
            if name.rsplit('.').next() == Some("bias") {
                Self { lr_multiplier: 2., weight_decay: 0. }
            } else {
                Self::decay(weight_decay)
            }
        }
    }
}

/// Update rule over named parameters.
pub trait Optimizer {
    /// Changes each parameter that has a gradient in `grads`, with the learning rate `lr`.
    ///
    /// # Errors
    /// Returns an error if a gradient's shape or type is not its parameter's.
    fn step(&mut self, grads: &GradStore, lr: f64) -> Result<()>;

    /// Returns the parameters, in the order in which they were given.
    fn params(&self) -> &[Param];

    /// Returns a copy of the state by name, to be saved beside the parameters.
    ///
    /// # Errors
    /// Returns an error if the device runs out of memory.
    fn state(&self) -> Result<BTreeMap<String, Tensor>>;

    /// Restores the result of [`state`](Self::state). A parameter without state starts afresh.
    ///
    /// # Errors
    /// Returns an error and changes nothing if `state` names a tensor that is not of this optimiser or has another shape.
    fn load_state(&mut self, state: &BTreeMap<String, Tensor>) -> Result<()>;
}

/// Parameter of an optimiser.
#[derive(Clone, Debug)]
pub struct Param {
    /// Name of the parameter.
    pub name: String,
    /// Value of the parameter.
    pub var: Var,
    /// Settings of the parameter's group.
    pub group: ParamGroup,
}

fn with_groups(params: Vec<(String, Var)>, group: impl Fn(&str) -> ParamGroup) -> Vec<Param> {
    params.into_iter().map(|(name, var)| Param { group: group(&name), name, var }).collect()
}

/// Returns the Euclidean norm of all gradients of `params` together, summed in `f64`. A NaN or an infinity in any gradient
/// makes the norm one. Parameters without a gradient count as 0.
///
/// # Errors
/// Returns an error if a gradient cannot be read.
pub fn grad_norm<'a>(params: impl IntoIterator<Item = &'a Var>, grads: &GradStore) -> Result<f64> {
    let (mut sum, mut elsewhere) = (0., Vec::new());
    for var in params {
        match grads.get(var) {
            Some(grad) if grad.device().is_cpu() => sum += fused::sum_of_squares(grad)?,
            Some(grad) => elsewhere.push(fused::sum_of_squares_there(grad)?),
            None => {}
        }
    }
    if !elsewhere.is_empty() {
        // One transfer for all parameters.
        sum += Tensor::stack(&elsewhere, 0)?.to_dtype(DType::F64)?.to_vec1::<f64>()?.iter().sum::<f64>();
    }
    Ok(sum.sqrt())
}

/// Scales all gradients of `params` so that their [`grad_norm`] is at most `max_norm`, and returns the norm before: torch's
/// `clip_grad_norm_`, with the divisor norm + 1e-6. If the norm is not finite, the gradients stay as they are.
///
/// # Errors
/// Returns an error if a gradient cannot be scaled.
pub fn clip_grad_norm(params: &[Param], grads: &mut GradStore, max_norm: f64) -> Result<f64> {
    let norm = grad_norm(params.iter().map(|p| &p.var), grads)?;
    let scale = max_norm / (norm + 1e-6);
    if norm.is_finite() && scale < 1. {
        for param in params {
            if let Some(grad) = grads.remove(&param.var) {
                grads.insert(&param.var, (grad * scale)?);
            }
        }
    }
    Ok(norm)
}

/// Returns the gradient of `param` as a contiguous tensor, if it has one.
fn gradient(param: &Param, grads: &GradStore) -> Result<Option<Tensor>> {
    let Some(grad) = grads.get(&param.var) else { return Ok(None) };
    if grad.shape() != param.var.shape() || grad.dtype() != param.var.dtype() {
        let (found, expected) = (grad.shape(), param.var.shape());
        let reason = format!("{}: gradient {found:?} of parameter {expected:?}", param.name);
        return Err(Error::Argument { op: "Optimizer::step", reason });
    }
    Ok(Some(grad.detach().contiguous()?))
}

/// Returns the state of `param` in `buffers`, initially zero.
fn buffer<'a>(buffers: &'a mut BTreeMap<String, Var>, param: &Param) -> Result<&'a Var> {
    let zeros = || Var::zeros(param.var.shape(), param.var.dtype(), param.var.device());
    Ok(match buffers.entry(param.name.clone()) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => entry.insert(zeros()?),
    })
}

/// Copies `buffers` into `state` under the names `<prefix>.<parameter>`.
fn export(prefix: &str, buffers: &BTreeMap<String, Var>, state: &mut BTreeMap<String, Tensor>) -> Result<()> {
    for (name, var) in buffers {
        state.insert(format!("{prefix}.{name}"), var.as_detached_tensor().copy()?);
    }
    Ok(())
}

/// Prefix of step counts, which are integers on the CPU. All other state has the shape of its parameter.
const STEP: &str = "step";

/// Sorts `state` by its `prefixes` into maps by parameter name, and checks names and shapes.
fn import<const N: usize>(
    prefixes: [&str; N],
    params: &[Param],
    state: &BTreeMap<String, Tensor>,
) -> Result<[BTreeMap<String, Var>; N]> {
    let refuse = |reason| Err(Error::Argument { op: "Optimizer::load_state", reason });
    let params: BTreeMap<_, _> = params.iter().map(|p| (p.name.as_str(), &p.var)).collect();
    let mut slots = [const { BTreeMap::new() }; N];
    for (key, tensor) in state {
        let place = key.split_once('.').and_then(|(prefix, name)| {
            Some((prefixes.iter().position(|p| *p == prefix)?, name, *params.get(name)?))
        });
        let Some((slot, name, var)) = place else {
            return refuse(format!("{key} does not belong to a parameter of this optimiser"));
        };
        let tensor = tensor.detach();
        let tensor = if prefixes[slot] == STEP {
            if tensor.rank() != 0 {
                return refuse(format!("{key} has shape {:?} and is not a single number", tensor.dims()));
            }
            tensor.to_dtype(DType::I64)?.to_device(&Device::Cpu)?
        } else {
            if tensor.shape() != var.shape() {
                return refuse(format!(
                    "{key} has shape {:?}, its parameter {:?}",
                    tensor.dims(),
                    var.dims()
                ));
            }
            tensor.to_dtype(var.dtype())?.to_device(var.device())?
        };
        slots[slot].insert(name.to_owned(), Var::from_tensor(&tensor)?);
    }
    Ok(slots)
}
