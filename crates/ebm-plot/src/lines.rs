//! Curves over a common axis with a legend, as in Figure 3b of the paper.

use std::ops::Range;

use super::axis::Axis;
use super::colour::SERIES;
use super::sheet::{Kind, Shape, Sheet};
use super::{Figure, Result};

/// Curves with their names.
pub struct LinePlot<'a> {
    /// Shown above; says what y is.
    pub title: &'a str,
    /// Name and unit of x.
    pub x_label: &'a str,
    /// The range of x, at equal steps of which every curve has its values.
    pub x: Range<f64>,
    /// The range of y.
    pub y: Range<f64>,
    /// Names and values; at most four.
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
