//! Figure 2 of the paper: the illustrative 1-D regression problem.

mod composed;
mod energy;
mod kernel;
mod layout;
mod op;

pub use energy::ToyEnergy;
pub use layout::{Activation, LAYERS, Layout, Linear, Network, WIDTH};
