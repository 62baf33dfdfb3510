//! Measured points with their spread over a common x, a panel for each quantity, as Figure 3a shows AP and
//! speed.

use std::ops::Range;

use plotters_backend::DrawingBackend;

use super::{
    Figure, Result,
    axes::{Axes, Axis, LABEL_EM},
    canvas::Canvas,
    colour::{ACCENT, GRID, INK},
    text::TextStyle,
};

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
    /// Whether the points are of one curve: a line joins them, and bars have ends.
    pub connected: bool,
}

const WIDTH: i32 = 1200;
const HEIGHT: i32 = 420;
const LEFT: i32 = 124;
const RIGHT: i32 = 44;
const TITLE: i32 = 66;
const BELOW: i32 = 108;
const LINE_WIDTH: u32 = 4;
const DOT: u32 = 8;
const SMALL_DOT: u32 = 6;
const BAR: i32 = 10;
/// Room beyond the outermost points, as a share of their range.
const MARGIN: f64 = 0.08;

/// From the least to the largest value, with a margin.
fn range(values: impl Iterator<Item = f64> + Clone) -> Range<f64> {
    let low = values.clone().fold(f64::INFINITY, f64::min);
    let high = values.fold(f64::NEG_INFINITY, f64::max);
    let margin = if high > low { MARGIN * (high - low) } else { 1.0 };
    low - margin..high + margin
}

impl PointPanel {
    fn axes(&self, x: Range<f64>, place: usize) -> Axes {
        let y = range(self.points.iter().flat_map(|[_, y, bar]| [y - bar, y + bar]));
        Axes {
            corner: (LEFT, TITLE + place as i32 * (TITLE + HEIGHT + BELOW)),
            size: (WIDTH - LEFT - RIGHT, HEIGHT),
            x: Axis::linear(x, 8),
            y: Axis::linear(y, 5),
        }
    }
}

impl Figure for PointPlot<'_> {
    fn check(&self) -> Result<()> {
        ensure!(!self.panels.is_empty(), "there is no panel");
        for panel in self.panels {
            ensure!(panel.points.len() >= 2, "panel {:?} has fewer than two points", panel.title);
            let finite = panel.points.iter().flatten().all(|value| value.is_finite());
            ensure!(finite, "panel {:?} has a value that is not finite", panel.title);
        }
        Ok(())
    }

    fn size(&self) -> Result<(u32, u32)> {
        Ok((WIDTH as u32, self.panels.len() as u32 * (TITLE + HEIGHT + BELOW) as u32))
    }

    fn draw<B: DrawingBackend>(&self, canvas: &mut Canvas<B>) -> Result<()> {
        let x = range(self.panels.iter().flat_map(|panel| panel.points.iter().map(|[x, ..]| *x)));
        for (place, panel) in self.panels.iter().enumerate() {
            let axes = panel.axes(x.clone(), place);
            for &tick in axes.y.ticks() {
                canvas.line(&[(LEFT, axes.row(tick)), (axes.right(), axes.row(tick))], 2, GRID)?;
            }
            let at = |[x, y, _]: &[f64; 3]| (axes.column(*x), axes.row(*y));
            if panel.connected {
                canvas.line(&panel.points.iter().map(at).collect::<Vec<_>>(), LINE_WIDTH, ACCENT)?;
            }
            for point @ [x, y, bar] in &panel.points {
                canvas.dot(at(point), if panel.connected { DOT } else { SMALL_DOT }, ACCENT)?;
                if *bar > 0.0 {
                    let (column, low, high) = (axes.column(*x), axes.row(y - bar), axes.row(y + bar));
                    canvas.line(&[(column, low), (column, high)], 2, INK)?;
                    for row in [low, high].into_iter().filter(|_| panel.connected) {
                        canvas.line(&[(column - BAR, row), (column + BAR, row)], 2, INK)?;
                    }
                }
            }
            axes.frame(canvas)?;
            axes.title(canvas, &panel.title, 0)?;
            axes.x_axis(canvas, self.x_label, TextStyle::new(LABEL_EM, INK))?;
            axes.y_axis(canvas, Some(""))?;
        }
        Ok(())
    }
}
