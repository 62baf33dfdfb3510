//! Layers with named parameters.

mod chain;
mod conv;

pub(crate) use chain::Chain;
pub use conv::{Conv2d, Conv2dConfig};
