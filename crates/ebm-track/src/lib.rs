//! Visual tracking: the ATOM tracker with an energy-based box module (Section 4.2).

mod classifier;
mod error;

pub use classifier::{Classifier, ClassifierConfig, Projected};
pub use error::{Error, Result};
