//! Eq. 1 in full: `p(y | x) = exp f(x, y) / Z(x)` with its normalisation, its statistics and its samples.
//!
//! For a scalar y a [`GridDensity`] has them all, with an estimate of its own error. In any number of dimensions an
//! [`ImportanceDensity`] has those that are expectations, [`find_modes`] climbs to the modes, and [`langevin`] and
//! [`hmc`] draw samples.

mod chains;
mod distribution;
mod grid;
mod grid_density;
mod grid_error;
mod langevin;
mod peaks;
mod region;
mod scores;

pub use chains::Chains;
pub use grid::Grid;
pub use grid_density::GridDensity;
pub use grid_error::GridError;
pub use langevin::{Langevin, langevin};
pub use region::Region;
