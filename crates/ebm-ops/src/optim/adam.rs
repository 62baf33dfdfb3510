//! Adam.

use std::collections::BTreeMap;

use candle_core::backprop::GradStore;
use candle_core::{Device, Tensor, Var};

use super::fused::{Blend, SubtractRatio};
use super::{Optimizer, Param, ParamGroup, STEP, buffer, export, gradient, import, with_groups};
use crate::{Error, Result};

/// Decay rates β₁ and β₂ of the moments.
const BETAS: [f64; 2] = [0.9, 0.999];

/// Number ε that is added to the denominator.
const EPS: f64 = 1e-8;

/// Adam with the arithmetic of `torch.optim.Adam` and coupled weight decay. With d = g + λp and t the parameter's own step
/// count, m ← β₁m + (1−β₁)d, v ← β₂v + (1−β₂)d², p ← p − lr/(1−β₁ᵗ) · m / (√v/√(1−β₂ᵗ) + ε).
#[derive(Debug)]
pub struct Adam {
    params: Vec<Param>,
    first: BTreeMap<String, Var>,
    second: BTreeMap<String, Var>,
    steps: BTreeMap<String, i64>,
}

impl Adam {
    /// Makes an optimiser of `params` with β = (0.9, 0.999) and ε = 1e-8. `group` returns a parameter's settings by its name.
    pub fn new(params: Vec<(String, Var)>, group: impl Fn(&str) -> ParamGroup) -> Self {
        Self {
            params: with_groups(params, group),
            first: BTreeMap::new(),
            second: BTreeMap::new(),
            steps: BTreeMap::new(),
        }
    }
}

impl Optimizer for Adam {
    fn step(&mut self, grads: &GradStore, lr: f64) -> Result<()> {
        let [beta1, beta2] = BETAS;
        for param in &self.params {
            let Some(grad) = gradient(param, grads)? else { continue };
            let (first, second) = (buffer(&mut self.first, param)?, buffer(&mut self.second, param)?);
            let step = self.steps.entry(param.name.clone()).or_insert(0);
            *step += 1;
            let decay = param.group.weight_decay;
            Blend { keep: beta1, add: 1. - beta1, decay, square: false }.run(first, &grad, &param.var)?;
            Blend { keep: beta2, add: 1. - beta2, decay, square: true }.run(second, &grad, &param.var)?;
            let correction = |beta: f64| 1. - beta.powf(*step as f64);
            let rate = lr * param.group.lr_multiplier / correction(beta1);
            let ratio = SubtractRatio { rate, root: correction(beta2).sqrt(), eps: EPS };
            ratio.run(&param.var, first, second)?;
        }
        Ok(())
    }

    fn params(&self) -> &[Param] {
        &self.params
    }

    fn state(&self) -> Result<BTreeMap<String, Tensor>> {
        let mut state = BTreeMap::new();
        export("exp_avg", &self.first, &mut state)?;
        export("exp_avg_sq", &self.second, &mut state)?;
        for (name, step) in &self.steps {
            state.insert(format!("{STEP}.{name}"), Tensor::new(*step, &Device::Cpu)?);
        }
        Ok(state)
    }

    fn load_state(&mut self, state: &BTreeMap<String, Tensor>) -> Result<()> {
        let [first, second, steps] = import(["exp_avg", "exp_avg_sq", STEP], &self.params, state)?;
        let complete = first.keys().eq(second.keys()) && first.keys().eq(steps.keys());
        if !complete {
            let reason = "the moments and step counts are not of the same parameters".to_owned();
            return Err(Error::Argument { op: "Adam::load_state", reason });
        }
        let count = |(name, step): (&String, &Var)| Ok((name.clone(), step.to_scalar::<i64>()?));
        self.steps = steps.iter().map(count).collect::<Result<_>>()?;
        (self.first, self.second) = (first, second);
        Ok(())
    }
}
