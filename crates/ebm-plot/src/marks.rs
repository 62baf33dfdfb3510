//! Labelled values on the horizontal axis.

use std::ops::Range;

use plotters_backend::{
    DrawingBackend,
    text_anchor::{HPos, VPos},
};

use super::{
    Result,
    axes::{Axes, THIN, TICK_EM},
    canvas::Canvas,
    colour::ACCENT,
    text::TextStyle,
};

/// Height of a line of labels, in pixels.
const LINE: i32 = 34;
/// Free space beside a label, in pixels.
const MARGIN: f64 = 12.0;
/// The dashed line stands out of the axes by this many pixels.
const RISE: i32 = 8;
const DASH: i32 = 8;

/// The line above the axes, counted upwards, of each mark's label: where a label would touch another, it goes
/// higher.
fn lines(axes: &Axes, marks: &[(f64, String)]) -> Result<Vec<usize>> {
    let style = TextStyle::new(TICK_EM, ACCENT);
    let mut taken: Vec<Vec<Range<f64>>> = Vec::new();
    let mut lines = Vec::with_capacity(marks.len());
    for (value, label) in marks {
        let (half, middle) = (style.width(label)? / 2.0 + MARGIN, f64::from(axes.column(*value)));
        let span = middle - half..middle + half;
        let free = |line: &Vec<Range<f64>>| line.iter().all(|t| span.end <= t.start || t.end <= span.start);
        let line = taken.iter().position(free).unwrap_or(taken.len());
        taken.resize_with(taken.len().max(line + 1), Vec::new);
        taken[line].push(span);
        lines.push(line);
    }
    Ok(lines)
}

/// The height of the labels of `marks` above `axes`, in pixels.
pub fn height(axes: &Axes, marks: &[(f64, String)]) -> Result<i32> {
    Ok(lines(axes, marks)?.iter().max().map_or(0, |line| LINE * (*line as i32 + 1)))
}

/// Draws a dashed vertical line at each value, with its label above the axes.
pub fn draw<B: DrawingBackend>(canvas: &mut Canvas<B>, axes: &Axes, marks: &[(f64, String)]) -> Result<()> {
    let top = axes.corner.1 - RISE;
    let style = TextStyle::new(TICK_EM, ACCENT).anchored(HPos::Center, VPos::Bottom);
    for ((value, label), line) in marks.iter().zip(lines(axes, marks)?) {
        let column = axes.column(*value);
        for start in (top..axes.bottom()).step_by(2 * DASH as usize) {
            canvas.line(&[(column, start), (column, (start + DASH).min(axes.bottom()))], THIN, ACCENT)?;
        }
        canvas.text(label, (column, top - 6 - line as i32 * LINE), style)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axes::Axis;

    #[test]
    fn labels_that_would_touch_go_higher() {
        let axis = || Axis::linear(0.0..1.0, 5);
        let axes = Axes { corner: (0, 0), size: (1000, 100), x: axis(), y: axis() };
        let marks = [(0.1, "one".into()), (0.12, "two".into()), (0.9, "three".into()), (0.13, "four".into())];
        assert_eq!(lines(&axes, &marks).unwrap(), [0, 1, 0, 2]);
        assert_eq!(height(&axes, &marks).unwrap(), 3 * LINE);
        assert_eq!(height(&axes, &[]).unwrap(), 0);
    }
}
