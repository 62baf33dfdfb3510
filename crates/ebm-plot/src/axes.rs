//! Coordinate axes: from data to pixels, ticks and their labels.

use std::ops::Range;

use plotters_backend::{
    BackendCoord, DrawingBackend,
    text_anchor::{HPos, VPos},
};

use super::{
    Result,
    canvas::Canvas,
    colour::{AXIS, INK},
    text::TextStyle,
};

/// Em of tick labels, in pixels.
pub const TICK_EM: f64 = 23.0;
/// Em of the names of axes and of row labels, in pixels.
pub const LABEL_EM: f64 = 26.0;
/// Em of titles, in pixels.
pub const TITLE_EM: f64 = 28.0;
/// Width of frames and ticks in pixels; even, so that they are sharp on whole coordinates.
pub const THIN: u32 = 2;
const TICK_LENGTH: i32 = 8;
const LABEL_GAP: i32 = 16;
/// From the lower edge to the name of the horizontal axis, in pixels.
pub const NAME_GAP: i32 = 52;

/// The values along one axis.
#[derive(Clone)]
pub struct Axis {
    range: Range<f64>,
    ticks: Vec<f64>,
    /// Of a tick's label on a linear axis; none on a logarithmic one.
    decimals: Option<usize>,
}

impl Axis {
    /// A linear axis with about `count` ticks at round values.
    pub fn linear(range: Range<f64>, count: usize) -> Self {
        let step = round_step((range.end - range.start) / count as f64);
        let [first, last] = [(range.start / step - 1e-9).ceil(), (range.end / step + 1e-9).floor()];
        let ticks = (0..=(last - first).max(0.0) as usize).map(|i| (first + i as f64) * step + 0.0).collect();
        Self { range, ticks, decimals: Some((-step.log10().floor()).max(0.0) as usize) }
    }

    /// An axis whose length is proportional to the logarithm of positive values, with ticks at 1, 2 and 5
    /// times powers of ten, or at powers of ten alone where those are enough; a short one has equal steps.
    pub fn logarithmic(range: Range<f64>) -> Self {
        let decades = range.start.log10().floor() as i32..=range.end.log10().ceil() as i32;
        let at = |factors: &[f64]| -> Vec<f64> {
            let values = decades.clone().flat_map(|e| factors.iter().map(move |f| 10f64.powi(e) * f));
            values.filter(|v| (range.start * (1.0 - 1e-9)..=range.end * (1.0 + 1e-9)).contains(v)).collect()
        };
        let candidates = [at(&[1.0]), at(&[1.0, 2.0, 5.0])];
        let enough = candidates.into_iter().find(|ticks| ticks.len() > 2);
        let ticks = enough.unwrap_or_else(|| Self::linear(range.clone(), 5).ticks);
        Self { range, ticks, decimals: None }
    }

    /// Values that get a tick.
    pub fn ticks(&self) -> &[f64] {
        &self.ticks
    }

    /// A tick's label: on a linear axis all have equally many decimals.
    pub fn label(&self, tick: f64) -> String {
        let text = match self.decimals {
            Some(decimals) => format!("{tick:.decimals$}"),
            None => format!("{}", (tick * 1e12).round() / 1e12),
        };
        // A true minus sign is as wide as a plus.
        text.replace('-', "\u{2212}")
    }

    /// Where `value` lies, from 0 at the start to 1 at the end.
    pub fn fraction(&self, value: f64) -> f64 {
        let Range { start, end } = self.range;
        if self.decimals.is_none() {
            (value / start).ln() / (end / start).ln()
        } else {
            (value - start) / (end - start)
        }
    }

    /// Whether `value` lies on the axis.
    pub fn contains(&self, value: f64) -> bool {
        (-1e-9..=1.0 + 1e-9).contains(&self.fraction(value))
    }
}

/// The least of 1, 2 and 5 times powers of ten that is not below `step`.
fn round_step(step: f64) -> f64 {
    let exponent = step.log10().floor() as i32;
    let candidates = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * 10f64.powi(exponent));
    candidates.into_iter().find(|candidate| *candidate >= step * (1.0 - 1e-9)).unwrap_or(step)
}

/// A rectangle of the canvas with an axis along its lower and its left edge.
pub struct Axes {
    /// The upper left corner.
    pub corner: BackendCoord,
    /// Width and height.
    pub size: (i32, i32),
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis, upwards.
    pub y: Axis,
}

impl Axes {
    /// The pixel column of `x`.
    pub fn column(&self, x: f64) -> i32 {
        self.corner.0 + (self.x.fraction(x) * f64::from(self.size.0)).round() as i32
    }

    /// The pixel row of `y`.
    pub fn row(&self, y: f64) -> i32 {
        self.bottom() - (self.y.fraction(y) * f64::from(self.size.1)).round() as i32
    }

    /// The pixel column of the right edge.
    pub fn right(&self) -> i32 {
        self.corner.0 + self.size.0
    }

    /// The pixel row of the lower edge.
    pub fn bottom(&self) -> i32 {
        self.corner.1 + self.size.1
    }

    /// The lines around.
    pub fn frame<B: DrawingBackend>(&self, canvas: &mut Canvas<B>) -> Result<()> {
        let ((left, top), (right, bottom)) = (self.corner, (self.right(), self.bottom()));
        // Beyond its last corner by half a stroke: an open line does not close that corner.
        let around = [(left - 1, top), (right, top), (right, bottom), (left, bottom), (left, top - 1)];
        canvas.line(&around, THIN, AXIS)
    }

    /// Ticks, their labels and a name below the lower edge.
    pub fn x_axis<B: DrawingBackend>(
        &self,
        canvas: &mut Canvas<B>,
        name: &str,
        style: TextStyle,
    ) -> Result<()> {
        let bottom = self.bottom();
        let label = TextStyle::new(TICK_EM, AXIS).anchored(HPos::Center, VPos::Top);
        for &tick in self.x.ticks() {
            let column = self.column(tick);
            canvas.line(&[(column, bottom), (column, bottom + TICK_LENGTH)], THIN, AXIS)?;
            canvas.text(&self.x.label(tick), (column, bottom + LABEL_GAP), label)?;
        }
        let middle = self.corner.0 + self.size.0 / 2;
        canvas.text(name, (middle, bottom + NAME_GAP), style.anchored(HPos::Center, VPos::Top))
    }

    /// Ticks beside the left edge; with `name` also their labels and the name.
    pub fn y_axis<B: DrawingBackend>(&self, canvas: &mut Canvas<B>, name: Option<&str>) -> Result<()> {
        let left = self.corner.0;
        let label = TextStyle::new(TICK_EM, AXIS).anchored(HPos::Right, VPos::Center);
        for &tick in self.y.ticks() {
            let row = self.row(tick);
            canvas.line(&[(left - TICK_LENGTH, row), (left, row)], THIN, AXIS)?;
            if name.is_some() {
                canvas.text(&self.y.label(tick), (left - LABEL_GAP, row), label)?;
            }
        }
        let Some(name) = name else { return Ok(()) };
        let style = TextStyle::new(LABEL_EM, INK).italic().anchored(HPos::Center, VPos::Center);
        canvas.text(name, (left - 96, self.corner.1 + self.size.1 / 2), style)
    }

    /// A title above, `raised` pixels higher than usual.
    pub fn title<B: DrawingBackend>(&self, canvas: &mut Canvas<B>, title: &str, raised: i32) -> Result<()> {
        let style = TextStyle::new(TITLE_EM, INK).anchored(HPos::Center, VPos::Bottom);
        canvas.text(title, (self.corner.0 + self.size.0 / 2, self.corner.1 - 18 - raised), style)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks().iter().map(|tick| axis.label(*tick)).collect()
    }

    #[test]
    fn linear_ticks_are_round_and_inside() {
        assert_eq!(labels(&Axis::linear(-3.0..3.0, 6)), ["−3", "−2", "−1", "0", "1", "2", "3"]);
        assert_eq!(labels(&Axis::linear(-1.5..1.5, 3)), ["−1", "0", "1"]);
        assert_eq!(labels(&Axis::linear(0.0..0.58, 3)), ["0.0", "0.2", "0.4"]);
        assert_eq!(labels(&Axis::linear(0.01..0.049, 4)), ["0.01", "0.02", "0.03", "0.04"]);
        assert_eq!(labels(&Axis::linear(0.0..2300.0, 5)), ["0", "500", "1000", "1500", "2000"]);
    }

    #[test]
    fn logarithmic_ticks_are_powers_or_their_halves_and_fifths() {
        assert_eq!(labels(&Axis::logarithmic(0.018..2.3)), ["0.02", "0.05", "0.1", "0.2", "0.5", "1", "2"]);
        assert_eq!(labels(&Axis::logarithmic(1e-3..100.0)), ["0.001", "0.01", "0.1", "1", "10", "100"]);
        assert_eq!(labels(&Axis::logarithmic(0.69..0.75)), ["0.7", "0.72", "0.74"]);
    }

    #[test]
    fn values_have_their_pixels() {
        let axes = Axes {
            corner: (100, 50),
            size: (600, 300),
            x: Axis::linear(-3.0..3.0, 6),
            y: Axis::logarithmic(0.1..10.0),
        };
        assert_eq!([-3.0, 0.0, 1.0, 3.0].map(|x| axes.column(x)), [100, 400, 500, 700]);
        assert_eq!([0.1, 1.0, 10.0].map(|y| axes.row(y)), [350, 200, 50]);
        assert!(axes.x.contains(3.0) && !axes.x.contains(3.01) && !axes.y.contains(0.09));
    }
}
