//! Localisation of the target in the classifier's scores, and its reliability.

use std::f64::consts::PI;

use ebm_experiment::config::settings_table;
use serde::{Deserialize, Serialize};

settings_table! {
    /// Thresholds for the reliability of a location. Scores are about 1 at the target and 0 elsewhere.
    pub struct LocalizeConfig {
        /// Score below which the target is not found.
        pub not_found: f64 where -1e6..=1e6,
        /// Fraction of the first peak above which a second peak is another candidate for the target.
        pub distractor: f64 where -1e3..=1e3,
        /// Fraction of the first peak above which a second peak is a hard negative to learn from.
        pub hard_negative: f64 where -1e3..=1e3,
        /// Side of the neighbourhood that belongs to the first peak, in sizes of the target.
        pub neighbourhood: f64 where 0.0..=1e3,
        /// Maximum movement of a target, as a fraction of half the search region.
        pub displacement: f64 where 0.0..=1e3,
    }
}

impl Default for LocalizeConfig {
    /// Returns ATOM's settings.
    fn default() -> Self {
        Self { not_found: 0.25, distractor: 0.8, hard_negative: 0.5, neighbourhood: 2.2, displacement: 0.8 }
    }
}

/// Reliability of a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// One clear peak.
    Normal,
    /// Another object scores high too. The classifier learns from this frame at once.
    HardNegative,
    /// Two peaks without a criterion to choose one. The classifier learns nothing from this frame.
    Uncertain,
    /// No peak. The target keeps its position.
    NotFound,
}

/// A location in the crop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Location {
    /// Displacement (y, x) from the crop's centre, in pixels of the crop.
    pub displacement: [f64; 2],
    /// Score at the location.
    pub score: f64,
    /// Reliability of the location.
    pub state: State,
}

/// Interpolation of score maps by the trigonometric polynomial through the values of the cells.
#[derive(Clone, Debug)]
pub struct Interpolation {
    /// `(pixels, cells)`.
    matrix: Vec<f32>,
    /// `(cells, pixels)`.
    transposed: Vec<f32>,
    cells: usize,
    pixels: usize,
}

impl Interpolation {
    /// Creates the interpolation from `cells` to `cells · factor` values along each side. Value `factor · i` equals cell i.
    pub fn new(cells: usize, factor: usize) -> Self {
        let pixels = cells * factor;
        // The periodic sinc. With an even number of cells, the highest frequency is split between its two signs.
        let kernel = |distance: f64| {
            let mut sum = 1.0;
            for k in 1..cells.div_ceil(2) {
                sum += 2.0 * (2.0 * PI * k as f64 * distance / cells as f64).cos();
            }
            if cells.is_multiple_of(2) {
                sum += (PI * distance).cos();
            }
            sum / cells as f64
        };
        let at = |pixel: usize, cell: usize| kernel(pixel as f64 / factor as f64 - cell as f64) as f32;
        let matrix = (0..pixels).flat_map(|pixel| (0..cells).map(move |cell| at(pixel, cell))).collect();
        let transposed = (0..cells).flat_map(|cell| (0..pixels).map(move |pixel| at(pixel, cell))).collect();
        Self { matrix, transposed, cells, pixels }
    }

    /// Returns the number of cells along a side.
    pub fn cells(&self) -> usize {
        self.cells
    }

    /// Interpolates `scores` `(cells, cells)`, in rows, to all pixels.
    pub fn apply(&self, scores: &[f32]) -> Vec<f32> {
        let (cells, pixels) = (self.cells, self.pixels);
        // Rows first, then columns.
        let mut tall = vec![0.0; pixels * cells];
        for (to, weights) in tall.chunks_exact_mut(cells).zip(self.matrix.chunks_exact(cells)) {
            for (from, &weight) in scores.chunks_exact(cells).zip(weights) {
                to.iter_mut().zip(from).for_each(|(to, from)| *to += weight * from);
            }
        }
        let mut all = vec![0.0; pixels * pixels];
        for (to, row) in all.chunks_exact_mut(pixels).zip(tall.chunks_exact(cells)) {
            for (&value, weights) in row.iter().zip(self.transposed.chunks_exact(pixels)) {
                to.iter_mut().zip(weights).for_each(|(to, weight)| *to += value * weight);
            }
        }
        all
    }
}

/// Localises the target in a score map of the crop's size. `origin` is the position in the map of the crop's centre.
/// `target` is (height, width) in pixels of the crop.
pub fn localize(
    scores: &[f32],
    size: usize,
    origin: f64,
    target: [f64; 2],
    config: &LocalizeConfig,
) -> Location {
    let (first, score) = peak(scores, size, |_, _| true);
    let displacement = |(y, x): (usize, usize)| [y as f64 - origin, x as f64 - origin];
    let location = |at, score, state| Location { displacement: displacement(at), score, state };
    if score.is_nan() || score < config.not_found {
        return location(first, score, State::NotFound);
    }
    let half = target.map(|side| config.neighbourhood * side / 2.0);
    let outside = |y: usize, x: usize| {
        (y as f64 - first.0 as f64).abs() > half[0] || (x as f64 - first.1 as f64).abs() > half[1]
    };
    let (second, second_score) = peak(scores, size, outside);
    if second_score > config.distractor * score {
        let limit = config.displacement * size as f64 / 2.0;
        let far = |at| displacement(at).iter().map(|d| d * d).sum::<f64>().sqrt() > limit;
        return match (far(first), far(second)) {
            (false, true) => location(first, score, State::HardNegative),
            (true, false) => location(second, second_score, State::HardNegative),
            _ => location(first, score, State::Uncertain),
        };
    }
    if second_score > config.hard_negative * score && second_score > config.not_found {
        return location(first, score, State::HardNegative);
    }
    location(first, score, State::Normal)
}

/// Returns position and value of the highest score among the `allowed` positions; −∞ if none is allowed.
fn peak(scores: &[f32], size: usize, allowed: impl Fn(usize, usize) -> bool) -> ((usize, usize), f64) {
    let mut best = ((0, 0), f64::NEG_INFINITY);
    for (y, row) in scores.chunks_exact(size).enumerate() {
        for (x, &score) in row.iter().enumerate() {
            if f64::from(score) > best.1 && allowed(y, x) {
                best = ((y, x), f64::from(score));
            }
        }
    }
    best
}
