//! Stochastic gradient descent with momentum.

use std::collections::BTreeMap;

use candle_core::backprop::GradStore;
use candle_core::{Tensor, Var};

use super::fused::Momentum;
use super::{Optimizer, Param, ParamGroup, buffer, export, gradient, import, with_groups};
use crate::Result;

/// SGD with the arithmetic of `torch.optim.SGD` without dampening. With d = g + λp for the weight decay λ, v ← μv + d (v = d
/// at a parameter's first step) and p ← p − lr·v.
#[derive(Debug)]
pub struct Sgd {
    params: Vec<Param>,
    momentum: f64,
    velocity: BTreeMap<String, Var>,
}

impl Sgd {
    /// Makes an optimiser of `params` with momentum μ. `group` returns a parameter's settings by its name.
    pub fn new(params: Vec<(String, Var)>, momentum: f64, group: impl Fn(&str) -> ParamGroup) -> Self {
        Self { params: with_groups(params, group), momentum, velocity: BTreeMap::new() }
    }
}

impl Optimizer for Sgd {
    fn step(&mut self, grads: &GradStore, lr: f64) -> Result<()> {
        // On a thread of the pool, which need not be woken for each parameter.
        rayon::scope(|_| self.step_here(grads, lr))
    }

    fn params(&self) -> &[Param] {
        &self.params
    }

    fn state(&self) -> Result<BTreeMap<String, Tensor>> {
        let mut state = BTreeMap::new();
        export("momentum", &self.velocity, &mut state)?;
        Ok(state)
    }

    fn load_state(&mut self, state: &BTreeMap<String, Tensor>) -> Result<()> {
        let [velocity] = import(["momentum"], &self.params, state)?;
        self.velocity = velocity;
        Ok(())
    }
}

impl Sgd {
    fn step_here(&mut self, grads: &GradStore, lr: f64) -> Result<()> {
        for param in &self.params {
            let Some(grad) = gradient(param, grads)? else { continue };
            // From zero the general rule gives v = d.
            let velocity = buffer(&mut self.velocity, param)?;
            let (decay, rate) = (param.group.weight_decay, lr * param.group.lr_multiplier);
            Momentum { keep: self.momentum, decay, rate }.run(&param.var, velocity, &grad)?;
        }
        Ok(())
    }
}
