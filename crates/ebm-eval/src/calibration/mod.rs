//! How well predicted densities of a scalar target agree with what was observed.
//!
//! All from plain numbers: log densities, distribution functions on a grid, intervals, and the values
//! y that were observed. A region is a list of disjoint intervals `[from, to]`, several where a
//! density is multimodal.
//!
//! | Question | Here |
//! |---|---|
//! | How good are the densities, all in all? | [`nll`], [`crps_of_cdf`] |
//! | Is y where the density says, as often as it says? | [`PitHistogram`], [`calibration_curve`], [`calibration_error`], [`coverage`] |
//! | How narrow are the regions? | [`mean_width`] |
//! | What is the error where predictions are certain? | [`risk_at_coverage`] |
//! | Which regions hold y with a guaranteed frequency? | [`SplitConformal`] |

mod check;
mod conformal;
mod coverage;
mod crps;
mod curve;
mod nll;
mod pit;
mod risk;
mod sharpness;

pub use conformal::SplitConformal;
pub use coverage::coverage;
pub use crps::crps_of_cdf;
pub use curve::{calibration_curve, calibration_error};
pub use nll::nll;
pub use pit::PitHistogram;
pub use risk::risk_at_coverage;
pub use sharpness::mean_width;
