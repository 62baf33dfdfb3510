//! Intervals for the edges of a box, from weighted samples of p(y | x) and with calibration.

use ebm_core::{Region, WeightedSamples};
use ebm_eval::calibration::SplitConformal;

use crate::error::Result;

/// Returns the smallest sets that hold each edge with probability `level`: left, top, right, bottom.
///
/// # Errors
/// If `level` is not between 0 and 1, or the samples have no spread.
pub fn edge_regions(edges: &WeightedSamples<4>, level: f64) -> ebm_core::Result<[Region; 4]> {
    let region = |place| edges.marginal(place)?.highest_density_region(level);
    Ok([region(0)?, region(1)?, region(2)?, region(3)?])
}

/// Returns left, top, right and bottom of `[x, y, width, height]`.
pub fn edges_of([x, y, width, height]: [f64; 4]) -> [f64; 4] {
    [x, y, x + width, y + height]
}

/// Calibrated edge of a box: half the width of its interval is `factor` times the sum of `least` and half the
/// width of the region under p(y | x).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CalibratedEdge {
    /// Refined edge, the middle of the interval.
    pub edge: f64,
    /// Number added to half the width of the region under p(y | x).
    pub least: f64,
    /// Factor of that sum.
    pub factor: f64,
}

impl CalibratedEdge {
    /// Addition to half the width of each region, in widths or heights of the box. It is needed because some
    /// densities are too certain of an edge.
    pub const LEAST: f64 = 0.1;

    /// Returns the edges of a refined box `[x, y, width, height]`, left, top, right and bottom, with these
    /// `factors`.
    pub fn of_box(bbox: [f64; 4], factors: [f64; 4]) -> [Self; 4] {
        let edges = edges_of(bbox);
        [0, 1, 2, 3].map(|place| Self {
            edge: edges[place],
            least: Self::LEAST * bbox[2 + place % 2],
            factor: factors[place],
        })
    }

    /// Returns half the width of the interval for a factor of 1, given the edge's `region` under p(y | x).
    pub fn scale(&self, region: &Region) -> f64 {
        0.5 * region.width() + self.least
    }

    /// Returns the interval, given the edge's `region` under p(y | x).
    pub fn interval(&self, region: &Region) -> [f64; 2] {
        let half = self.factor * self.scale(region);
        [self.edge - half, self.edge + half]
    }
}

/// Returns, for each edge of the box `bbox`, half its interval for a factor of 1, given the `regions` under p(y | x):
/// the distance of the annotated edge in such halves, and the half in sides of the box.
pub fn edge_distances(regions: &[Region; 4], bbox: [f64; 4], truth: [f64; 4]) -> [(f64, f64); 4] {
    let (refined, edges) = (CalibratedEdge::of_box(bbox, [1.0; 4]), edges_of(truth));
    [0, 1, 2, 3].map(|place| {
        let scale = refined[place].scale(&regions[place]);
        ((edges[place] - refined[place].edge).abs() / scale, scale / bbox[2 + place % 2])
    })
}

/// Edges of boxes with known truth, which give the factors of intervals by locally weighted [`SplitConformal`]
/// (Lei et al., 2018, Section 5.2).
#[derive(Clone, Debug, Default)]
pub struct EdgeIntervals {
    /// Distance of the annotated edge, in half intervals for a factor of 1, of each edge and box.
    distances: [Vec<f64>; 4],
    /// Sum of these half intervals, in sides of the refined boxes, of each edge.
    scales: [f64; 4],
}

impl EdgeIntervals {
    /// Adds the box `bbox` with the `regions` of its edges under p(y | x) and the annotated box `truth`.
    pub fn push(&mut self, regions: &[Region; 4], bbox: [f64; 4], truth: [f64; 4]) {
        for (place, (distance, scale)) in edge_distances(regions, bbox, truth).into_iter().enumerate() {
            self.distances[place].push(distance);
            self.scales[place] += scale;
        }
    }

    /// Returns the number of boxes.
    pub fn len(&self) -> usize {
        self.distances[0].len()
    }

    /// Returns whether there is no box.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the factors with which the intervals hold each edge with probability `level` on similar boxes, and
    /// the sum of the four mean widths with these factors, in sides of the boxes.
    ///
    /// # Errors
    /// If there are too few boxes for that level.
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
        // Half of 9 + 5, plus `least`.
        let region = region(&[[8.0, 17.0], [88.0, 93.0]]);
        assert_eq!(edges.map(|edge| edge.scale(&region)), [9.0, 12.0, 9.0, 12.0]);
        assert_eq!(edges[0].interval(&region), [-1.5, 7.5]);
    }

    #[test]
    fn factors_are_conformal_quantiles_of_the_distances() {
        let mut found = EdgeIntervals::default();
        assert!(found.is_empty() && found.calibrated(0.9).is_err());
        // Boxes of 10 × 20 whose density has no width: scales of 1 and 2. The left edge is off by 0.1, 0.2, …
        // 1.9, the bottom edge by twice as much the other way, the others not at all.
        let nothing = [0, 1, 2, 3].map(|_| region(&[]));
        for i in 1..=19 {
            let off = 0.1 * f64::from(i);
            found.push(&nothing, [5.0, 5.0, 10.0, 20.0], [5.0 + off, 5.0, 10.0 - off, 20.0 - 2.0 * off]);
        }
        let ([left, top, right, bottom], width) = found.calibrated(0.9).unwrap();
        // The 18th of 19 distances: ⌈0.9 · 20⌉.
        assert!((left - 1.8).abs() < 1e-12 && (bottom - 1.8).abs() < 1e-12, "{left} {bottom}");
        assert!(top == 0.0 && right < 1e-12, "{top} {right}");
        assert!((width - 2.0 * 1.8 * (0.1 + 0.1)).abs() < 1e-9, "{width}");
        assert_eq!(found.len(), 19);
    }
}
