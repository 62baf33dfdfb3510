//! Layers with named parameters.

mod conv;

pub use conv::{Conv2d, Conv2dConfig};
