//! Training of a method's model, the same for every method, which can stop after any step and continue.

use candle_core::{Device, Tensor};
use ebm_base::Key;
use ebm_core::parametric::{Gaussian, MixtureOfGaussians, Parametric};
use ebm_core::{AnyObjective, JointNce, Objective, Proposal};
use ebm_experiment::config::settings_table;
use ebm_ops::optim::{Adam, Optimizer, ParamGroup};
use rand::seq::SliceRandom;

use crate::dataset::Points;
use crate::energy::ToyEnergy;
use crate::experiment::{Experiment, Method, ModelConfig, Trained};
use crate::network::Heads;
use crate::{Error, Result};

settings_table! {
    /// Length and speed of the training, as the follow-up's published code states them; the paper gives only epochs
    /// and batch size.
    pub struct Schedule {
        /// Number of passes over the points.
        pub epochs: usize where 1..=1_000_000,
        /// Number of points in a step; the last step of an epoch has the remaining points.
        pub batch_size: usize where 1..=65_536 => "points",
        /// Learning rate of Adam.
        pub learning_rate: f64 where 1e-9..=10.0,
    }
}

/// A training that runs step by step, with a new order of the points in every epoch.
pub struct Course {
    method: Method,
    trained: Trained,
    /// Network of a jointly learned proposal.
    proposal: Option<Heads>,
    schedule: Schedule,
    points: Points,
    optimizer: Adam,
    key: Key,
    order: Vec<usize>,
    /// Steps and points of the current epoch so far, and the sum of the points' losses.
    steps: usize,
    done: usize,
    sum: f64,
    history: Vec<f64>,
}

impl Experiment {
    /// Trains one model, and returns it with the mean loss of each epoch.
    ///
    /// # Errors
    /// The errors of [`Course::train`].
    pub fn train(&self, method: &Method, points: &Points, key: Key) -> Result<(Trained, Vec<f64>)> {
        let mut course = self.begin(method, points.clone(), key)?;
        course.train(|course| course.history.len() < self.schedule.epochs)?;
        Ok((course.trained, course.history))
    }

    /// Creates a training before its first step.
    ///
    /// # Errors
    /// [`Error::Config`] for a bad schedule, or without points.
    pub fn begin(&self, method: &Method, points: Points, key: Key) -> Result<Course> {
        let zero = |name, value: usize| match value {
            0 => Err(Error::config(name, "0 is not allowed: it must be at least 1")),
            _ => Ok(()),
        };
        zero("batch_size", self.schedule.batch_size)?;
        zero("points", points.x.len())?;
        let init = key.split("init");
        let trained = match &method.model {
            ModelConfig::Gaussian => Trained::Gaussian(Heads::gaussian(init)?),
            _ => Trained::Energy(ToyEnergy::new(self.network, init, &Device::Cpu)?),
        };
        let proposal = match method.model {
            ModelConfig::JointNce { components, .. } => {
                Some(Heads::mixture(components, init.split("proposal"))?)
            }
            _ => None,
        };
        let own = match &trained {
            Trained::Gaussian(heads) => heads.parameters("theta"),
            Trained::Energy(model) => model.parameters(),
        };
        let others = proposal.iter().flat_map(|heads| heads.parameters("proposal"));
        let parameters = own.into_iter().chain(others).collect();
        Ok(Course {
            method: method.clone(),
            trained,
            proposal,
            schedule: self.schedule.clone(),
            order: (0..points.x.len()).collect(),
            points,
            optimizer: Adam::new(parameters, |_| ParamGroup { lr_multiplier: 1.0, weight_decay: 0.0 }),
            key,
            steps: 0,
            done: 0,
            sum: 0.0,
            history: Vec::new(),
        })
    }
}

impl Course {
    /// Trains while `goes_on`, called before every step, returns `true`. The result depends on the number of steps alone,
    /// not on the number of calls.
    ///
    /// # Errors
    /// [`Error::NonFinite`] if the loss is not finite, or the errors of the objective.
    pub fn train(&mut self, mut goes_on: impl FnMut(&Self) -> bool) -> Result<()> {
        let objective = match &self.method.model {
            ModelConfig::Energy(objective) => Some(objective.build(&mut self.key.split("pool").rng())?),
            _ => None,
        };
        while goes_on(self) {
            self.step(objective.as_ref())?;
        }
        Ok(())
    }

    /// Makes one update.
    fn step(&mut self, objective: Option<&AnyObjective<Box<dyn Proposal>>>) -> Result<()> {
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
        let loss = self.loss(objective, &column(&self.points.x)?, &column(&self.points.y)?, key)?;
        let value = f64::from(loss.to_scalar::<f32>()?);
        if !value.is_finite() {
            let (method, epoch) = (&self.method.name, epoch + 1);
            let reason =
                format!("the loss of {method} became {value} in epoch {epoch}; lower the learning rate");
            return Err(Error::NonFinite(reason));
        }
        self.optimizer.step(&loss.backward()?, self.schedule.learning_rate)?;
        self.sum += value * (end - self.done) as f64;
        (self.steps, self.done) = (self.steps + 1, end);
        if end == self.order.len() {
            self.history.push(self.sum / end as f64);
            (self.steps, self.done, self.sum) = (0, 0, 0.0);
        }
        Ok(())
    }

    /// Computes the loss at `x` and `y`, (B, 1); `key` is the seed of its samples.
    fn loss(
        &self,
        objective: Option<&AnyObjective<Box<dyn Proposal>>>,
        x: &Tensor,
        y: &Tensor,
        key: Key,
    ) -> Result<Tensor> {
        let model = match &self.trained {
            Trained::Gaussian(heads) => return Ok(Gaussian::new(1)?.loss(&heads.outputs(x)?, y)?),
            Trained::Energy(model) => model,
        };
        let (features, mut rng) = (model.features(x)?, key.rng());
        match (&self.method.model, &self.proposal, objective) {
            (&ModelConfig::JointNce { components, num_samples }, Some(heads), _) => {
                let outputs = heads.outputs(&features.detach())?;
                let proposal = MixtureOfGaussians::new(1, components)?.density(&outputs)?;
                Ok(JointNce { proposal: &proposal, num_samples }.loss(model, &features, y, &mut rng)?)
            }
            (_, _, Some(objective)) => Ok(objective.loss(model, &features, y, &mut rng)?),
            _ => Err(Error::config(&self.method.name, "it has no objective")),
        }
    }

    /// Returns the model in its current state.
    pub fn trained(&self) -> &Trained {
        &self.trained
    }

    /// Returns the mean loss of each finished epoch.
    pub fn history(&self) -> &[f64] {
        &self.history
    }

    /// Returns the training points.
    pub fn points(&self) -> &Points {
        &self.points
    }

    /// Adds a training point, which is used from the current epoch on.
    pub fn add(&mut self, x: f32, y: f32) {
        self.order.push(self.points.x.len());
        self.points.x.push(x);
        self.points.y.push(y);
    }
}
