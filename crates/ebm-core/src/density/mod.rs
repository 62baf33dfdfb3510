//! Eq. 1 in full: `p(y | x) = exp f(x, y) / Z(x)` with its normalisation, its statistics and its samples.
//!
//! For a scalar y a [`GridDensity`] has them all, with an estimate of its own error;
//! [`Conditional::marginals`](crate::Conditional::marginals) has those of two or three coordinates. In any
//! number of dimensions an [`ImportanceDensity`] has what is an expectation, [`WeightedSamples`] have the
//! marginals, [`find_modes`] climbs to the modes, and [`langevin`] and [`hmc`] draw samples.

mod chains;
mod density_map;
mod distribution;
mod find_modes;
mod grid;
mod grid_density;
mod grid_error;
mod hmc;
mod importance;
mod langevin;
mod marginals;
mod peaks;
mod region;
mod scores;
mod weighted_samples;

pub use chains::Chains;
pub use density_map::DensityMap;
pub use find_modes::{Mode, find_modes};
pub use grid::Grid;
pub use grid_density::GridDensity;
pub use grid_error::GridError;
pub use hmc::{Hmc, hmc};
pub use importance::ImportanceDensity;
pub use langevin::{Langevin, langevin};
pub(crate) use marginals::grid_marginals;
pub use region::Region;
pub use scores::log_prob;
pub use weighted_samples::WeightedSamples;
