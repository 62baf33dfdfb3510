//! Update of parameters from a loss: gradient, its mean over the processes, clipping, learning rate, optimiser.

use crate::checkpoint::CheckpointData;
use crate::distributed::Group;
use crate::error::Result;
use crate::gradient_task::Loss;
use crate::trainer::StepReport;
use candle_core::backprop::GradStore;
use candle_core::{Device, Tensor};
use ebm_nn::import::LoadPolicy;
use ebm_nn::params::ParamStore;
use ebm_nn::schedule::Schedule;
use ebm_ops::optim::{Optimizer, clip_grad_norm, grad_norm};
use std::collections::BTreeMap;

/// Optimiser with its schedule and an upper bound of the gradient's norm.
pub struct Updater {
    optimizer: Box<dyn Optimizer>,
    schedule: Schedule,
    max_norm: Option<f64>,
    pub(crate) group: Group,
}

impl Updater {
    /// Makes an updater. A gradient longer than `max_norm` is scaled to that length.
    pub fn new(optimizer: Box<dyn Optimizer>, schedule: Schedule, max_norm: Option<f64>) -> Self {
        Self { optimizer, schedule, max_norm, group: Group::alone() }
    }

    /// Makes this updater use the means over the processes of `group` for the loss and the gradients.
    #[must_use]
    pub fn over(self, group: &Group) -> Self {
        Self { group: group.clone(), ..self }
    }

    /// Computes the gradients of `loss` and the report of step `step`. Parameters do not change.
    ///
    /// All processes get the means over the processes. The mean is taken before clipping, so that all of them
    /// clip alike. Parts of the loss with a name are reported under it.
    ///
    /// # Errors
    /// If an operation has no gradient, or a part of the loss is no single-precision scalar;
    /// [`Error::Rank`](crate::Error::Rank) if another process failed.
    pub fn gradients(&self, loss: impl Into<Loss>, step: usize) -> Result<(StepReport, GradStore)> {
        let mut parts = loss.into().0;
        let weights = self.weights(&parts.iter().map(|part| part.terms).collect::<Vec<_>>())?;
        for (part, weight) in parts.iter_mut().zip(weights) {
            if weight != 1.0 {
                part.value = (&part.value * weight)?;
            }
        }
        let mut terms = parts.iter().map(|part| part.value.clone());
        let first = terms.next().ok_or_else(|| {
            candle_core::Error::Msg("the loss has no part; at least one is needed".to_owned())
        })?;
        let total = terms.try_fold(first, |total, value| total + value)?;
        let mut gradients = ebm_ops::backward(&total)?;
        let named: Vec<_> = parts.iter().filter_map(|part| Some((part.name?, &part.value))).collect();
        let values = std::iter::once(&total).chain(named.iter().map(|(_, value)| *value));
        let values = values.map(|value| Ok(f64::from(value.to_scalar::<f32>()?)));
        let values = self.mean(&mut gradients, values.collect::<Result<_>>()?)?;
        let params = self.optimizer.params();
        let norm = match self.max_norm {
            Some(max_norm) => clip_grad_norm(params, &mut gradients, max_norm)?,
            None => grad_norm(params.iter().map(|param| &param.var), &gradients)?,
        };
        let mut scalars =
            BTreeMap::from([("learning_rate".to_owned(), self.schedule.learning_rate(step as u64))]);
        let mut values = values.into_iter();
        let loss = values.next().unwrap_or(f64::NAN);
        scalars.extend(named.iter().map(|(name, _)| (*name).to_owned()).zip(values));
        Ok((StepReport { loss, grad_norm: norm, scalars }, gradients))
    }

    /// Returns the factors for the parts of this process's loss, where part i is a mean over `terms[i]` terms.
    /// With them the mean over the processes is the mean over the terms of all. A factor is the number of this
    /// process's terms, divided by the average number of all processes; in one process it is 1.
    ///
    /// # Errors
    /// [`Error::Rank`](crate::Error::Rank) if another process failed.
    pub fn weights(&self, terms: &[usize]) -> Result<Vec<f64>> {
        if self.group.world() == 1 {
            return Ok(vec![1.0; terms.len()]);
        }
        let own: Vec<f64> = terms.iter().map(|&count| count as f64).collect();
        let mut tensors = [Tensor::new(&own[..], &Device::Cpu)?];
        self.group.mean(&mut tensors)?;
        let average = tensors[0].to_vec1::<f64>()?;
        // Without any term there is nothing to weight.
        let weight = |(own, average): (&f64, f64)| if average > 0. { own / average } else { 1. };
        Ok(own.iter().zip(average).map(weight).collect())
    }

    /// Replaces the gradients by their means over the processes, and returns the means of `values`. A parameter
    /// has a gradient if it has one in any process.
    fn mean(&self, gradients: &mut GradStore, values: Vec<f64>) -> Result<Vec<f64>> {
        if self.group.world() == 1 {
            return Ok(values);
        }
        let params = self.optimizer.params();
        let count = values.len();
        let mut numbers = values;
        let mut tensors = Vec::with_capacity(params.len() + 1);
        for param in params {
            let gradient = gradients.remove(&param.var);
            numbers.push(f64::from(u8::from(gradient.is_some())));
            tensors.push(gradient.map_or_else(|| param.var.zeros_like(), Ok)?);
        }
        tensors.push(Tensor::new(numbers, &Device::Cpu)?);
        self.group.mean(&mut tensors)?;
        let mut numbers = match tensors.pop() {
            Some(numbers) => numbers.to_vec1::<f64>()?,
            None => Vec::new(),
        };
        let present = numbers.split_off(count);
        for ((param, gradient), share) in params.iter().zip(tensors).zip(present) {
            if share > 0. {
                gradients.insert(&param.var, gradient);
            }
        }
        Ok(numbers)
    }

    /// Applies the update of `step` with its gradients.
    ///
    /// # Errors
    /// If the shape or the type of a gradient differs from its parameter's.
    pub fn apply(&mut self, step: usize, gradients: &GradStore) -> ebm_nn::Result<()> {
        self.optimizer.step(gradients, self.schedule.learning_rate(step as u64))
    }

    /// Returns the tensors of a checkpoint: the parameters of `store` and the optimiser's state.
    ///
    /// # Errors
    /// If the device runs out of memory.
    pub fn checkpoint(&self, store: &ParamStore) -> ebm_nn::Result<CheckpointData> {
        Ok(CheckpointData { model: store.tensors()?, optimizer: self.optimizer.state()? })
    }

    /// Restores the result of [`checkpoint`](Self::checkpoint).
    ///
    /// # Errors
    /// If names or shapes differ from those in `store`, or a tensor does not belong to this optimiser.
    pub fn restore(&mut self, store: &ParamStore, data: &CheckpointData) -> ebm_nn::Result<()> {
        store.load(&data.model, LoadPolicy::Strict)?;
        self.optimizer.load_state(&data.optimizer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};
    use ebm_ops::optim::{ParamGroup, Sgd};

    #[test]
    fn a_step_follows_the_clipped_gradient_at_the_scheduled_rate() {
        let p = Var::new(&[3f32, 4.0], &Device::Cpu).unwrap();
        let optimizer = Sgd::new(vec![("p".into(), p.clone())], 0.9, |_| ParamGroup::decay(0.0));
        let mut updater = Updater::new(Box::new(optimizer), Schedule::constant(0.5), Some(1.0));
        // The gradient of |p|²/2 is p itself, of length 5; clipped to 1 it is p/5.
        let loss = (p.sqr().unwrap().sum_all().unwrap() * 0.5).unwrap();
        let (report, gradients) = updater.gradients(loss, 0).unwrap();
        assert_eq!((report.loss, report.grad_norm), (12.5, 5.0));
        assert_eq!(report.scalars["learning_rate"], 0.5);
        assert_eq!(p.to_vec1::<f32>().unwrap(), [3.0, 4.0]);
        updater.apply(0, &gradients).unwrap();
        for (value, expected) in p.to_vec1::<f32>().unwrap().iter().zip([2.7, 3.6]) {
            assert!((value - expected).abs() < 1e-6);
        }
    }
}
