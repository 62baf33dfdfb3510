//! Where the edges of a box lie: what weighted samples of p(y | x) say, and what a calibration makes of it.

use ebm_core::{Region, WeightedSamples};
use ebm_eval::calibration::SplitConformal;

use crate::error::Result;

/// The smallest sets that hold each edge with probability `level`: left, top, right, bottom.
///
/// # Errors
/// When `level` is not between 0 and 1, or the samples have no spread.
pub fn edge_regions(edges: &WeightedSamples<4>, level: f64) -> ebm_core::Result<[Region; 4]> {
    let region = |place| edges.marginal(place)?.highest_density_region(level);
    Ok([region(0)?, region(1)?, region(2)?, region(3)?])
}

/// Left, top, right and bottom of `[x, y, width, height]`.
pub fn edges_of([x, y, width, height]: [f64; 4]) -> [f64; 4] {
    [x, y, x + width, y + height]
}

/// How an edge's interval follows from p(y | x) where a calibration tells how wide it has to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CalibratedEdge {
    /// The refined edge, about which the interval lies.
    pub edge: f64,
    /// What half the width that p(y | x) says is added to, …
    pub least: f64,
    /// … and what the sum is multiplied by.
    pub factor: f64,
}

impl CalibratedEdge {
    /// What is added to half the width of each interval of p(y | x), in widths or heights of the box: no edge
    /// is as certain as some densities say.
    pub const LEAST: f64 = 0.1;

    /// The edges of a refined box `[x, y, width, height]`, left, top, right and bottom, whose intervals have
    /// these `factors`.
    pub fn of_box(bbox: [f64; 4], factors: [f64; 4]) -> [Self; 4] {
        let edges = edges_of(bbox);
        [0, 1, 2, 3].map(|place| Self {
            edge: edges[place],
            least: Self::LEAST * bbox[2 + place % 2],
            factor: factors[place],
        })
    }

    /// Half of the interval for a factor of 1, given what p(y | x) says of the edge.
    pub fn scale(&self, region: &Region) -> f64 {
        0.5 * region.width() + self.least
    }

    /// The interval, given what p(y | x) says of the edge.
    pub fn interval(&self, region: &Region) -> [f64; 2] {
        let half = self.factor * self.scale(region);
        [self.edge - half, self.edge + half]
    }
}

/// Edges of boxes whose truth is known, from which the factors of their intervals follow: locally weighted
/// [`SplitConformal`] (Lei et al., 2018, Section 5.2).
#[derive(Clone, Debug, Default)]
pub struct EdgeIntervals {
    /// Of each edge how far the annotated one is away, in half intervals of a factor of 1.
    distances: [Vec<f64>; 4],
    /// The sums of these half intervals, in sides of the refined boxes.
    scales: [f64; 4],
}

impl EdgeIntervals {
    /// Adds the box `bbox`, of whose edges p(y | x) says `regions`, and which is annotated as `truth`.
    pub fn push(&mut self, regions: &[Region; 4], bbox: [f64; 4], truth: [f64; 4]) {
        let refined = CalibratedEdge::of_box(bbox, [1.0; 4]).into_iter().zip(regions);
        for (place, ((refined, region), edge)) in refined.zip(edges_of(truth)).enumerate() {
            let scale = refined.scale(region);
            self.distances[place].push((edge - refined.edge).abs() / scale);
            self.scales[place] += scale / bbox[2 + place % 2];
        }
    }

    /// Boxes.
    pub fn len(&self) -> usize {
        self.distances[0].len()
    }

    /// Whether there is no box.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The factors with which the intervals hold each edge with probability `level` on boxes like these, and
    /// the sum of the four mean widths with them, in sides of the boxes.
    ///
    /// # Errors
    /// With too few boxes for that level.
    pub fn calibrated(&self, level: f64) -> Result<([f64; 4], f64)> {
        let (mut factors, mut width) = ([0.0; 4], 0.0);
        for (place, distances) in self.distances.iter().enumerate() {
            factors[place] = SplitConformal::calibrate(distances, 1.0 - level)?.threshold;
            width += 2.0 * factors[place] * self.scales[place] / distances.len() as f64;
        }
        Ok((factors, width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(intervals: &[[f64; 2]]) -> Region {
        Region { intervals: intervals.to_vec(), log_level: 0.0, mass: 0.9 }
    }

    #[test]
    fn intervals_lie_about_the_refined_edges() {
        let edges = CalibratedEdge::of_box([3.0, 4.0, 20.0, 50.0], [0.5, 2.0, 1.0, 4.0]);
        let found = edges.map(|edge| (edge.edge, edge.least, edge.factor));
        assert_eq!(found, [(3.0, 2.0, 0.5), (4.0, 5.0, 2.0), (23.0, 2.0, 1.0), (54.0, 5.0, 4.0)]);
        // Half of 9 + 5 and the least.
        let region = region(&[[8.0, 17.0], [88.0, 93.0]]);
        assert_eq!(edges.map(|edge| edge.scale(&region)), [9.0, 12.0, 9.0, 12.0]);
        assert_eq!(edges[0].interval(&region), [-1.5, 7.5]);
    }

    #[test]
    fn factors_are_conformal_quantiles_of_the_distances() {
        let mut found = EdgeIntervals::default();
        assert!(found.is_empty() && found.calibrated(0.9).is_err());
        // Boxes of 10 × 20 whose density has no width: scales of 1 and 2. The left edge is off by 0.1, 0.2, …
        // 1.9, the bottom one by twice as much the other way, the others not at all.
        let nothing = [0, 1, 2, 3].map(|_| region(&[]));
        for i in 1..=19 {
            let off = 0.1 * f64::from(i);
            found.push(&nothing, [5.0, 5.0, 10.0, 20.0], [5.0 + off, 5.0, 10.0 - off, 20.0 - 2.0 * off]);
        }
        let ([left, top, right, bottom], width) = found.calibrated(0.9).unwrap();
        // The eighteenth of nineteen: ⌈0.9 · 20⌉.
        assert!((left - 1.8).abs() < 1e-12 && (bottom - 1.8).abs() < 1e-12, "{left} {bottom}");
        assert!(top == 0.0 && right < 1e-12, "{top} {right}");
        assert!((width - 2.0 * 1.8 * (0.1 + 0.1)).abs() < 1e-9, "{width}");
        assert_eq!(found.len(), 19);
    }
}
