//! Training by gradient descent, for tasks that only define the loss of a step.

use candle_core::backprop::GradStore;
use candle_core::{Tensor, Var};
use ebm_nn::params::ParamStore;

use crate::checkpoint::CheckpointData;
use crate::distributed::Group;
use crate::error::BoxError;
use crate::trainer::{StepReport, TrainTask};
use crate::updater::Updater;

/// [`TrainTask`] that descends the gradient of a loss.
///
/// The loss of a step may depend only on the parameters and on the step's number. Draw from a key that is split
/// by the step, so that a resumed training repeats an uninterrupted one.
pub trait GradientTask {
    /// Error of computing a loss.
    type Error: From<candle_core::Error> + From<crate::Error>;

    /// Computes the loss of `step` on this process's share of the batch.
    ///
    /// # Errors
    /// If the batch cannot be loaded or an operation fails.
    fn loss(&mut self, step: usize) -> Result<Loss, Self::Error>;

    /// Returns the trained parameters and their optimiser.
    fn learner(&self) -> &Learner;

    /// Returns the trained parameters and their optimiser for changes.
    fn learner_mut(&mut self) -> &mut Learner;

    /// Returns the network's parameters.
    fn store(&self) -> &ParamStore {
        self.learner().store()
    }
}

/// [`GradientTask`] made of a function of the step.
pub struct Descent<F> {
    /// Trained parameters and their optimiser.
    pub learner: Learner,
    /// Function that computes [`GradientTask::loss`].
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

/// Trained parameters with their optimiser.
pub struct Learner {
    store: ParamStore,
    updater: Updater,
    /// Running means and variances of normalisations. A forward pass in training changes them, but only an
    /// applied step may.
    statistics: Vec<Var>,
}

impl Learner {
    /// Trains the parameters of `store` that `updater` was given. A checkpoint holds all of `store`, including
    /// running statistics of normalisations.
    pub fn new(store: ParamStore, updater: Updater) -> Self {
        let is_statistic = |name: &&String| name.ends_with(".running_mean") || name.ends_with(".running_var");
        let names = store.names();
        let statistics = names.iter().filter(is_statistic).filter_map(|name| store.var(name)).collect();
        Self { store, updater, statistics }
    }

    /// Makes this learner one of the processes of `group`, which apply the means of their gradients. Each process
    /// normalises by its own share of a batch, and the running statistics are the means over the processes.
    #[must_use]
    pub fn over(self, group: &Group) -> Self {
        Self { updater: self.updater.over(group), ..self }
    }

    /// Returns copies of the running statistics.
    fn statistics(&self) -> candle_core::Result<Vec<Tensor>> {
        self.statistics.iter().map(|buffer| buffer.as_detached_tensor().copy()).collect()
    }

    /// Restores values of [`statistics`](Self::statistics).
    fn set_statistics(&self, values: &[Tensor]) -> candle_core::Result<()> {
        self.statistics.iter().zip(values).try_for_each(|(buffer, value)| buffer.set(value))
    }

    /// Returns the parameters.
    pub fn store(&self) -> &ParamStore {
        &self.store
    }

    /// Returns the trained parameters.
    pub fn into_store(self) -> ParamStore {
        self.store
    }
}

/// Loss, as the sum of its parts.
#[derive(Clone, Debug)]
pub struct Loss(pub(crate) Vec<LossPart>);

/// Part of a [`Loss`].
#[derive(Clone, Debug)]
pub struct LossPart {
    /// Name in reports; a part without a name is not reported.
    pub name: Option<&'static str>,
    /// Scalar in single precision.
    pub value: Tensor,
    /// Number of terms whose mean this part is. With several processes every term has the same weight,
    /// in shares of any size.
    pub terms: usize,
}

impl Loss {
    /// Adds `parts` in their order.
    pub fn sum(parts: impl IntoIterator<Item = LossPart>) -> Self {
        Self(parts.into_iter().collect())
    }

    /// Makes a loss that is the mean over `terms` terms.
    pub fn mean_over(terms: usize, value: Tensor) -> Self {
        Self(vec![LossPart { name: None, value, terms }])
    }
}

/// Converts a mean over an equal number of terms in every process.
impl From<Tensor> for Loss {
    fn from(value: Tensor) -> Self {
        Self::mean_over(1, value)
    }
}

/// Gradients of a step, and the running statistics after it.
pub struct Update {
    /// Gradients of the trained parameters.
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
