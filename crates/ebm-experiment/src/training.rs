//! A training on a user's data, the same course for every task.

use std::collections::BTreeMap;

use candle_core::Device;
use ebm_train::{Group, Progress, RunSpec, TrainTask};

use crate::validated::{Measure, Validated, Validation, train_validated};
use crate::{Error, Result};

/// What a task brings to a training, asked for in this order: settings, data, a network, and how good the
/// network is on data that it does not learn from. [`train`] does the rest.
pub trait Training {
    /// The task's own errors.
    type Error: From<Error>;
    /// What is trained on, and what the network is judged by.
    type Data;
    /// The network in training; it makes the batch of a step itself.
    type Network: TrainTask;

    /// What the network is judged by.
    const MEASURE: Measure;
    /// The last names of settings that say how long the training is: a run that is over goes on with others
    /// of these.
    const LENGTH: &'static [&'static str];

    /// The resolved settings as TOML, or none as long as they depend on what is not known yet: first the
    /// data, then the network.
    ///
    /// # Errors
    /// When they contradict themselves.
    fn settings(&self, data: Option<&Self::Data>) -> Result<Option<String>, Self::Error>;

    /// What the numbers of the network depend on beside the settings, such as its data and the weights that
    /// it begins with: by name, the digest of each, wherever its file lies. A run goes on with the same
    /// alone.
    ///
    /// # Errors
    /// When a file cannot be read.
    fn inputs(&self, data: &Self::Data) -> Result<Inputs, Self::Error>;

    /// Opens the data.
    ///
    /// # Errors
    /// When they cannot be read or are not enough.
    fn open(&mut self, session: &mut Session<'_>) -> Result<Self::Data, Self::Error>;

    /// Builds the network and hands it the data to learn from.
    ///
    /// # Errors
    /// When the settings describe no network, or weights do not fit.
    fn build(
        &mut self,
        data: &mut Self::Data,
        session: &mut Session<'_>,
    ) -> Result<Built<Self::Network>, Self::Error>;

    /// Whether there are data to judge the network by; else the last network is kept.
    fn is_judged(&self, data: &Self::Data) -> bool {
        let _ = data;
        true
    }

    /// The measure of the network as it is now on the validation data. Of several processes only the first is
    /// asked.
    ///
    /// # Errors
    /// When an operation fails or data cannot be read; it ends the run.
    fn score(
        &mut self,
        data: &mut Self::Data,
        network: &Self::Network,
        session: &mut Session<'_>,
    ) -> Result<f64, Self::Error>;

    /// Writes the network as it is now, the best so far, to its file.
    ///
    /// # Errors
    /// When the file cannot be written; it ends the run.
    fn keep(&mut self, data: &Self::Data, network: &Self::Network) -> Result<(), Self::Error>;

    /// Completes the file of the network that was kept, for example by a step length that the validation data
    /// choose.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    fn finish(&mut self, data: &mut Self::Data, session: &mut Session<'_>) -> Result<(), Self::Error>;
}

/// Digests by the names of [`Training::inputs`].
pub type Inputs = BTreeMap<&'static str, String>;

/// A network that is about to be trained.
pub struct Built<N> {
    /// The network.
    pub network: N,
    /// The resolved settings as TOML.
    pub settings: String,
    /// Updates.
    pub steps: usize,
}

/// This process in a training.
pub struct Session<'a> {
    /// All processes.
    pub group: &'a Group,
    /// Where this one computes.
    pub device: &'a Device,
    /// What is shown.
    pub progress: &'a mut dyn Progress,
}

/// The run of a training.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Its folder, seed and checkpoints; `config` and `steps` are known to [`train`] when the network is
    /// built.
    pub spec: RunSpec<'a>,
    /// Steps between validations, after each of which the best network is kept; 0: at the end alone.
    pub validate_every: usize,
}

/// Trains as `run` says: refuses a run that is there before anything slow, opens the data, builds the
/// network, trains and validates it, keeps the best, and completes its file. Returns the validation of the
/// network that was kept, on the first process and where there was something to validate on; else the last
/// network is kept. A run that is resumed goes on with the validations that it recorded.
///
/// # Errors
/// [`ebm_train::Error::Refused`], [`ebm_train::Error::Interrupted`]
/// and others of a training; those of `training`.
pub fn train<T: Training>(
    training: &mut T,
    run: &Run<'_>,
    session: &mut Session<'_>,
) -> Result<Option<Validated>, T::Error> {
    // Before the data are open their digests are not known.
    let changeable = [T::LENGTH, INPUTS].concat();
    check(&RunSpec { changeable: &changeable, ..run.spec }, training.settings(None)?, session)?;
    let mut data = training.open(session)?;
    let inputs = table(&training.inputs(&data)?);
    let with_inputs = |settings: String| settings + &inputs;
    let spec = RunSpec { changeable: T::LENGTH, ..run.spec };
    check(&spec, training.settings(Some(&data))?.map(with_inputs), session)?;
    let Built { mut network, settings, steps } = training.build(&mut data, session)?;
    let settings = with_inputs(settings);
    let spec = RunSpec { config: &settings, steps, ..spec };
    let run = Run { spec, ..*run };
    let mut judge = Judge { training, data: &mut data };
    let best = train_validated(&run, &mut network, &mut judge, session)?;
    if session.group.is_first() {
        training.finish(&mut data, session)?;
    }
    Ok(best)
}

/// The names that inputs may have; no setting ends in one of them.
const INPUTS: &[&str] = &["data_sha256", "weights_sha256"];

/// Inputs as a table of a run's configuration.
fn table(inputs: &Inputs) -> String {
    let lines = inputs.iter().map(|(name, digest)| format!("{name} = \"{digest}\"\n"));
    format!("\n[inputs]\n{}", lines.collect::<String>())
}

/// A task as the judge of its network.
struct Judge<'a, T: Training> {
    training: &'a mut T,
    data: &'a mut T::Data,
}

impl<T: Training> Validation<T::Network> for Judge<'_, T> {
    type Error = T::Error;

    const MEASURE: Measure = T::MEASURE;

    fn is_possible(&self) -> bool {
        self.training.is_judged(self.data)
    }

    fn score(&mut self, network: &T::Network, session: &mut Session<'_>) -> Result<f64, T::Error> {
        self.training.score(self.data, network, session)
    }

    fn keep(&mut self, network: &T::Network) -> Result<(), T::Error> {
        self.training.keep(self.data, network)
    }
}

/// Refuses a run that is there already, or that has other settings where these are known.
fn check(spec: &RunSpec<'_>, settings: Option<String>, session: &Session<'_>) -> Result<()> {
    // The first process makes the folder, perhaps before another one looks.
    match settings {
        _ if !session.group.is_first() => Ok(()),
        Some(settings) => Ok(RunSpec { config: &settings, ..*spec }.check()?),
        None => Ok(spec.check_new()?),
    }
}
