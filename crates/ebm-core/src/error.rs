//! Errors of the crate, each with its remedy.

/// Result of this crate's fallible functions.
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
        /// Name of the tensor in the message.
        what: &'static str,
        /// Required shape.
        expected: String,
        /// Actual shape.
        actual: Vec<usize>,
    },
    /// A tensor without elements where there must be at least one.
    #[error("{what} is empty (shape {shape:?}); skip batches without targets")]
    Empty {
        /// Name of the tensor in the message.
        what: &'static str,
        /// Shape of the tensor.
        shape: Vec<usize>,
    },
    /// A NaN or an infinity in an input.
    #[error(
        "{what} has the non-finite value {value} at flat index {index}; remove that entry before the call"
    )]
    NonFinite {
        /// Name of the tensor in the message.
        what: &'static str,
        /// Non-finite value.
        value: f64,
        /// Row-major index of the value.
        index: usize,
    },
    /// A box without extent, for which the logarithm of the size does not exist.
    #[error(
        "{what} has the size {width} x {height} at box {index}; drop boxes that are not wider and higher than 0"
    )]
    DegenerateBox {
        /// Name of the boxes in the message.
        what: &'static str,
        /// Width, in the boxes' unit.
        width: f64,
        /// Height, in the boxes' unit.
        height: f64,
        /// Row-major index among the boxes.
        index: usize,
    },
    /// A setting outside its range.
    #[error("{name} = {value} is not allowed: it must be {expected}")]
    Setting {
        /// Name of the setting.
        name: &'static str,
        /// Rejected value.
        value: String,
        /// Allowed values.
        expected: &'static str,
    },
    /// A method that the model or the proposal does not implement.
    #[error("{what} is not available: {remedy}")]
    Unsupported {
        /// Name of the method.
        what: &'static str,
        /// Alternative.
        remedy: &'static str,
    },
    /// An ordinal model gives a rank a negative probability, because a higher rank is likelier to be passed than
    /// the one before it. The fields are the row of the batch, the index of the higher rank from 0, and the
    /// logits of passing the rank before and this rank.
    #[error(
        "the logit {3} of passing rank {1} in row {0} is above the logit {2} of passing the rank \
         before it, so that there is no density; train further (CORAL's biases descend at its optimum)"
    )]
    InconsistentRanks(usize, usize, f64, f64),
    /// The score does not depend on y, so gradient ascent is impossible.
    #[error(
        "f(x, y) has no gradient in y: EnergyModel::score must not detach y, nor leave the autograd graph"
    )]
    NoGradient,
    /// A score from which no density can be computed. Finite numbers and −∞ (density 0) are allowed.
    #[error(
        "f = {value} for input x {x} of the batch at y = {y:?}; repair the model or leave that input out"
    )]
    NonFiniteScore {
        /// Index of x in the batch.
        x: usize,
        /// Coordinates of y, D numbers.
        y: Vec<f64>,
        /// Score at this y.
        value: f64,
    },
    /// All weighted samples are equal, so no density can be drawn. The field is their effective sample size.
    #[error(
        "the samples have no spread (effective sample size {0:.1}); draw more samples, or from a \
         narrower proposal"
    )]
    NoSpread(f64),
    /// The score of the input at this index of the batch is −∞ at every y that was evaluated, so that Z = 0.
    #[error(
        "input x {0} of the batch has no density: f is -inf at every y that was tried; try others, or a wider range"
    )]
    NoMass(usize),
}

impl Error {
    /// Wraps an error of another crate that occurred during the evaluation of a model.
    pub fn model(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Model(source.into())
    }
}
