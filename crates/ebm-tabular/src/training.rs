//! Training of one network.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use candle_core::{DType, Device, Tensor};
use ebm_base::Key;
use ebm_nn::import::LoadPolicy;
use ebm_nn::params::ParamStore;
use ebm_nn::schedule::{Decay, Schedule};
use ebm_ops::optim::{Adam, ParamGroup};
use ebm_train::{NonFiniteGuard, Updater};
use rand::Rng;
use rand::distr::Distribution;
use rand::distr::weighted::WeightedIndex;

use crate::config::TrainingConfig;
use crate::model::{Network, Shape};
use crate::target::Target;
use crate::{Error, Result};

/// Largest norm of the gradient; longer gradients are clipped.
const MAX_NORM: f64 = 10.0;
/// Largest number of validation rows.
const MAX_VALIDATION: usize = 1000;
/// Number of samples for the estimate of Z during training.
const SAMPLES: usize = 128;
/// Temperatures of f that are tried on the validation rows. Below 2, the tails of exp(f/T) have a finite area.
const TEMPERATURES: [f64; 9] = [0.8, 0.9, 1.0, 1.1, 1.2, 1.35, 1.5, 1.7, 1.9];

/// Rows for training and validation.
pub struct Rows<'a> {
    /// Inputs, (B, F).
    pub x: &'a Tensor,
    /// D target values of each row, in their own units.
    pub y: &'a [Vec<f64>],
    /// Scales of the targets.
    pub targets: &'a [Target],
    /// Weight of each row, from 0 on; none if all weigh the same.
    pub weights: Option<&'a [f64]>,
    /// Ends the training with an error once it is true.
    pub stop: &'a AtomicBool,
}

impl Rows<'_> {
    /// Returns x (B, F) and z (B, D) of some rows. With a generator `spread`, each y is spread over its resolution.
    fn take(&self, rows: &[usize], mut spread: Option<&mut ebm_base::Rng>) -> Result<(Tensor, Tensor)> {
        let places: Vec<u32> = rows.iter().map(|&row| row as u32).collect();
        let places = Tensor::from_vec(places, rows.len(), &Device::Cpu)?;
        let mut z = Vec::with_capacity(rows.len() * self.targets.len());
        for &row in rows {
            for (target, y) in self.targets.iter().zip(&self.y[row]) {
                z.push(match &mut spread {
                    Some(rng) => target.encode_spread(target.near(*y), *rng) as f32,
                    None => target.encode(target.near(*y)) as f32,
                });
            }
        }
        let z = Tensor::from_vec(z, (rows.len(), self.targets.len()), &Device::Cpu)?;
        Ok((self.x.index_select(&places, 0)?, z))
    }

    /// Returns the weights of some rows as parts of their sum.
    fn shares(&self, rows: &[usize]) -> Option<Vec<f64>> {
        let weights = self.weights?;
        let total: f64 = rows.iter().map(|&row| weights[row]).sum();
        Some(rows.iter().map(|&row| weights[row] / total).collect())
    }
}

/// The network with the best validation value.
pub struct Trained {
    /// Parameters of the network.
    pub store: ParamStore,
    /// Number of updates before that validation.
    pub step: usize,
    /// Value of that validation, lower is better.
    pub value: f64,
    /// Temperature of f with this value; 1 for a baseline.
    pub temperature: f64,
}

/// Trains the network of `shape` on the rows `learnt` and returns the running mean of its parameters at the best validation
/// on the rows `judged`: by −log p at the best temperature of f, or by its loss if it has no density. Weights decide how
/// often a row is drawn, and how much it counts in the validation.
///
/// # Errors
/// [`Error::Input`] if all weights are 0 or the training is stopped, [`ebm_train::Error::NonFinite`] if the loss is
/// repeatedly not finite, and the errors of tensor operations.
pub fn train(
    shape: &Shape<'_>,
    config: &TrainingConfig,
    rows: &Rows<'_>,
    learnt: &[usize],
    judged: &[usize],
    key: Key,
) -> Result<Trained> {
    let store = ParamStore::new(key.split("initial values"));
    let network = Network::new(shape, &store)?;
    let adam = Adam::new(store.trainable(), |_| ParamGroup::decay(config.weight_decay));
    let decay = Decay::Cosine { steps: config.steps as u64, floor: 0.0 };
    let schedule = Schedule { base: config.learning_rate, warmup: None, decay };
    let mut updater = Updater::new(Box::new(adam), schedule, Some(MAX_NORM));
    let mut guard = NonFiniteGuard::default();
    let judged = &judged[..judged.len().min(MAX_VALIDATION)];
    let validation = (rows.take(judged, None)?, rows.shares(judged));
    let drawn = rows.shares(learnt).map(WeightedIndex::new).transpose();
    let drawn = drawn.map_err(|error| Error::input("the weights of the rows to learn from", error))?;
    let mut average = store.tensors()?;
    let mut best = (f64::INFINITY, 1.0, 0, average.clone());
    for step in 0..config.steps {
        if rows.stop.load(Ordering::Relaxed) {
            return Err(Error::input("the fit", format!("it was stopped after {step} steps")));
        }
        let mut rng = key.split("batch").index(step as u64).rng();
        let mut draw = || match &drawn {
            None => rng.random_range(0..learnt.len()),
            Some(drawn) => drawn.sample(&mut rng),
        };
        let batch: Vec<usize> = (0..config.batch.min(learnt.len())).map(|_| learnt[draw()]).collect();
        let (x, z) = rows.take(&batch, Some(&mut rng))?;
        let mut rng = key.split("proposal").index(step as u64).rng();
        let loss = network.loss(shape.method, &x, &z, config.dropout, &mut rng)?;
        let (report, gradients) = updater.gradients(loss, step)?;
        if guard.check(step, report.loss, report.grad_norm)? {
            updater.apply(step, &gradients)?;
        }
        // The first means are of few steps.
        approach(&mut average, &store, config.average.min((1.0 + step as f64) / (10.0 + step as f64)))?;
        if (step + 1).is_multiple_of(config.validate_every) || step + 1 == config.steps {
            let (value, temperature) = validation_loss(shape, &average, &validation, key)?;
            if value < best.0 {
                best = (value, temperature, step + 1, average.clone());
            } else if step + 1 - best.2 >= config.patience {
                break;
            }
        }
    }
    let (value, temperature, step, average) = best;
    store.load(&average, LoadPolicy::Strict)?;
    Ok(Trained { store, step, value, temperature })
}

/// Moves the running means of the parameters to `weight` of themselves and the rest of the parameters.
fn approach(average: &mut BTreeMap<String, Tensor>, store: &ParamStore, weight: f64) -> Result<()> {
    for (name, parameter) in store.trainable() {
        let now = (parameter.as_tensor().detach() * (1.0 - weight))?;
        if let Some(mean) = average.get_mut(&name) {
            *mean = (&*mean * weight)?.add(&now)?;
        }
    }
    Ok(())
}

/// Returns the weighted mean of −log p(z | x) of x, z and their shares, with the temperature at which it is smallest; or the
/// loss if there is no density.
fn validation_loss(
    shape: &Shape<'_>,
    parameters: &BTreeMap<String, Tensor>,
    ((x, z), shares): &((Tensor, Tensor), Option<Vec<f64>>),
    key: Key,
) -> Result<(f64, f64)> {
    let network = ParamStore::build(parameters, |store| Network::new(shape, store));
    let (network, _) = network.map_err(|reason| Error::input("the network", reason))?;
    let mut rng = key.split("validation").rng();
    if !network.has_density() {
        let mut loss = |x: &Tensor, z: &Tensor| -> Result<f64> {
            Ok(f64::from(network.loss(shape.method, x, z, 0.0, &mut rng)?.to_scalar::<f32>()?))
        };
        let Some(shares) = shares else { return Ok((loss(x, z)?, 1.0)) };
        let part = |(row, share)| Ok(share * loss(&x.narrow(0, row, 1)?, &z.narrow(0, row, 1)?)?);
        return Ok((shares.iter().enumerate().map(part).sum::<Result<f64>>()?, 1.0));
    }
    let mut best = (f64::INFINITY, 1.0);
    for (temperature, log_p) in network.log_probs(x, z, &TEMPERATURES, SAMPLES, &mut rng)? {
        let log_p = log_p.to_dtype(DType::F64)?;
        let mean = match shares {
            None => log_p.mean_all()?.to_scalar::<f64>()?,
            Some(shares) => log_p.to_vec1::<f64>()?.iter().zip(shares).map(|(a, b)| a * b).sum(),
        };
        // NaN is never smaller.
        if -mean < best.0 {
            best = (-mean, temperature);
        }
    }
    Ok(best)
}
