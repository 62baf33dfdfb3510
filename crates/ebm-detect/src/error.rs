use std::path::PathBuf;

/// What can go wrong in detection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tensor operation failed.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
    /// An operation, layer or weight file of `ebm-nn` refused.
    #[error(transparent)]
    Nn(#[from] ebm_nn::Error),
    /// An objective, proposal or refinement of `ebm-core` refused.
    #[error(transparent)]
    Core(#[from] ebm_core::Error),
    /// Images or annotations could not be used.
    #[error(transparent)]
    Data(#[from] ebm_data::Error),
    /// A metric could not be computed.
    #[error(transparent)]
    Eval(#[from] ebm_eval::Error),
    /// The loop, a checkpoint or the run directory failed.
    #[error(transparent)]
    Train(#[from] ebm_train::Error),
    /// The settings or the run of an experiment.
    #[error(transparent)]
    Experiment(#[from] ebm_experiment::Error),
    /// A configuration that cannot be read or contradicts itself.
    #[error("configuration {name}: {reason}")]
    Config {
        /// File or embedded name.
        name: String,
        /// What is wrong and what is expected.
        reason: String,
    },
    /// Weights of another architecture, or a file that is not there.
    #[error("{}: {reason}", path.display())]
    Weights {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        reason: String,
    },
    /// The network produced numbers that no box can be made of.
    #[error("{place}: {reason}")]
    NonFinite {
        /// Where it was noticed.
        place: &'static str,
        /// What was found.
        reason: String,
    },
}

/// This crate's result.
pub type Result<T> = std::result::Result<T, Error>;
