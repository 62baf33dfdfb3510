//! Values with their errors in rows of panels, one panel for each thing that they may depend on.

use std::ops::Range;

use plotters_backend::{
    BackendColor, DrawingBackend,
    text_anchor::{HPos, VPos},
};

use super::{
    Figure, Result,
    axes::{Axes, Axis, THIN, TICK_EM, TITLE_EM},
    canvas::Canvas,
    colour::{ACCENT, AXIS, DATA, GRID, INK, sequential},
    text::TextStyle,
};

/// Rows of panels that share their columns.
pub struct GainPlot<'a> {
    /// Shown above.
    pub title: &'a str,
    /// The names of the series, one to four.
    pub series: &'a [String],
    /// From above.
    pub rows: &'a [GainRow],
}

/// A row of panels with a common vertical axis.
pub struct GainRow {
    /// What the values are, with their unit.
    pub label: String,
    /// The same attributes and bins in every row.
    pub panels: Vec<GainPanel>,
}

/// The values by the bins of one attribute.
pub struct GainPanel {
    /// The attribute.
    pub name: String,
    /// Its bins' names.
    pub bins: Vec<String>,
    /// For each series a value for each bin, where there is one.
    pub values: Vec<Vec<Option<Measured>>>,
}

/// A value with its standard error.
#[derive(Clone, Copy)]
pub struct Measured {
    /// The value.
    pub value: f64,
    /// Its standard error; 0 where it is not known.
    pub error: f64,
}

const LEFT: i32 = 90;
const RIGHT: i32 = 40;
const ABOVE: i32 = 190;
const HEIGHT: i32 = 380;
const ROW_GAP: i32 = 60;
const PANEL_GAP: i32 = 24;
const BELOW: i32 = 80;
/// The least width of a bin.
const BIN: i32 = 64;
const LABEL_PAD: i32 = 16;
const DOT_RADIUS: u32 = 8;
/// Between the series of a bin.
const DODGE: i32 = 20;
/// Part of the axis left free beside the outermost value.
const MARGIN: f64 = 0.06;

fn colours() -> [BackendColor; 4] {
    [DATA, ACCENT, INK, sequential(0.35)]
}

impl GainRow {
    fn values(&self) -> impl Iterator<Item = Measured> {
        self.panels.iter().flat_map(|panel| panel.values.iter().flatten().copied().flatten())
    }

    /// With 0, the line between better and worse.
    fn range(&self) -> Range<f64> {
        let low = self.values().map(|m| m.value - m.error).fold(0.0, f64::min);
        let high = self.values().map(|m| m.value + m.error).fold(0.0, f64::max);
        let margin = MARGIN * if high > low { high - low } else { 1.0 };
        low - margin..high + margin
    }
}

impl GainPlot<'_> {
    /// The width of each panel: its bins with room for their names.
    fn widths(&self) -> Result<Vec<i32>> {
        let style = TextStyle::new(TICK_EM, AXIS);
        let Some(row) = self.rows.first() else { return Ok(Vec::new()) };
        let width = |panel: &GainPanel| -> Result<i32> {
            let mut widest = style.width(&panel.name)? / panel.bins.len().max(1) as f64;
            for bin in &panel.bins {
                widest = widest.max(style.width(bin)?);
            }
            Ok((widest.ceil() as i32 + LABEL_PAD).max(BIN) * panel.bins.len() as i32)
        };
        row.panels.iter().map(width).collect()
    }

    fn axes(&self, row: usize, left: i32, width: i32) -> Axes {
        Axes {
            corner: (left, ABOVE + row as i32 * (HEIGHT + ROW_GAP)),
            size: (width, HEIGHT),
            x: Axis::linear(0.0..1.0, 1),
            y: Axis::linear(self.rows[row].range(), 6),
        }
    }

    fn panel<B: DrawingBackend>(
        &self,
        canvas: &mut Canvas<B>,
        axes: &Axes,
        panel: &GainPanel,
        last: bool,
    ) -> Result<()> {
        for &tick in axes.y.ticks() {
            canvas.line(&[(axes.corner.0, axes.row(tick)), (axes.right(), axes.row(tick))], THIN, GRID)?;
        }
        canvas.line(&[(axes.corner.0, axes.row(0.0)), (axes.right(), axes.row(0.0))], THIN, AXIS)?;
        let count = panel.bins.len() as f64;
        let name = TextStyle::new(TICK_EM, AXIS).anchored(HPos::Center, VPos::Top);
        for (bin, label) in panel.bins.iter().enumerate() {
            let middle = axes.column((bin as f64 + 0.5) / count);
            if last {
                canvas.text(label, (middle, axes.bottom() + 14), name)?;
            }
            for (series, (values, colour)) in panel.values.iter().zip(colours()).enumerate() {
                let Some(Measured { value, error }) = values[bin] else { continue };
                let x = middle + DODGE * (2 * series as i32 + 1 - panel.values.len() as i32) / 2;
                let ends = [(x, axes.row(value - error)), (x, axes.row(value + error))];
                canvas.line(&ends, 3, colour)?;
                canvas.dot((x, axes.row(value)), DOT_RADIUS, colour)?;
            }
        }
        axes.frame(canvas)
    }
}

impl Figure for GainPlot<'_> {
    fn check(&self) -> Result<()> {
        let (most, count) = (colours().len(), self.series.len());
        ensure!((1..=most).contains(&count), "{count} series, not 1 to {most}");
        ensure!(!self.rows.is_empty(), "there is no row");
        for row in self.rows {
            ensure!(!row.panels.is_empty(), "row {:?} has no panel", row.label);
            ensure!(row.panels.len() == self.rows[0].panels.len(), "the rows differ in their panels");
            for panel in &row.panels {
                ensure!(!panel.bins.is_empty(), "panel {:?} has no bin", panel.name);
                let complete = panel.values.len() == count
                    && panel.values.iter().all(|values| values.len() == panel.bins.len());
                ensure!(complete, "panel {:?} has not one entry for each series and bin", panel.name);
            }
            let finite = |m: Measured| m.value.is_finite() && m.error.is_finite();
            ensure!(row.values().all(finite), "row {:?} has a value that is not finite", row.label);
        }
        Ok(())
    }

    fn size(&self) -> Result<(u32, u32)> {
        let widths = self.widths()?;
        let gaps = PANEL_GAP * (widths.len() as i32 - 1);
        let rows = self.rows.len() as i32;
        let height = ABOVE + rows * HEIGHT + (rows - 1) * ROW_GAP + BELOW;
        let width = LEFT + widths.iter().sum::<i32>() + gaps + RIGHT;
        Ok((width.unsigned_abs(), height.unsigned_abs()))
    }

    fn draw<B: DrawingBackend>(&self, canvas: &mut Canvas<B>) -> Result<()> {
        let widths = self.widths()?;
        let title = TextStyle::new(TITLE_EM, INK).anchored(HPos::Left, VPos::Center);
        canvas.text(self.title, (LEFT, 36), title)?;
        let entry = TextStyle::new(TICK_EM, AXIS).anchored(HPos::Left, VPos::Center);
        let mut x = LEFT;
        for (name, colour) in self.series.iter().zip(colours()) {
            canvas.dot((x + 10, 80), DOT_RADIUS, colour)?;
            canvas.text(name, (x + 30, 80), entry)?;
            x += 70 + entry.width(name)?.ceil() as i32;
        }
        canvas.text("bars: ± one standard error", (x + 20, 80), entry)?;
        for (index, row) in self.rows.iter().enumerate() {
            let mut left = LEFT;
            for (place, (panel, &width)) in row.panels.iter().zip(&widths).enumerate() {
                let axes = self.axes(index, left, width);
                self.panel(canvas, &axes, panel, index + 1 == self.rows.len())?;
                if place == 0 {
                    axes.y_axis(canvas, Some(""))?;
                }
                if index == 0 {
                    let style = TextStyle::new(TICK_EM, INK).anchored(HPos::Center, VPos::Bottom);
                    canvas.text(&panel.name, (left + width / 2, axes.corner.1 - 10), style)?;
                }
                left += width + PANEL_GAP;
            }
            let axes = self.axes(index, LEFT, 1);
            let style = TextStyle::new(TICK_EM, INK).anchored(HPos::Left, VPos::Bottom);
            let above = axes.corner.1 - if index == 0 { 46 } else { 10 };
            canvas.text(&row.label, (20, above), style)?;
        }
        Ok(())
    }
}
