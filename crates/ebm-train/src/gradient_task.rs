//! Training by gradient descent: what a task has to say is the loss of a step.

use candle_core::backprop::GradStore;
use candle_core::{Tensor, Var};
use ebm_nn::params::ParamStore;

use crate::checkpoint::CheckpointData;
use crate::distributed::Group;
use crate::error::BoxError;
use crate::trainer::{StepReport, TrainTask};
use crate::updater::Updater;

/// A [`TrainTask`] that descends the gradient of a loss.
///
/// The loss of a step may depend on the parameters and on the step's number alone: draw from a key that is
/// split by it, and a resumed training repeats an uninterrupted one.
pub trait GradientTask {
    /// What can go wrong in computing a loss.
    type Error: From<candle_core::Error> + From<crate::Error>;

    /// The loss of `step`, of this process's share of the batch.
    ///
    /// # Errors
    /// When the batch can not be had or an operation fails.
    fn loss(&mut self, step: usize) -> Result<Loss, Self::Error>;

    /// What is trained, and how.
    fn learner(&self) -> &Learner;

    /// The same, to be changed.
    fn learner_mut(&mut self) -> &mut Learner;

    /// The network's parameters.
    fn store(&self) -> &ParamStore {
        self.learner().store()
    }
}

/// A [`GradientTask`] that is no more than a function of the step.
pub struct Descent<F> {
    /// What is trained, and how.
    pub learner: Learner,
    /// [`GradientTask::loss`].
    pub loss: F,
}

impl<F, E> GradientTask for Descent<F>
where
    F: FnMut(usize) -> Result<Loss, E>,
    E: From<candle_core::Error> + From<crate::Error>,
{
    type Error = E;

    fn loss(&mut self, step: usize) -> Result<Loss, E> {
        (self.loss)(step)
    }

    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }
}

/// The parameters in training with their optimiser.
pub struct Learner {
    store: ParamStore,
    updater: Updater,
    /// The running means and variances of normalisations. A forward pass in training moves them; only a step that is
    /// applied may.
    statistics: Vec<Var>,
}

impl Learner {
    /// Trains the parameters of `store` that `updater` was given; all of `store`, running statistics of
    /// normalisations among it, is in a checkpoint.
    pub fn new(store: ParamStore, updater: Updater) -> Self {
        let is_statistic = |name: &&String| name.ends_with(".running_mean") || name.ends_with(".running_var");
        let names = store.names();
        let statistics = names.iter().filter(is_statistic).filter_map(|name| store.var(name)).collect();
        Self { store, updater, statistics }
    }

    /// The same as one of the processes of `group`, which apply the means of their gradients. Each normalises by its
    /// own share of a batch, and the running statistics are the means over the processes.
    #[must_use]
    pub fn over(self, group: &Group) -> Self {
        Self { updater: self.updater.over(group), ..self }
    }

    /// The present values of the running statistics.
    fn statistics(&self) -> candle_core::Result<Vec<Tensor>> {
        self.statistics.iter().map(|buffer| buffer.as_detached_tensor().copy()).collect()
    }

    /// Puts values of [`statistics`](Self::statistics) back.
    fn set_statistics(&self, values: &[Tensor]) -> candle_core::Result<()> {
        self.statistics.iter().zip(values).try_for_each(|(buffer, value)| buffer.set(value))
    }

    /// The parameters.
    pub fn store(&self) -> &ParamStore {
        &self.store
    }

    /// The parameters, trained so far.
    pub fn into_store(self) -> ParamStore {
        self.store
    }
}

/// A loss: the sum of its parts.
#[derive(Clone, Debug)]
pub struct Loss(pub(crate) Vec<LossPart>);

/// A part of a [`Loss`].
#[derive(Clone, Debug)]
pub struct LossPart {
    /// What it is reported as; a part without a name is not.
    pub name: Option<&'static str>,
    /// A scalar in single precision.
    pub value: Tensor,
    /// Over how many terms it is a mean. Of several processes, every term counts alike, however many a share
    /// has.
    pub terms: usize,
}

impl Loss {
    /// The sum of `parts`, in their order.
    pub fn sum(parts: impl IntoIterator<Item = LossPart>) -> Self {
        Self(parts.into_iter().collect())
    }

    /// A mean over so many terms.
    pub fn mean_over(terms: usize, value: Tensor) -> Self {
        Self(vec![LossPart { name: None, value, terms }])
    }
}

/// A mean over as many terms in every process.
impl From<Tensor> for Loss {
    fn from(value: Tensor) -> Self {
        Self::mean_over(1, value)
    }
}

/// The gradients of a step, and the running statistics after it.
pub struct Update {
    /// Of the parameters in training.
    pub gradients: GradStore,
    statistics: Vec<Tensor>,
}

impl<T: GradientTask> TrainTask for T
where
    BoxError: From<T::Error>,
{
    type Update = Update;

    fn step(&mut self, step: usize) -> Result<(StepReport, Update), BoxError> {
        let before = self.learner().statistics()?;
        let mut gradients = || -> Result<_, T::Error> {
            let loss = self.loss(step)?;
            Ok(self.learner().updater.gradients(loss, step)?)
        };
        let result = gradients();
        let learner = self.learner();
        let mut statistics = learner.statistics()?;
        learner.set_statistics(&before)?;
        let (report, gradients) = result?;
        learner.updater.group.mean(&mut statistics)?;
        Ok((report, Update { gradients, statistics }))
    }

    fn apply(&mut self, step: usize, update: Update) -> Result<(), BoxError> {
        let learner = self.learner_mut();
        learner.set_statistics(&update.statistics)?;
        Ok(learner.updater.apply(step, &update.gradients)?)
    }

    fn state(&self) -> Result<CheckpointData, BoxError> {
        let learner = self.learner();
        Ok(learner.updater.checkpoint(&learner.store)?)
    }

    fn restore(&mut self, data: CheckpointData) -> Result<(), BoxError> {
        let learner = self.learner_mut();
        Ok(learner.updater.restore(&learner.store, &data)?)
    }
}
