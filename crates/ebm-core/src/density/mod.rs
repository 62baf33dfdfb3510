//! Eq. 1 in full: `p(y | x) = exp f(x, y) / Z(x)` with its normalisation, its statistics and its samples.
//!
//! For a scalar y a [`GridDensity`] has them all;
//! [`Conditional::marginals`](crate::Conditional::marginals) has those of two or three coordinates. In any
//! number of dimensions an [`ImportanceDensity`] has what is an expectation, [`WeightedSamples`] have the
//! marginals, and [`langevin`] draws samples.

mod conditional;
mod grid;
mod grid_density;
mod importance;
mod langevin;
mod region;
mod scores;
mod weighted_samples;

pub use conditional::Conditional;
pub use grid::Grid;
pub use grid_density::GridDensity;
pub use importance::ImportanceDensity;
pub use langevin::langevin;
pub use region::Region;
pub use weighted_samples::{DensityMap, WeightedSamples};
