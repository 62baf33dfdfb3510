//! Layers with named parameters. Layers prepare constant parameters once, and keep the result.

mod chain;
mod conv;
mod init;
pub(crate) mod norm;
mod prepared;

pub use chain::Chain;
pub use conv::{Conv2d, Conv2dConfig};
pub use init::{default_bias, default_weight, kaiming_uniform};
pub use norm::{BatchNorm, BatchNormConfig};
pub use prepared::{Prepared, are_constant, is_packable};

pub use crate::linear::PackedLinear;
