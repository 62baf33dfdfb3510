//! A result over several seeds: one dot per run.

use std::ops::Range;

use anyhow::{Result, ensure};
use plotters_backend::{
    DrawingBackend,
    text_anchor::{HPos, VPos},
};

use super::{
    Figure,
    axes::{Axes, Axis, LABEL_EM, THIN, TICK_EM},
    canvas::Canvas,
    colour::{ACCENT, DATA, GRID, INK},
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
const REFERENCE_LINE: i32 = 34;
const ROW: i32 = 66;
const BELOW: i32 = 108;
const LABEL_GAP: i32 = 24;
const DOT_RADIUS: u32 = 9;
const DOT_ALPHA: f64 = 0.6;
const DASH: usize = 8;
/// Part of the axis left free beside the outermost value.
const MARGIN: f64 = 0.06;

impl SeedPlot<'_> {
    fn values(&self) -> impl Iterator<Item = f64> {
        let runs = self.rows.iter().flat_map(|row| row.values.iter().copied());
        runs.chain(self.references.iter().map(|(value, _)| *value))
    }

    fn range(&self) -> Range<f64> {
        let (from, to): (fn(f64) -> f64, fn(f64) -> f64) =
            if self.logarithmic { (f64::ln, f64::exp) } else { (|v| v, |v| v) };
        let low = self.values().map(from).fold(f64::INFINITY, f64::min);
        let high = self.values().map(from).fold(f64::NEG_INFINITY, f64::max);
        // A single value has no extent of its own.
        let extent = if high > low { high - low } else { low.abs().max(1.0) };
        to(low - MARGIN * extent)..to(high + MARGIN * extent)
    }

    fn height(&self) -> i32 {
        ROW * self.rows.len() as i32
    }

    /// The line, counted from the axes upwards, of each reference's label: a label that would touch a neighbour in a
    /// line goes to the next.
    fn reference_lines(&self, axes: &Axes) -> Result<Vec<usize>> {
        let style = TextStyle::new(TICK_EM, ACCENT);
        let mut taken: Vec<Vec<Range<f64>>> = Vec::new();
        let mut lines = Vec::with_capacity(self.references.len());
        for (value, label) in self.references {
            let half = style.width(label)? / 2.0 + 12.0;
            let middle = f64::from(axes.column(*value));
            let span = middle - half..middle + half;
            let free =
                |line: &Vec<Range<f64>>| line.iter().all(|t| span.end <= t.start || t.end <= span.start);
            let line = taken.iter().position(free).unwrap_or(taken.len());
            taken.resize_with(taken.len().max(line + 1), Vec::new);
            taken[line].push(span);
            lines.push(line);
        }
        Ok(lines)
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

    /// The axes, and the lines of the references' labels.
    fn layout(&self) -> Result<(Axes, Vec<usize>)> {
        let style = TextStyle::new(LABEL_EM, INK);
        let widths: Result<Vec<f64>, _> = self.rows.iter().map(|row| style.width(&row.label)).collect();
        let labels = widths?.into_iter().fold(0.0, f64::max).ceil() as i32;
        let lines = self.reference_lines(&self.axes(labels, 0))?;
        let above = lines.iter().max().map_or(0, |line| (*line as i32 + 1) * REFERENCE_LINE);
        Ok((self.axes(labels, TITLE + above), lines))
    }
}

impl Figure for SeedPlot<'_> {
    fn check(&self) -> Result<()> {
        ensure!(!self.rows.is_empty(), "there is no row");
        for SeedRow { label, values } in self.rows {
            ensure!(!values.is_empty(), "row {label:?} has no value");
        }
        let bad = self.values().find(|value| !value.is_finite());
        ensure!(bad.is_none(), "the value {bad:?} is not finite");
        let bad = self.values().find(|value| self.logarithmic && *value <= 0.0);
        ensure!(bad.is_none(), "the value {bad:?} has no place on a logarithmic axis");
        let (axes, _) = self.layout()?;
        ensure!(axes.size.0 >= WIDTH / 3, "the labels of the rows leave no room for the values");
        Ok(())
    }

    fn size(&self) -> (u32, u32) {
        let height = self.layout().map_or(0, |(axes, _)| axes.bottom() + BELOW);
        (WIDTH.unsigned_abs(), height.unsigned_abs())
    }

    fn draw<B: DrawingBackend>(&self, canvas: &mut Canvas<B>) -> Result<()> {
        let (axes, lines) = self.layout()?;
        for &tick in axes.x.ticks() {
            canvas.line(
                &[(axes.column(tick), axes.corner.1), (axes.column(tick), axes.bottom())],
                THIN,
                GRID,
            )?;
        }
        for ((value, label), line) in self.references.iter().zip(lines) {
            let column = axes.column(*value);
            let top = axes.corner.1 - 8;
            for start in (top..axes.bottom()).step_by(2 * DASH) {
                canvas.line(
                    &[(column, start), (column, (start + DASH as i32).min(axes.bottom()))],
                    THIN,
                    ACCENT,
                )?;
            }
            let style = TextStyle::new(TICK_EM, ACCENT).anchored(HPos::Center, VPos::Bottom);
            canvas.text(label, (column, top - 6 - line as i32 * REFERENCE_LINE), style)?;
        }
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
        axes.title(canvas, self.title)?;
        axes.x_axis(canvas, self.x_label, TextStyle::new(LABEL_EM, INK))
    }
}
