//! A result over several seeds: one dot per run.

use std::ops::Range;

use plotters::style::Color as _;

use super::axis::Axis;
use super::colour::{DATA, INK};
use super::sheet::{Kind, Shape, Sheet};
use super::{Figure, Result};

/// Results of several methods, each trained with several seeds.
pub struct SeedPlot<'a> {
    /// Shown above.
    pub title: &'a str,
    /// Name and unit of the values.
    pub x_label: &'a str,
    /// From above.
    pub rows: &'a [SeedRow],
    /// Values to compare with, marked by dashed vertical lines.
    pub references: &'a [(f64, String)],
    /// A logarithmic axis, for positive values alone.
    pub logarithmic: bool,
}

/// The results of one method.
pub struct SeedRow {
    /// Its name.
    pub label: String,
    /// One value per seed; their mean gets a tick.
    pub values: Vec<f64>,
}

const WIDTH: i32 = 1800;
/// Part of the axis left free beside the outermost value.
const MARGIN: f64 = 0.06;

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
        // A single value has no extent of its own.
        let extent = if high > low { high - low } else { low.abs().max(1.0) };
        let start = low - MARGIN * extent;
        // The margin of small positive values does not reach below 0.
        let start = if !self.logarithmic && low >= 0.0 { start.max(0.0) } else { start };
        value(start)..value(high + MARGIN * extent)
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
        let mut sheet = Sheet::new(WIDTH);
        let mut panel = sheet.panel(66 * self.rows.len() as i32, self.title, &[], [x, y], [true, false])?;
        ensure!(panel.area[2] > WIDTH / 2, "the labels of the rows leave no room for the values");
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
