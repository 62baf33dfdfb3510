use std::path::{Path, PathBuf};

use crate::ImageSize;

/// What can go wrong in the face networks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tensor operation failed.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
    /// A layer or an operation of `ebm-nn` refused.
    #[error(transparent)]
    Nn(#[from] ebm_nn::Error),
    /// An objective, density or refinement of `ebm-core` refused.
    #[error(transparent)]
    Core(#[from] ebm_core::Error),
    /// A dataset or an image of `ebm-data` refused.
    #[error(transparent)]
    Data(#[from] ebm_data::Error),
    /// A metric of `ebm-eval` refused.
    #[error(transparent)]
    Eval(#[from] ebm_eval::Error),
    /// A training failed.
    #[error(transparent)]
    Train(#[from] ebm_train::Error),
    /// The settings or the run of an experiment.
    #[error(transparent)]
    Experiment(#[from] ebm_experiment::Error),
    /// A file or directory could not be used.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// A configuration that can not be used.
    #[error("configuration {name}: {reason}")]
    Settings {
        /// The file or the embedded name.
        name: String,
        /// What is wrong and what is expected.
        reason: String,
    },
    /// A configuration that no network can be made of.
    #[error("configuration of the {part}: {reason}")]
    Config {
        /// Which part of the network.
        part: &'static str,
        /// What is wrong and what is expected.
        reason: String,
    },
    /// Images that a backbone does not take.
    #[error("the images are {found:?} where the backbone takes {expected}; resize or pad them")]
    Images {
        /// What the backbone takes.
        expected: ImageSize,
        /// The images' shape.
        found: Vec<usize>,
    },
    /// A weight file does not hold the network that is asked for.
    #[error("{}: {reason}", path.display())]
    Weights {
        /// The file.
        path: PathBuf,
        /// What differs and what to do.
        reason: String,
    },
}

/// This crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// Makes a directory with its parents.
pub(crate) fn create_dir(path: &Path) -> Result<()> {
    let fail = |source| Error::Io { action: "create", path: path.to_owned(), source };
    std::fs::create_dir_all(path).map_err(fail)
}
