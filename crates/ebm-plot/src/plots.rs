//! Figures with one pair of axes or a column of panels: curves, points with their spread, and values by seed.

use std::ops::Range;

use plotters::style::Color as _;

use super::axis::Axis;
use super::colour::{ACCENT, DATA, INK, SERIES};
use super::sheet::{Kind, Shape, Sheet, THIN};
use super::{Error, Figure, Result};

/// Densities of one scalar target, with a credible set of the first density and values to compare with.
pub struct DensityCurves<'a> {
    /// Title above the axes.
    pub title: &'a str,
    /// Name and unit of y.
    pub y_label: &'a str,
    /// Ascending values of y.
    pub grid: &'a [f64],
    /// Names, and the densities at the points of the grid; at most three curves.
    pub curves: &'a [(String, Vec<f64>)],
    /// Intervals of y in which the area below the first curve is shaded.
    pub regions: &'a [[f64; 2]],
    /// Values of y that get a dashed line, and their labels.
    pub marks: &'a [(f64, String)],
}

/// Upper end of the vertical axis, as a multiple of the highest density.
const HEADROOM: f64 = 1.06;

impl DensityCurves<'_> {
    /// Returns the area below `density` between `low` and `high`, clipped to the grid.
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
        // A single curve needs no name.
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

/// Curves with their names.
pub struct LinePlot<'a> {
    /// Title above the axes; it names y.
    pub title: &'a str,
    /// Name and unit of x.
    pub x_label: &'a str,
    /// Range of x. Every curve has its values at equal steps of this range.
    pub x: Range<f64>,
    /// Range of y.
    pub y: Range<f64>,
    /// Names and values of the curves; at most four.
    pub curves: &'a [(String, Vec<f64>)],
}

impl Figure for LinePlot<'_> {
    fn sheet(&self) -> Result<Sheet> {
        let x = Axis::linear(self.x_label, self.x.clone(), 5)?;
        let y = Axis::linear("", self.y.clone(), 5)?;
        let keys: Vec<_> = self.curves.iter().map(|(name, _)| name.as_str()).zip(SERIES).collect();
        let mut sheet = Sheet::new(1200);
        let mut panel = sheet.panel(700, self.title, &keys, [x, y], [false, true])?;
        ensure!(self.curves.len() <= SERIES.len(), "{} curves are too many", self.curves.len());
        for ((_, values), colour) in self.curves.iter().zip(SERIES) {
            let step = (self.x.end - self.x.start) / values.len().saturating_sub(1) as f64;
            let at = |(i, value): (usize, &f64)| {
                [self.x.start + step * i as f64, value.clamp(self.y.start, self.y.end)]
            };
            panel.shapes.push(Shape(Kind::Line(4), colour, values.iter().enumerate().map(at).collect()));
        }
        sheet.push(panel);
        Ok(sheet)
    }
}

/// Points with error bars, in a column of panels.
pub struct PointPlot<'a> {
    /// Name and unit of x.
    pub x_label: &'a str,
    /// One panel for each quantity.
    pub panels: &'a [PointPanel],
}

/// Panel of one quantity.
pub struct PointPanel {
    /// Title above the panel; it names y.
    pub title: String,
    /// Points: x, the mean of y, and half the length of the error bar.
    pub points: Vec<[f64; 3]>,
    /// Whether a line joins the points.
    pub connected: bool,
}

/// Returns the range of the values, with a margin.
fn range(values: impl Iterator<Item = f64> + Clone) -> Range<f64> {
    let low = values.clone().fold(f64::INFINITY, f64::min);
    let high = values.fold(f64::NEG_INFINITY, f64::max);
    let margin = if high > low { 0.08 * (high - low) } else { 1.0 };
    low - margin..high + margin
}

impl Figure for PointPlot<'_> {
    fn sheet(&self) -> Result<Sheet> {
        let mut sheet = Sheet::new(1200);
        let x = range(self.panels.iter().flat_map(|panel| panel.points.iter().map(|[x, ..]| *x)));
        for PointPanel { title, points, connected } in self.panels {
            let y = Axis::linear("", range(points.iter().flat_map(|[_, y, bar]| [y - bar, y + bar])), 5)?;
            let x = Axis::linear(self.x_label, x.clone(), 8)?;
            let mut panel = sheet.panel(420, title, &[], [x, y], [false, true])?;
            if *connected {
                let curve = points.iter().map(|[x, y, _]| [*x, *y]).collect();
                panel.shapes.push(Shape(Kind::Line(4), ACCENT, curve));
            }
            for &[x, y, bar] in points {
                let dot = Kind::Dot(if *connected { 8 } else { 6 });
                panel.shapes.push(Shape(dot, ACCENT, vec![[x, y]]));
                panel.shapes.push(Shape(Kind::Line(THIN), INK, vec![[x, y - bar], [x, y + bar]]));
            }
            sheet.push(panel);
        }
        Ok(sheet)
    }
}

/// Results of several methods, each trained with several seeds.
pub struct SeedPlot<'a> {
    /// Title above the axes.
    pub title: &'a str,
    /// Name and unit of the values.
    pub x_label: &'a str,
    /// Rows from top to bottom.
    pub rows: &'a [SeedRow],
    /// Values to compare with, marked by dashed vertical lines.
    pub references: &'a [(f64, String)],
    /// Whether the axis is logarithmic, which requires positive values.
    pub logarithmic: bool,
}

/// The results of one method.
pub struct SeedRow {
    /// Name of the method.
    pub label: String,
    /// One value per seed; their mean gets a tick.
    pub values: Vec<f64>,
}

const SEEDS_WIDTH: i32 = 1800;
/// Fraction of the axis left free beside the outermost values.
const SEEDS_MARGIN: f64 = 0.06;

impl SeedPlot<'_> {
    fn values(&self) -> impl Iterator<Item = f64> {
        let runs = self.rows.iter().flat_map(|row| row.values.iter().copied());
        runs.chain(self.references.iter().map(|(value, _)| *value))
    }

    fn range(&self) -> Range<f64> {
        let along = |value: f64| if self.logarithmic { value.ln() } else { value };
        let value = |along: f64| if self.logarithmic { along.exp() } else { along };
        let low = self.values().map(along).fold(f64::INFINITY, f64::min);
        let high = self.values().map(along).fold(f64::NEG_INFINITY, f64::max);
        // A single value has no extent; its magnitude is used.
        let extent = if high > low { high - low } else { low.abs().max(1.0) };
        let start = low - SEEDS_MARGIN * extent;
        // The margin of values from 0 up does not go below 0.
        let start = if !self.logarithmic && low >= 0.0 { start.max(0.0) } else { start };
        value(start)..value(high + SEEDS_MARGIN * extent)
    }
}

impl Figure for SeedPlot<'_> {
    fn sheet(&self) -> Result<Sheet> {
        let name = format!("{} (dot: one seed, tick: mean)", self.x_label);
        let range = self.range();
        let axis =
            if self.logarithmic { Axis::logarithmic(&name, range) } else { Axis::linear(&name, range, 8) };
        let x = axis?;
        let y = Axis::names(self.rows.iter().map(|row| &row.label)).reversed();
        let mut sheet = Sheet::new(SEEDS_WIDTH);
        let mut panel = sheet.panel(66 * self.rows.len() as i32, self.title, &[], [x, y], [true, false])?;
        ensure!(panel.area[2] > SEEDS_WIDTH / 2, "the labels of the rows leave no room for the values");
        sheet.shapes.extend(panel.mark(self.references)?);
        for (i, SeedRow { values, .. }) in self.rows.iter().enumerate() {
            let row = i as f64 + 0.5;
            let dot = |value: &f64| Shape(Kind::Dot(9), DATA.mix(0.6), vec![[*value, row]]);
            panel.shapes.extend(values.iter().map(dot));
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            panel.shapes.push(Shape(Kind::Line(4), INK, vec![[mean, row - 0.3], [mean, row + 0.3]]));
        }
        sheet.push(panel);
        Ok(sheet)
    }
}
