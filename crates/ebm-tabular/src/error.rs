use std::path::PathBuf;

/// What can go wrong in a regression on a table.
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
    /// A file could not be read or written.
    #[error(transparent)]
    Data(#[from] ebm_data::Error),
    /// A metric of `ebm-eval` refused.
    #[error(transparent)]
    Eval(#[from] ebm_eval::Error),
    /// A training failed.
    #[error(transparent)]
    Train(#[from] ebm_train::Error),
    /// The settings of a fit.
    #[error(transparent)]
    Experiment(#[from] ebm_experiment::Error),
    /// A table that cannot be read as one.
    #[error("{table}: {reason}")]
    Table {
        /// The file, or what a table that is none calls itself.
        table: String,
        /// What is wrong and what to do.
        reason: String,
    },
    /// A cell that is not what its column holds.
    #[error("{table}, line {line}, column {column}: {cell:?} {reason}")]
    Cell {
        /// The file, or what a table that is none calls itself.
        table: String,
        /// Its line in the file, the first being 1.
        line: u64,
        /// The column's name.
        column: String,
        /// The text of the cell.
        cell: String,
        /// What is wrong and what to do.
        reason: String,
    },
    /// A column that is not there, or is there twice.
    #[error("{table}: {reason}")]
    Column {
        /// The file, or what a table that is none calls itself.
        table: String,
        /// Which column, which there are, and what to do.
        reason: String,
    },
    /// Too little to fit or to judge.
    #[error("{what}: {found} rows, and at least {needed} are needed")]
    TooFew {
        /// For what.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there must be.
        needed: usize,
    },
    /// A folder that does not hold a fitted regressor.
    #[error("{}: {reason}", path.display())]
    Run {
        /// The folder or a file in it.
        path: PathBuf,
        /// What is wrong and what to do.
        reason: String,
    },
    /// Something that this method does not offer.
    #[error("{method} {reason}")]
    Unsupported {
        /// The method's key.
        method: String,
        /// What it lacks and what to take instead.
        reason: &'static str,
    },
}

/// This crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;
