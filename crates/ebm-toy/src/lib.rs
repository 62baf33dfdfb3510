//! Figure 2 of the paper: the illustrative 1-D regression problem.

mod composed;
pub mod dataset;
mod energy;
mod error;
mod kernel;
mod layout;
mod op;
mod training;

pub use dataset::{Points, Problem};
pub use energy::ToyEnergy;
pub use error::{Error, Result};
pub use training::{Schedule, train};
pub use layout::{Activation, LAYERS, Layout, Linear, Network, WIDTH};
