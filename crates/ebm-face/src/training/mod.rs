//! Training: end to end from images, or heads on features computed before.

mod source;
mod task;
mod whole;

pub use source::{Batch, BatchSource, CachedSource, StreamSource};
pub(crate) use source::{images, targets};
pub use task::FaceTask;
pub use whole::{WholeNetwork, WholeTraining, whole_batches};
