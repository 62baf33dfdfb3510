//! What can go wrong, each with its remedy.

/// The result of this crate's fallible functions.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the method: a bad setting, a bad input, or a model that breaks its contract.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tensor operation failed, for instance because two tensors differ in type or device.
    #[error(transparent)]
    Tensor(#[from] candle_core::Error),
    /// The network behind an [`EnergyModel`](crate::EnergyModel) failed; see [`Error::model`].
    #[error("the energy model failed: {0}")]
    Model(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A tensor does not have the shape that its place requires.
    #[error("{what} has shape {actual:?}, but {expected} is required")]
    Shape {
        /// Which tensor.
        what: &'static str,
        /// The required shape.
        expected: String,
        /// The shape that was given.
        actual: Vec<usize>,
    },
    /// A tensor without elements where there must be at least one.
    #[error("{what} is empty (shape {shape:?}); skip batches without targets")]
    Empty {
        /// Which tensor.
        what: &'static str,
        /// Its shape.
        shape: Vec<usize>,
    },
    /// A NaN or an infinity in an input.
    #[error(
        "{what} has the non-finite value {value} at flat index {index}; remove that entry before the call"
    )]
    NonFinite {
        /// Which tensor.
        what: &'static str,
        /// The offending value.
        value: f64,
        /// Its row-major position.
        index: usize,
    },
    /// A box without extent, for which the logarithm of the size does not exist.
    #[error(
        "{what} has the size {width} x {height} at box {index}; drop boxes that are not wider and higher than 0"
    )]
    DegenerateBox {
        /// Which boxes.
        what: &'static str,
        /// Width, in the boxes' unit.
        width: f64,
        /// Height, in the boxes' unit.
        height: f64,
        /// Row-major position among the boxes.
        index: usize,
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
    /// Something that a model or a proposal does not offer.
    #[error("{what} is not available: {remedy}")]
    Unsupported {
        /// What was asked for.
        what: &'static str,
        /// What to do instead.
        remedy: &'static str,
    },
    /// An ordinal model that, in a row of the batch, holds a higher rank, by its index from 0, to be the likelier one to be
    /// passed, so that a rank between has a negative probability; the logits of passing the rank before and this one.
    #[error(
        "the logit {3} of passing rank {1} in row {0} is above the logit {2} of passing the rank \
         before it, so that there is no density; train further (CORAL's biases descend at its optimum)"
    )]
    InconsistentRanks(usize, usize, f64, f64),
    /// f does not depend on y, so that it can not be climbed.
    #[error(
        "f(x, y) has no gradient in y: EnergyModel::score must not detach y, nor leave the autograd graph"
    )]
    NoGradient,
    /// A value of f from which no density can be computed: only finite numbers and −∞ (no density) can be.
    #[error(
        "f = {value} for input x {x} of the batch at y = {y:?}; repair the model or leave that input out"
    )]
    NonFiniteScore {
        /// The position of x in the batch.
        x: usize,
        /// The D coordinates of y.
        y: Vec<f64>,
        /// f there.
        value: f64,
    },
    /// Weighted samples that all agree, of which no density can be drawn, with their effective sample size.
    #[error(
        "the samples have no spread (effective sample size {0:.1}); draw more samples, or from a \
         narrower proposal"
    )]
    NoSpread(f64),
    /// f of the input at this position of the batch is −∞ wherever it was evaluated, so that Z = 0.
    #[error(
        "input x {0} of the batch has no density: f is -inf at every y that was tried; try others, or a wider range"
    )]
    NoMass(usize),
}

impl Error {
    /// Wraps an error of another crate that occurred while a model was evaluated.
    pub fn model(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Model(source.into())
    }
}
