//! A method's model and its training, which can stop after any step and go on.

use candle_core::{DType, Device, Tensor};
use ebm_core::parametric::{Gaussian, MixtureOfGaussians, Parametric};
use ebm_core::{JointNce, Objective};
use ebm_experiment::config::settings;
use ebm_nn::ops;
use ebm_nn::optim::{Adam, Optimizer, ParamGroup};
use ebm_seed::Key;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use crate::dataset::Points;
use crate::energy::ToyEnergy;
use crate::error::{Error, Result};
use crate::experiment::{Experiment, Method, ModelConfig, Trained};
use crate::layers::Heads;

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

/// A model that is being trained, on its points in a new order every epoch.
pub struct Course {
    method: Method,
    schedule: Schedule,
    points: Points,
    key: Key,
    trained: Trained,
    proposal: Option<Heads>,
    optimizer: Adam,
    order: Vec<usize>,
    /// Steps and points of the epoch that goes on, and the sum of the points' losses.
    steps: usize,
    done: usize,
    sum: f64,
    history: Vec<f64>,
}

impl Course {
    /// As [`Experiment::begin`].
    pub(crate) fn begin(experiment: &Experiment, method: &Method, points: Points, key: Key) -> Result<Self> {
        let zero = |name, value: usize| match value {
            0 => Err(Error::Setting { name, value: "0".to_owned(), expected: "at least 1" }),
            _ => Ok(()),
        };
        zero("batch_size", experiment.schedule.batch_size)?;
        zero("points", points.x.len())?;
        let init = key.split("init");
        let energy =
            || ToyEnergy::new(experiment.network, init, DType::F32, &Device::Cpu).map(Trained::Energy);
        let (trained, proposal) = match method.model {
            ModelConfig::Gaussian => (Trained::Gaussian(Heads::gaussian(init)?), None),
            ModelConfig::Energy(_) => (energy()?, None),
            ModelConfig::JointNce { components, .. } => {
                (energy()?, Some(Heads::mixture(components, init.split("proposal"))?))
            }
        };
        let mut parameters = match &trained {
            Trained::Gaussian(heads) => heads.parameters("gaussian"),
            Trained::Energy(model) => model.parameters(),
        };
        parameters.extend(proposal.iter().flat_map(|heads| heads.parameters("proposal")));
        let optimizer = Adam::new(parameters, |_| ParamGroup { lr_multiplier: 1.0, weight_decay: 0.0 });
        Ok(Self {
            method: method.clone(),
            schedule: experiment.schedule.clone(),
            order: (0..points.x.len()).collect(),
            points,
            key,
            trained,
            proposal,
            optimizer,
            steps: 0,
            done: 0,
            sum: 0.0,
            history: Vec::new(),
        })
    }

    /// Goes on while `goes_on` says so, which is asked before every step; what comes of it depends on the number of steps
    /// alone.
    ///
    /// # Errors
    /// [`Error::Diverged`](crate::Error::Diverged), or what the objective reports.
    pub fn train(&mut self, mut goes_on: impl FnMut(&Self) -> bool) -> Result<()> {
        while goes_on(self) {
            self.step()?;
        }
        Ok(())
    }

    /// One update.
    fn step(&mut self) -> Result<()> {
        let epoch = self.history.len();
        let key = self.key.split("training").split("epoch").index(epoch as u64);
        if self.done == 0 {
            self.order.shuffle(&mut key.split("order").rng());
        }
        let end = self.order.len().min(self.done + self.schedule.batch_size);
        let batch = &self.order[self.done..end];
        let column = |values: &[f32]| {
            let values = batch.iter().map(|&index| values[index]).collect::<Vec<_>>();
            Tensor::from_vec(values, (batch.len(), 1), &Device::Cpu)
        };
        let key = key.split("step").index(self.steps as u64);
        let loss = self.loss(&column(&self.points.x)?, &column(&self.points.y)?, key)?;
        let (value, count) = (f64::from(loss.to_scalar::<f32>()?), batch.len());
        if !value.is_finite() {
            let method = self.method.name.clone();
            return Err(Error::Diverged { method, epoch: epoch + 1, loss: value });
        }
        self.optimizer.step(&ops::backward(&loss)?, self.schedule.learning_rate)?;
        self.sum += value * count as f64;
        (self.steps, self.done) = (self.steps + 1, end);
        if end == self.order.len() {
            self.history.push(self.sum / end as f64);
            (self.steps, self.done, self.sum) = (0, 0, 0.0);
        }
        Ok(())
    }

    /// The loss of a batch `x` and `y`, (B, 1); `key` is for whatever it draws.
    fn loss(&self, x: &Tensor, y: &Tensor, key: Key) -> Result<Tensor> {
        let rng = &mut key.rng();
        Ok(match (&self.trained, &self.method.model, &self.proposal) {
            (Trained::Gaussian(heads), ..) => Gaussian::new(1)?.loss(&heads.outputs(x)?, y)?,
            (Trained::Energy(model), ModelConfig::Energy(objective), _) => {
                let objective = objective.build(&mut self.key.split("pool").rng())?;
                objective.loss(model, &model.features(x)?, y, rng)?
            }
            (Trained::Energy(model), &ModelConfig::JointNce { components, num_samples }, Some(heads)) => {
                let features = model.features(x)?;
                let outputs = heads.outputs(&features.detach())?;
                let proposal = &MixtureOfGaussians::new(1, components)?.density(&outputs)?;
                JointNce { proposal, num_samples }.loss(model, &features, y, rng)?
            }
            // No other model is made.
            (Trained::Energy(_), ..) => return Err(ebm_core::Error::NoGradient.into()),
        })
    }

    /// The model as it is.
    pub fn trained(&self) -> &Trained {
        &self.trained
    }

    /// The mean loss of each epoch that is over.
    pub fn history(&self) -> &[f64] {
        &self.history
    }

    /// What it trains on.
    pub fn points(&self) -> &Points {
        &self.points
    }

    /// The model, and the mean loss of each epoch.
    pub(crate) fn end(self) -> (Trained, Vec<f64>) {
        (self.trained, self.history)
    }

    /// Trains on one more point, in this epoch already.
    pub fn add(&mut self, x: f32, y: f32) {
        self.order.push(self.points.x.len());
        self.points.x.push(x);
        self.points.y.push(y);
    }
}
