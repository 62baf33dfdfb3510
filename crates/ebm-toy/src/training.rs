//! The training loop of Figure 2, the same for every method.

use candle_core::{Device, Tensor, Var};
use ebm_experiment::config::settings;
use ebm_nn::optim::{Adam, Optimizer, ParamGroup};
use ebm_seed::Key;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use crate::dataset::Points;
use crate::error::{Error, Result};

settings! {
    /// How long and how fast, as the follow-up's published code states it; the paper gives epochs and batch
    /// size alone.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Schedule {
        /// Passes over the points.
        pub epochs: usize where 1..=1_000_000,
        /// Points in a step; the last step of an epoch takes what is left.
        pub batch_size: usize where 1..=65_536 => "points",
        /// Adam's learning rate.
        pub learning_rate: f64 where 1e-9..=10.0,
    }
}

/// Minimises a loss over `points` in a new order every epoch; returns the mean loss of each epoch.
///
/// `loss` gets `x` and `y`, (B, 1), and the key of the step for whatever it draws.
///
/// # Errors
/// [`Error::Setting`] for a bad schedule, [`Error::Diverged`] when a loss is not finite, else what `loss`
/// reports.
pub fn train(
    method: &str,
    schedule: &Schedule,
    points: &Points,
    parameters: Vec<(String, Var)>,
    key: Key,
    mut loss: impl FnMut(&Tensor, &Tensor, Key) -> Result<Tensor>,
) -> Result<Vec<f64>> {
    let zero = |name, value: usize| match value {
        0 => Err(Error::Setting { name, value: "0".to_owned(), expected: "at least 1" }),
        _ => Ok(()),
    };
    zero("batch_size", schedule.batch_size)?;
    zero("points", points.x.len())?;
    let mut optimizer = Adam::new(parameters, |_| ParamGroup { lr_multiplier: 1.0, weight_decay: 0.0 });
    let mut order: Vec<usize> = (0..points.x.len()).collect();
    let mut history = Vec::with_capacity(schedule.epochs);
    for epoch in 0..schedule.epochs {
        let key = key.split("epoch").index(epoch as u64);
        order.shuffle(&mut key.split("order").rng());
        let mut sum = 0.0;
        for (step, batch) in order.chunks(schedule.batch_size).enumerate() {
            let column = |values: &[f32]| {
                let values = batch.iter().map(|&index| values[index]).collect::<Vec<_>>();
                Tensor::from_vec(values, (batch.len(), 1), &Device::Cpu)
            };
            let loss = loss(&column(&points.x)?, &column(&points.y)?, key.split("step").index(step as u64))?;
            let value = f64::from(loss.to_scalar::<f32>()?);
            if !value.is_finite() {
                return Err(Error::Diverged { method: method.to_owned(), epoch: epoch + 1, loss: value });
            }
            optimizer.step(&loss.backward()?, schedule.learning_rate)?;
            sum += value * batch.len() as f64;
        }
        history.push(sum / points.x.len() as f64);
    }
    Ok(history)
}
