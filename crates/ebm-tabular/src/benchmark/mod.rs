//! Sets that methods are compared on.

mod generated;
mod uci;

pub use generated::Generated;

use crate::Table;

/// A set: all rows, and which of them each split learns from and is judged by.
pub struct BenchmarkSet {
    /// Inputs and targets.
    pub table: Table,
    /// The columns to predict.
    pub targets: Vec<String>,
    /// Rows to learn from and rows to be judged by, of each split.
    pub splits: Vec<[Vec<usize>; 2]>,
    /// log p(y | x) of each row, where the density is known that they were drawn from.
    pub truth: Option<Vec<f64>>,
}
