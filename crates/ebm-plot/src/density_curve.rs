//! Densities p(y | x) of one x as curves over y.

use plotters::style::Color as _;

use super::axis::Axis;
use super::colour::SERIES;
use super::sheet::{Kind, Shape, Sheet};
use super::{Error, Figure, Result};

/// Densities of one scalar target, a credible set of the first, and values to compare with.
pub struct DensityCurves<'a> {
    /// Shown above.
    pub title: &'a str,
    /// Name and unit of y.
    pub y_label: &'a str,
    /// Increasing values of y.
    pub grid: &'a [f64],
    /// Names, and the densities at the points of the grid; at most three.
    pub curves: &'a [(String, Vec<f64>)],
    /// Intervals of y below which the first curve is shaded.
    pub regions: &'a [[f64; 2]],
    /// Values of y with a dashed line, and what they are.
    pub marks: &'a [(f64, String)],
}

/// The vertical axis ends this many times above the highest density.
const HEADROOM: f64 = 1.06;

impl DensityCurves<'_> {
    /// The area below `density` between `low` and `high`, where they are on the grid.
    fn below(&self, density: &[f64], [low, high]: [f64; 2]) -> Vec<[f64; 2]> {
        let grid = self.grid;
        let (low, high) = (low.max(grid[0]), high.min(grid[grid.len() - 1]));
        let at = |y: f64| {
            let to = grid.partition_point(|g| *g < y).clamp(1, grid.len() - 1);
            let part = (y - grid[to - 1]) / (grid[to] - grid[to - 1]);
            [y, density[to - 1] + part * (density[to] - density[to - 1])]
        };
        let points = grid.iter().zip(density).map(|(y, p)| [*y, *p]);
        let inside = points.filter(|[y, _]| low < *y && *y < high);
        [[low, 0.0], at(low)].into_iter().chain(inside).chain([at(high), [high, 0.0]]).collect()
    }
}

impl Figure for DensityCurves<'_> {
    fn sheet(&self) -> Result<Sheet> {
        let [first, .., last] = *self.grid else {
            return Err(Error::Data("a grid needs two points".into()));
        };
        let is_nan = self.regions.iter().flatten().any(|y| y.is_nan());
        ensure!(!is_nan, "a region is not finite");
        let highest = self.curves.iter().flat_map(|(_, density)| density).copied().fold(0.0, f64::max);
        let x = Axis::linear(self.y_label, first..last, 8)?;
        let y = Axis::linear("p", 0.0..highest * HEADROOM, 5)?;
        let curves = || self.curves.iter().zip(SERIES);
        // One curve alone needs no name.
        let named = curves().filter(|_| self.curves.len() > 1);
        let keys: Vec<_> = named.map(|((name, _), colour)| (name.as_str(), colour)).collect();
        let mut sheet = Sheet::new(1800);
        let mut panel = sheet.panel(560, self.title, &keys, [x, y], [false; 2])?;
        for region in self.regions.iter().filter(|[low, high]| *low < last && *high > first) {
            let outline = self.below(&self.curves[0].1, *region);
            panel.shapes.push(Shape(Kind::Area, SERIES[0].mix(0.2), outline));
        }
        sheet.shapes.extend(panel.mark(self.marks)?);
        for ((_, density), colour) in curves().rev() {
            let curve = self.grid.iter().zip(density).map(|(y, p)| [*y, *p]).collect();
            panel.shapes.push(Shape(Kind::Line(4), colour, curve));
        }
        sheet.push(panel);
        Ok(sheet)
    }
}
