//! p(y | x) of a number, as the page draws it.

use ebm_core::GridDensity;
use serde::Serialize;

use crate::error::Result;

/// A density of one number.
#[derive(Serialize)]
pub struct Density {
    /// The first y, and the step to the next.
    first: f64,
    step: f64,
    p: Vec<f64>,
    mean: f64,
    median: f64,
    mode: f64,
    modes: Vec<f64>,
    region_90: Vec<[f64; 2]>,
}

impl Density {
    /// Where two modes count if log p falls by `prominence` nats between them.
    pub fn of(density: &GridDensity, prominence: f64) -> Result<Self> {
        let grid = density.grid();
        Ok(Self {
            first: grid.lo(),
            step: grid.step(),
            p: density.log_prob_values().iter().map(|log| log.exp()).collect(),
            mean: density.mean(),
            median: density.quantile(0.5)?,
            mode: density.mode(),
            modes: density.modes(prominence),
            region_90: density.highest_density_region(0.9)?.intervals,
        })
    }
}
