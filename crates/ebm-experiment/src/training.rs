//! Training on a user's data, with the same steps for every task.

use std::collections::BTreeMap;

use candle_core::Device;
use ebm_train::{Group, Progress, RunSpec, TrainTask};

use crate::validated::{Measure, Validated, Validation, train_validated};
use crate::{Error, Result};

/// Parts of a training that a task defines: settings, data, network and validation, used in this order. [`train`]
/// does the rest.
pub trait Training {
    /// Errors of the task.
    type Error: From<Error>;
    /// Training data and validation data.
    type Data;
    /// Network in training, which makes the batch of a step itself.
    type Network: TrainTask;

    /// Measure of the network on the validation data.
    const MEASURE: Measure;
    /// Last names of settings that determine the length of the training. A finished run may continue with other
    /// values of these.
    const LENGTH: &'static [&'static str];

    /// Returns the resolved settings as TOML. It returns `None` while they depend on the data or the network,
    /// which are not known at first.
    ///
    /// # Errors
    /// If the settings contradict each other.
    fn settings(&self, data: Option<&Self::Data>) -> Result<Option<String>, Self::Error>;

    /// Opens the data.
    ///
    /// # Errors
    /// If the data cannot be read or are not enough.
    fn open(&mut self, session: &mut Session<'_>) -> Result<Opened<Self::Data>, Self::Error>;

    /// Builds the network and gives it the training data.
    ///
    /// # Errors
    /// If the settings describe no network, or weights do not fit.
    fn build(
        &mut self,
        data: &mut Self::Data,
        session: &mut Session<'_>,
    ) -> Result<Built<Self::Network>, Self::Error>;

    /// Computes the measure of the present network on the validation data. Only the first of several processes
    /// calls it.
    ///
    /// # Errors
    /// If an operation fails or data cannot be read; the error ends the run.
    fn score(
        &mut self,
        data: &mut Self::Data,
        network: &Self::Network,
        session: &mut Session<'_>,
    ) -> Result<f64, Self::Error>;

    /// Writes the present network, the best so far, to its file.
    ///
    /// # Errors
    /// If the file cannot be written; the error ends the run.
    fn keep(&mut self, data: &Self::Data, network: &Self::Network) -> Result<(), Self::Error>;

    /// Completes the file of the kept network, for example by a step length chosen on the validation data.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    fn finish(&mut self, data: &mut Self::Data, session: &mut Session<'_>) -> Result<(), Self::Error>;
}

/// Data of a training that [`Training::open`] has opened.
pub struct Opened<D> {
    /// Training data and validation data.
    pub data: D,
    /// Digest of each input that determines the network besides the settings, such as its data and its initial
    /// weights, by name. The place of a file does not matter. A run continues only with the same inputs.
    pub inputs: Inputs,
    /// Whether there are validation data. Without them the last network is kept.
    pub is_judged: bool,
}

/// Digests by the names of [`Opened::inputs`].
pub type Inputs = BTreeMap<&'static str, String>;

/// Network before its training.
pub struct Built<N> {
    /// Network to train.
    pub network: N,
    /// Resolved settings as TOML.
    pub settings: String,
    /// Number of updates.
    pub steps: usize,
}

/// This process in a training.
pub struct Session<'a> {
    /// Group of all processes.
    pub group: &'a Group,
    /// Device of this process.
    pub device: &'a Device,
    /// Receiver of progress reports.
    pub progress: &'a mut dyn Progress,
}

/// Run of a training.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Folder, seed and checkpoints of the run. [`train`] sets `config` and `steps` when the network is built.
    pub spec: RunSpec<'a>,
    /// Number of steps between validations. Each validation keeps the best network so far. With 0 there is one at
    /// the end.
    pub validate_every: usize,
}

/// Trains according to `run`. It refuses an existing run before anything slow, opens the data, builds the
/// network, trains and validates it, keeps the best, and completes its file. On the first process it returns the
/// validation of the kept network. Without validation data the last network is kept, and the result is `None`. A
/// resumed run uses the validations that it recorded.
///
/// # Errors
/// [`ebm_train::Error::Refused`], [`ebm_train::Error::Interrupted`] and other errors of a training; the errors of
/// `training`.
pub fn train<T: Training>(
    training: &mut T,
    run: &Run<'_>,
    session: &mut Session<'_>,
) -> Result<Option<Validated>, T::Error> {
    // The digests of the data are not known before the data are open.
    let changeable = [T::LENGTH, INPUTS].concat();
    check(&RunSpec { changeable: &changeable, ..run.spec }, training.settings(None)?, session)?;
    let Opened { mut data, inputs, is_judged } = training.open(session)?;
    let inputs = table(&inputs);
    let with_inputs = |settings: String| settings + &inputs;
    let spec = RunSpec { changeable: T::LENGTH, ..run.spec };
    check(&spec, training.settings(Some(&data))?.map(with_inputs), session)?;
    let Built { mut network, settings, steps } = training.build(&mut data, session)?;
    let settings = with_inputs(settings);
    let spec = RunSpec { config: &settings, steps, ..spec };
    let run = Run { spec, ..*run };
    let mut validation = TaskValidation { training, data: &mut data, is_judged };
    let best = train_validated(&run, &mut network, &mut validation, session)?;
    if session.group.is_first() {
        training.finish(&mut data, session)?;
    }
    Ok(best)
}

/// Allowed names of inputs; no setting ends in one of them.
const INPUTS: &[&str] = &["data_sha256", "weights_sha256"];

/// Returns the inputs as a table of a run's configuration.
fn table(inputs: &Inputs) -> String {
    let lines = inputs.iter().map(|(name, digest)| format!("{name} = \"{digest}\"\n"));
    format!("\n[inputs]\n{}", lines.collect::<String>())
}

/// Validation that calls the task.
struct TaskValidation<'a, T: Training> {
    training: &'a mut T,
    data: &'a mut T::Data,
    is_judged: bool,
}

impl<T: Training> Validation<T::Network> for TaskValidation<'_, T> {
    type Error = T::Error;

    const MEASURE: Measure = T::MEASURE;

    fn is_possible(&self) -> bool {
        self.is_judged
    }

    fn score(&mut self, network: &T::Network, session: &mut Session<'_>) -> Result<f64, T::Error> {
        self.training.score(self.data, network, session)
    }

    fn keep(&mut self, network: &T::Network) -> Result<(), T::Error> {
        self.training.keep(self.data, network)
    }
}

/// Refuses an existing run, or one with other settings if the settings are known.
fn check(spec: &RunSpec<'_>, settings: Option<String>, session: &Session<'_>) -> Result<()> {
    // The first process creates the folder, perhaps before another one checks.
    match settings {
        _ if !session.group.is_first() => Ok(()),
        Some(settings) => Ok(RunSpec { config: &settings, ..*spec }.check()?),
        None => Ok(spec.check_new()?),
    }
}
