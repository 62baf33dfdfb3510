//! Training: end to end from images, or heads on features computed before.
//!
//! [`FaceTraining`] trains a network on one's own faces.

mod own;
mod source;
mod task;
mod whole;

pub use own::{FaceData, FaceSource, FaceTraining};
pub use source::{Batch, BatchSource, CachedSource, StreamSource};
pub(crate) use source::{images, targets};
pub use task::FaceTask;
pub(crate) use whole::whole_network;
