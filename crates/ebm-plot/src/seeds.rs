//! A result over several seeds: one dot per run.

use std::ops::Range;

use plotters_backend::{
    DrawingBackend,
    text_anchor::{HPos, VPos},
};

use super::{
    Figure, Result,
    axes::{Axes, Axis, LABEL_EM, NAME_GAP, THIN, TICK_EM},
    canvas::Canvas,
    colour::{AXIS, DATA, GRID, INK},
    marks,
    text::TextStyle,
};

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
const LEFT: i32 = 40;
const RIGHT: i32 = 60;
const TITLE: i32 = 66;
const ROW: i32 = 66;
const BELOW: i32 = 108;
const LABEL_GAP: i32 = 24;
const DOT_RADIUS: u32 = 9;
const DOT_ALPHA: f64 = 0.6;
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

    fn height(&self) -> i32 {
        ROW * self.rows.len() as i32
    }

    fn axes(&self, labels: i32, top: i32) -> Axes {
        let left = LEFT + labels + LABEL_GAP;
        let range = self.range();
        Axes {
            corner: (left, top),
            size: (WIDTH - RIGHT - left, self.height()),
            x: if self.logarithmic { Axis::logarithmic(range) } else { Axis::linear(range, 8) },
            y: Axis::linear(0.0..1.0, 1),
        }
    }

    pub(super) fn layout(&self) -> Result<Axes> {
        let style = TextStyle::new(LABEL_EM, INK);
        let widths: Result<Vec<f64>, _> = self.rows.iter().map(|row| style.width(&row.label)).collect();
        let labels = widths?.into_iter().fold(0.0, f64::max).ceil() as i32;
        let above = marks::height(&self.axes(labels, 0), self.references)?;
        Ok(self.axes(labels, TITLE + above))
    }
}

impl Figure for SeedPlot<'_> {
    fn check(&self) -> Result<()> {
        ensure!(!self.rows.is_empty(), "there is no row");
        for SeedRow { label, values } in self.rows {
            ensure!(!values.is_empty(), "row {label:?} has no value");
        }
        for value in self.values() {
            ensure!(value.is_finite(), "the value {value} is not finite");
            ensure!(value > 0.0 || !self.logarithmic, "the value {value} has no place on a logarithmic axis");
        }
        let axes = self.layout()?;
        ensure!(axes.size.0 >= WIDTH / 3, "the labels of the rows leave no room for the values");
        Ok(())
    }

    fn size(&self) -> Result<(u32, u32)> {
        Ok((WIDTH.unsigned_abs(), (self.layout()?.bottom() + BELOW).unsigned_abs()))
    }

    fn draw<B: DrawingBackend>(&self, canvas: &mut Canvas<B>) -> Result<()> {
        let axes = self.layout()?;
        for &tick in axes.x.ticks() {
            canvas.line(
                &[(axes.column(tick), axes.corner.1), (axes.column(tick), axes.bottom())],
                THIN,
                GRID,
            )?;
        }
        marks::draw(canvas, &axes, self.references)?;
        let style = TextStyle::new(LABEL_EM, INK).anchored(HPos::Right, VPos::Center);
        for (i, SeedRow { label, values }) in self.rows.iter().enumerate() {
            let row = axes.corner.1 + ROW * i as i32 + ROW / 2;
            canvas.text(label, (axes.corner.0 - LABEL_GAP, row), style)?;
            for &value in values {
                canvas.dot((axes.column(value), row), DOT_RADIUS, DATA.mix(DOT_ALPHA))?;
            }
            let mean = axes.column(values.iter().sum::<f64>() / values.len() as f64);
            canvas.line(&[(mean, row - 20), (mean, row + 20)], 4, INK)?;
        }
        axes.frame(canvas)?;
        axes.title(canvas, self.title, axes.corner.1 - TITLE)?;
        axes.x_axis(canvas, self.x_label, TextStyle::new(LABEL_EM, INK))?;
        let style = TextStyle::new(TICK_EM, AXIS).anchored(HPos::Right, VPos::Top);
        canvas.text("dot: one seed, tick: mean", (axes.right(), axes.bottom() + NAME_GAP), style)
    }
}
