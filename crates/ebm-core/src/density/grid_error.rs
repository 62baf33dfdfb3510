//! How far the log Z of a grid can be trusted.

use super::Grid;
use crate::Result;
use crate::log_sum::LogSum;

/// What a grid can tell about the error of its own log Z. Neither part sees a peak that lies wholly between
/// two points or wholly outside the grid without a slope towards it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GridError {
    /// The change of log Z, in nats, from every second point to all of them: for a smooth density more than
    /// the error of the latter. Infinite when N = 2, where there is nothing to compare with.
    pub discretisation: f64,
    /// The mass missed below `lo` and above `hi`, as fractions of the mass inside: what f, continued along
    /// its outermost slope, has within one further width `hi − lo` of the grid. Where y has no meaning beyond
    /// an end (the support ends there), its entry has none either.
    pub outside: [f64; 2],
}

impl GridError {
    /// An estimate, in nats, of how far log Z is from that of the whole line: both parts together.
    pub fn total(&self) -> f64 {
        self.discretisation + (self.outside[0] + self.outside[1]).ln_1p()
    }

    /// Estimates the error of `log_z`, that of the values `f` on the `grid`.
    pub(super) fn estimate(grid: &Grid, f: &[f64], log_z: f64) -> Result<Self> {
        let discretisation =
            if f.len() == 2 { f64::INFINITY } else { (log_z - log_trapezoid(grid, f, 2)).abs() };
        let width = grid.hi() - grid.lo();
        let outside = |edge: f64, inner: f64| {
            // ∫₀^W p exp(s t) dt with the outward slope s of f.
            let slope = (edge - inner) / grid.step();
            let continued = if slope.abs() * width < 1e-9 { width } else { (slope * width).exp_m1() / slope };
            if edge == f64::NEG_INFINITY { 0.0 } else { (edge - log_z).exp() * continued }
        };
        let last = f.len() - 1;
        Ok(Self { discretisation, outside: [outside(f[0], f[1]), outside(f[last], f[last - 1])] })
    }
}

/// log ∫ exp f by the trapezoid rule on every `stride`-th point and the last.
pub(super) fn log_trapezoid(grid: &Grid, f: &[f64], stride: usize) -> f64 {
    let last = f.len() - 1;
    let nodes: Vec<usize> = (0..last).step_by(stride).chain([last]).collect();
    let terms: Vec<f64> = nodes
        .iter()
        .enumerate()
        .map(|(k, &node)| {
            let left = if k == 0 { node } else { nodes[k - 1] };
            let right = nodes.get(k + 1).copied().unwrap_or(node);
            f[node] + (0.5 * grid.step() * (right - left) as f64).ln()
        })
        .collect();
    LogSum::of(&terms)
}
