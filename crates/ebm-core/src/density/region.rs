//! Highest-density regions.

use super::GridDensity;
use crate::{Result, check};

/// Set of all y where the density is at least some level.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// Disjoint closed intervals `[from, to]` in ascending order; a multimodal density can have several.
    pub intervals: Vec<[f64; 2]>,
    /// Logarithm of the level, in nats.
    pub log_level: f64,
    /// Probability of the region, P(Y in the region | x).
    pub mass: f64,
}

impl Region {
    /// Returns whether `y` is in the region.
    pub fn contains(&self, y: f64) -> bool {
        self.intervals.iter().any(|&[from, to]| from <= y && y <= to)
    }

    /// Returns the total length of the intervals, in the units of y.
    pub fn width(&self) -> f64 {
        self.intervals.iter().map(|[from, to]| to - from).sum()
    }
}

impl GridDensity {
    /// Returns the smallest region of probability at least `mass`: all y with p(y | x) ≥ λ, for the highest
    /// possible λ. The region is exact for the interpolant. Its probability exceeds `mass` only if λ is the
    /// height of a plateau, because a region contains a plateau as a whole (everything, for a uniform density). A
    /// mass of 1 gives the support.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting) unless `mass` is in (0, 1].
    pub fn highest_density_region(&self, mass: f64) -> Result<Region> {
        check::setting("mass", mass > 0.0 && mass <= 1.0, mass, "in (0, 1]")?;
        // Closer to 1 than the sum of the cells is, no level can be told from 0.
        let level = if mass < 1.0 - 1e-12 { self.level_of(mass) } else { 0.0 };
        Ok(self.region_above(level))
    }

    /// Returns P(log p(Y | x) ≥ `log_level` | x). For `log_level` = log p(y | x) this is the mass of the smallest
    /// highest-density region that contains y.
    pub fn mass_above(&self, log_level: f64) -> f64 {
        self.mass_of(log_level.exp())
    }

    fn region_above(&self, level: f64) -> Region {
        let mut intervals: Vec<[f64; 2]> = Vec::new();
        let mut end = None; // of the last interval, in cells from the first point
        for cell in 0..self.cells() {
            let (p, q) = self.ends(cell);
            let Some([from, to]) = part_above(p, q, level) else { continue };
            let (start, stop) = (self.at(cell, from), self.at(cell, to));
            match intervals.last_mut() {
                Some(interval) if end == Some(cell as f64 + from) => interval[1] = stop,
                _ => intervals.push([start, stop]),
            }
            end = Some(cell as f64 + to);
        }
        Region { intervals, log_level: level.ln(), mass: self.mass_of(level) }
    }

    /// Returns G(λ), the mass where the density is at least λ = `level`.
    fn mass_of(&self, level: f64) -> f64 {
        let mass = |cell: usize| {
            let (p, q) = self.ends(cell);
            let [from, to] = part_above(p, q, level)?;
            Some(0.5 * self.width(cell) * (to - from) * (2.0 * p + (q - p) * (from + to)))
        };
        (0..self.cells()).filter_map(mass).sum::<f64>().min(1.0)
    }

    /// Returns the highest λ with G(λ) ≥ `mass`. Between two neighbouring values of p at the points, G is a
    /// parabola.
    fn level_of(&self, mass: f64) -> f64 {
        let mut levels = self.prob.clone();
        levels.sort_by(f64::total_cmp);
        levels.dedup();
        let above = levels.partition_point(|&level| self.mass_of(level) >= mass);
        let lower = if above == 0 { 0.0 } else { levels[above - 1] };
        let Some(&upper) = levels.get(above) else { return lower };

        // The mass of a cell that rises from a to b through λ is h (b² − λ²) / (2 (b − a)).
        let share = |cell: usize| {
            let (p, q) = self.ends(cell);
            (p.min(q) <= lower && p.max(q) >= upper).then(|| 0.5 * self.width(cell) / (p - q).abs())
        };
        let curvature: f64 = (0..self.cells()).filter_map(share).sum();
        let square = upper * upper - (mass - self.mass_of(upper)) / curvature;
        // If no cell crosses, or the root is below `lower`, a plateau at `lower` holds the missing mass.
        square.max(0.0).sqrt().max(lower)
    }
}

/// Returns the part of a cell, from 0 to 1, where a density that goes from `p` to `q` is positive and at least
/// `level`.
fn part_above(p: f64, q: f64, level: f64) -> Option<[f64; 2]> {
    if p.max(q) <= 0.0 {
        None
    } else if p.min(q) >= level {
        Some([0.0, 1.0])
    } else if p.max(q) <= level {
        None
    } else if p < q {
        Some([(level - p) / (q - p), 1.0])
    } else {
        Some([0.0, (p - level) / (p - q)])
    }
}
