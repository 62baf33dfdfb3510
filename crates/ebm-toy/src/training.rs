//! The training of Figure 2, the same for every method.

use candle_core::{Device, Tensor, Var};
use ebm_base::Key;
use ebm_experiment::config::settings;
use ebm_ops::optim::{Adam, Optimizer, ParamGroup};
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use crate::dataset::Points;
use crate::{Error, Result};

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

/// A loss that is minimised over points in a new order every epoch, step by step.
pub struct Training {
    method: String,
    batch_size: usize,
    learning_rate: f64,
    points: Points,
    optimizer: Adam,
    key: Key,
    order: Vec<usize>,
    /// Steps and points of the epoch that goes on, and the sum of the points' losses.
    steps: usize,
    done: usize,
    sum: f64,
    history: Vec<f64>,
}

impl Training {
    /// Of these parameters; the epochs of `schedule` are the caller's.
    ///
    /// # Errors
    /// [`Error::Config`] for a bad schedule, and without points.
    pub fn new(
        method: &str,
        schedule: &Schedule,
        points: Points,
        parameters: Vec<(String, Var)>,
        key: Key,
    ) -> Result<Self> {
        let zero = |name, value: usize| match value {
            0 => Err(Error::config(name, "0 is not allowed: it must be at least 1")),
            _ => Ok(()),
        };
        zero("batch_size", schedule.batch_size)?;
        zero("points", points.x.len())?;
        let optimizer = Adam::new(parameters, |_| ParamGroup { lr_multiplier: 1.0, weight_decay: 0.0 });
        Ok(Self {
            method: method.to_owned(),
            batch_size: schedule.batch_size,
            learning_rate: schedule.learning_rate,
            order: (0..points.x.len()).collect(),
            points,
            optimizer,
            key,
            steps: 0,
            done: 0,
            sum: 0.0,
            history: Vec::new(),
        })
    }

    /// One update. `loss` gets `x` and `y`, (B, 1), and the key of the step for whatever it draws.
    ///
    /// # Errors
    /// [`Error::NonFinite`] when the loss is not finite, else what `loss` reports.
    pub fn step(&mut self, loss: impl FnOnce(&Tensor, &Tensor, Key) -> Result<Tensor>) -> Result<()> {
        let epoch = self.history.len();
        let key = self.key.split("epoch").index(epoch as u64);
        if self.done == 0 {
            self.order.shuffle(&mut key.split("order").rng());
        }
        let end = self.order.len().min(self.done + self.batch_size);
        let batch = &self.order[self.done..end];
        let column = |values: &[f32]| {
            let values = batch.iter().map(|&index| values[index]).collect::<Vec<_>>();
            Tensor::from_vec(values, (batch.len(), 1), &Device::Cpu)
        };
        let key = key.split("step").index(self.steps as u64);
        let loss = loss(&column(&self.points.x)?, &column(&self.points.y)?, key)?;
        let value = f64::from(loss.to_scalar::<f32>()?);
        if !value.is_finite() {
            let (method, epoch) = (&self.method, epoch + 1);
            let reason =
                format!("the loss of {method} became {value} in epoch {epoch}; lower the learning rate");
            return Err(Error::NonFinite(reason));
        }
        self.optimizer.step(&loss.backward()?, self.learning_rate)?;
        self.sum += value * batch.len() as f64;
        (self.steps, self.done) = (self.steps + 1, end);
        if end == self.order.len() {
            self.history.push(self.sum / end as f64);
            (self.steps, self.done, self.sum) = (0, 0, 0.0);
        }
        Ok(())
    }

    /// The mean loss of each epoch that is over.
    pub fn history(&self) -> &[f64] {
        &self.history
    }

    /// What it trains on.
    pub fn points(&self) -> &Points {
        &self.points
    }

    /// Trains on one more point, in this epoch already.
    pub fn add(&mut self, x: f32, y: f32) {
        self.order.push(self.points.x.len());
        self.points.x.push(x);
        self.points.y.push(y);
    }
}
