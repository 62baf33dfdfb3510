//! Training: end to end from images, or heads on features computed before.
//!
//! [`FaceTraining`] trains a network on a user's own faces.

mod end_to_end;
mod face_training;
mod source;
mod task;

pub(crate) use end_to_end::end_to_end_task;
pub use face_training::{FaceData, FaceSource, FaceTraining};
pub use source::{Batch, BatchSource, CachedSource, StreamSource};
pub(crate) use source::{images, targets};
pub use task::FaceTask;
