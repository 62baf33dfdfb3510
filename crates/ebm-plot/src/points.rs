//! Measured points with their spread over a common x, a panel for each quantity, as Figure 3a shows AP and
//! speed.

use std::ops::Range;

use super::axis::Axis;
use super::colour::{ACCENT, INK};
use super::sheet::{Kind, Shape, Sheet, THIN};
use super::{Figure, Result};

/// Panels below one another.
pub struct PointPlot<'a> {
    /// Name and unit of x.
    pub x_label: &'a str,
    /// The quantities.
    pub panels: &'a [PointPanel],
}

/// One quantity.
pub struct PointPanel {
    /// Shown above; says what y is.
    pub title: String,
    /// x, the mean of y, and half the length of its bar.
    pub points: Vec<[f64; 3]>,
    /// Whether the points are of one curve, so that a line joins them.
    pub connected: bool,
}

/// From the least to the largest value, with a margin.
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
