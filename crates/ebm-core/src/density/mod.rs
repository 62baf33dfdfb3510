//! Density of Eq. 1, `p(y | x) = exp f(x, y) / Z(x)`, with its normalisation, statistics and samples.
//!
//! A [`GridDensity`] has all of them for a scalar y, and
//! [`Conditional::marginals`](crate::Conditional::marginals) returns one per coordinate for two or three
//! coordinates. In any number of dimensions an [`ImportanceDensity`], of one proposal or of an
//! [`AdaptiveSampler`], computes expectations, [`WeightedSamples`] compute marginals, and [`langevin`] draws
//! samples.

mod adaptive;
mod components;
mod conditional;
mod grid;
mod grid_density;
mod importance;
mod langevin;
mod region;
mod scores;
mod weighted_samples;

pub use adaptive::AdaptiveSampler;
pub use conditional::Conditional;
pub use grid::Grid;
pub use grid_density::GridDensity;
pub use importance::ImportanceDensity;
pub use langevin::langevin;
pub use region::Region;
pub use weighted_samples::{DensityMap, WeightedSamples};
