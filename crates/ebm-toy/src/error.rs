//! What can go wrong, each with its remedy.

use std::path::PathBuf;

use ebm_files::ErrorKind;

/// The result of this crate's fallible functions.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the 1-D experiments.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The method failed.
    #[error(transparent)]
    Method(#[from] ebm_core::Error),
    /// An operation of the networks failed.
    #[error(transparent)]
    Network(#[from] ebm_nn::Error),
    /// A tensor operation failed.
    #[error(transparent)]
    Tensor(#[from] candle_core::Error),
    /// A file could not be read.
    #[error("cannot read {}: {source}; give a CSV file with the columns x and y", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line that is not a pair of finite numbers.
    #[error("{}:{number}: `{line}` is not a pair of finite numbers x,y; mend or remove the line", path.display())]
    Csv {
        /// The file.
        path: PathBuf,
        /// The line's number, from 1.
        number: usize,
        /// Its beginning.
        line: String,
    },
    /// A file without points.
    #[error("{} holds no points; give at least one line x,y", path.display())]
    NoPoints {
        /// The file.
        path: PathBuf,
    },
    /// Points that no density can be learned or measured from.
    #[error(
        "{count} points{}; give at least two, with x and y from −3 to 3: scale both columns into that range",
        outside.map_or(String::new(), |value| format!(", one with {value}"))
    )]
    Points {
        /// How many there are.
        count: usize,
        /// A coordinate out of range.
        outside: Option<f32>,
    },
    /// A setting outside its range.
    #[error("{name} = {value} is not allowed: it must be {expected}")]
    Setting {
        /// The setting's name.
        name: &'static str,
        /// The value that was given.
        value: String,
        /// What is allowed.
        expected: &'static str,
    },
    /// The settings of an experiment.
    #[error(transparent)]
    Experiment(#[from] ebm_experiment::Error),
    /// No thread could be started.
    #[error("cannot start a thread: {0}; take fewer")]
    Threads(String),
    /// A training that left the numbers.
    #[error("the loss of {method} became {loss} in epoch {epoch}; lower the learning rate")]
    Diverged {
        /// Which method.
        method: String,
        /// From 1.
        epoch: usize,
        /// The loss.
        loss: f64,
    },
}

impl Error {
    /// Whose matter it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Network(error) => error.kind(),
            Self::Experiment(error) => error.kind(),
            Self::Read { source, .. } => ErrorKind::of_io(source),
            Self::Csv { .. } | Self::NoPoints { .. } | Self::Points { .. } => ErrorKind::Data,
            Self::Setting { .. } => ErrorKind::Usage,
            Self::Diverged { .. } => ErrorKind::NonFinite,
            Self::Method(_) | Self::Tensor(_) | Self::Threads(_) => ErrorKind::Failure,
        }
    }
}
