//! Visual tracking: the ATOM tracker with an energy-based box module (Section 4.2).

mod error;

pub use error::{Error, Result};
