//! Curves over a common axis with a legend, as in Figure 3b of the paper.

use std::ops::Range;

use plotters_backend::{
    BackendColor, DrawingBackend,
    text_anchor::{HPos, VPos},
};

use super::{
    Figure, Result,
    axes::{Axes, Axis, LABEL_EM, NAME_GAP, TICK_EM},
    canvas::Canvas,
    colour::{ACCENT, AXIS, DATA, GRID, INK, sequential},
    text::TextStyle,
};

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

const WIDTH: i32 = 1200;
const HEIGHT: i32 = 700;
const LEFT: i32 = 124;
const RIGHT: i32 = 44;
const TITLE: i32 = 66;
const BELOW: i32 = 108;
const LINE_WIDTH: u32 = 4;
const LEGEND: i32 = 40;

/// Colours that differ in hue and in lightness.
fn colours() -> [BackendColor; 4] {
    [ACCENT, DATA, INK, sequential(0.35)]
}

impl LinePlot<'_> {
    fn axes(&self) -> Axes {
        Axes {
            corner: (LEFT, TITLE),
            size: (WIDTH - LEFT - RIGHT, HEIGHT),
            x: Axis::linear(self.x.clone(), 5),
            y: Axis::linear(self.y.clone(), 5),
        }
    }
}

impl Figure for LinePlot<'_> {
    fn check(&self) -> Result<()> {
        let most = colours().len();
        ensure!((1..=most).contains(&self.curves.len()), "{} curves, not 1 to {most}", self.curves.len());
        ensure!(self.x.start < self.x.end && self.y.start < self.y.end, "an axis has no length");
        for (name, values) in self.curves {
            ensure!(values.len() >= 2, "curve {name:?} has {} values, not two or more", values.len());
            ensure!(
                values.iter().all(|value| value.is_finite()),
                "curve {name:?} has a value that is not finite"
            );
        }
        Ok(())
    }

    fn size(&self) -> Result<(u32, u32)> {
        Ok((WIDTH as u32, (TITLE + HEIGHT + BELOW) as u32))
    }

    fn draw<B: DrawingBackend>(&self, canvas: &mut Canvas<B>) -> Result<()> {
        let axes = self.axes();
        for &tick in axes.y.ticks() {
            canvas.line(&[(LEFT, axes.row(tick)), (axes.right(), axes.row(tick))], 2, GRID)?;
        }
        for ((_, values), colour) in self.curves.iter().zip(colours()) {
            let step = (self.x.end - self.x.start) / (values.len() - 1) as f64;
            let at = |(i, value): (usize, &f64)| {
                let inside = value.clamp(self.y.start, self.y.end);
                (axes.column(self.x.start + step * i as f64), axes.row(inside))
            };
            let points: Vec<_> = values.iter().enumerate().map(at).collect();
            canvas.line(&points, LINE_WIDTH, colour)?;
        }
        axes.frame(canvas)?;
        axes.title(canvas, self.title, 0)?;
        axes.x_axis(canvas, self.x_label, TextStyle::new(LABEL_EM, INK))?;
        axes.y_axis(canvas, Some("%"))?;
        // In the lower left corner, which falling curves leave free.
        let entry = TextStyle::new(TICK_EM, AXIS).anchored(HPos::Left, VPos::Center);
        let top = axes.bottom() - LEGEND * self.curves.len() as i32 - NAME_GAP / 4;
        for (i, ((name, _), colour)) in self.curves.iter().zip(colours()).enumerate() {
            let row = top + LEGEND * i as i32 + LEGEND / 2;
            canvas.line(&[(LEFT + 24, row), (LEFT + 84, row)], LINE_WIDTH, colour)?;
            canvas.text(name, (LEFT + 100, row), entry)?;
        }
        Ok(())
    }
}
