//! Visual tracking: the ATOM tracker with an energy-based box module (Section 4.2).

pub mod backbone;
pub mod box_module;
mod error;
mod method;
pub mod training;

pub use backbone::{Backbone, BackboneFeatures};
pub use error::{Error, Result};
pub use method::{BoxProposal, Method, MethodSettings, Published, Refinement, StepCoordinates};
