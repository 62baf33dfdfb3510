//! Conditional densities p(y | x) side by side, as in Figure 2 of the paper.

use std::ops::Range;

use plotters_backend::{
    BackendColor, DrawingBackend,
    text_anchor::{HPos, VPos},
};

use super::{
    Figure, Result,
    axes::{Axes, Axis, LABEL_EM, NAME_GAP, THIN, TICK_EM},
    canvas::Canvas,
    colour::{ACCENT, AXIS, INK, sequential},
    contour,
    simplify::simplified,
    text::TextStyle,
};

/// Densities over the same x and y in one scale of colours.
///
/// The darkest colour stands for the 99.5 % quantile of all cells of all panels, so that a narrow peak does
/// not bleach the rest; if that hides anything, the colour bar ends in an arrow.
pub struct DensityMaps<'a> {
    /// From the first to the last column of every density.
    pub x: Range<f64>,
    /// From the first to the last row of every density.
    pub y: Range<f64>,
    /// What x and y are.
    pub names: [&'a str; 2],
    /// From left to right.
    pub panels: &'a [DensityPanel<'a>],
}

/// One density, and observations drawn on it.
pub struct DensityPanel<'a> {
    /// Shown above.
    pub title: &'a str,
    /// Columns at equal steps of x, each with p(y | x) at equal steps of y, from below.
    pub density: &'a [Vec<f64>],
    /// (x, y); those outside the axes are left out and at most [`MAX_POINTS`] are drawn, evenly chosen.
    pub points: &'a [(f64, f64)],
}

/// Observations drawn per panel; more hide the density and swell the SVG.
pub const MAX_POINTS: usize = 500;

/// Shades of the colour scale, white included.
const SHADES: u32 = 64;
/// The bounds of the shades lie at this power of equal steps: closer together where the colours are light and
/// an edge between two shows most.
const SPACING: f64 = 1.5;
/// The quantile of the cells that the darkest shade stands for.
const DARKEST: f64 = 0.995;
const WIDTH: i32 = 1800;
const LEFT: i32 = 124;
const TOP: i32 = 64;
const BELOW: i32 = 100;
const GAP: i32 = 52;
const BAR_GAP: i32 = 44;
const BAR_WIDTH: i32 = 24;
const BAR_LABELS: i32 = 84;
const LABEL_GAP: i32 = 16;
/// At least the width of a digit of a label.
const DIGIT: i32 = 17;
/// A single panel is no wider than this.
const MAX_PANEL_WIDTH: i32 = 760;
const POINT_RADIUS: u32 = 3;
const POINT_ALPHA: f64 = 0.5;

impl DensityMaps<'_> {
    fn panel_size(&self) -> (i32, i32) {
        let count = self.panels.len().max(1) as i32;
        let free = WIDTH - LEFT - BAR_GAP - BAR_WIDTH - BAR_LABELS - GAP * (count - 1);
        let width = (free / count).min(MAX_PANEL_WIDTH);
        (width, width * 4 / 5)
    }

    fn cells(&self) -> impl Iterator<Item = f64> {
        self.panels.iter().flat_map(|panel| panel.density.iter().flatten().copied())
    }

    /// The density of the darkest shade, and the largest.
    fn scale(&self) -> (f64, f64) {
        let mut cells: Vec<f64> = self.cells().collect();
        let largest = cells.iter().copied().fold(0.0, f64::max);
        let at = ((cells.len() as f64 * DARKEST) as usize).min(cells.len() - 1);
        let quantile = *cells.select_nth_unstable_by(at, f64::total_cmp).1;
        (if quantile > 0.0 { quantile } else { largest }, largest)
    }

    pub(super) fn axes(&self, index: usize) -> Axes {
        let size = self.panel_size();
        Axes {
            corner: (LEFT + index as i32 * (size.0 + GAP), TOP),
            size,
            x: Axis::linear(self.x.clone(), 6),
            y: Axis::linear(self.y.clone(), 3),
        }
    }
}

impl Figure for DensityMaps<'_> {
    fn check(&self) -> Result<()> {
        ensure!(!self.panels.is_empty(), "there is no panel");
        ensure!(self.panels.len() <= 6, "{} panels are too many for one row", self.panels.len());
        for (name, range) in [("x", &self.x), ("y", &self.y)] {
            let finite = range.start.is_finite() && range.end.is_finite();
            ensure!(
                finite && range.start < range.end,
                "the range {range:?} of {name} is empty or not finite"
            );
        }
        for DensityPanel { title, density, points } in self.panels {
            let rows = density.first().map_or(0, Vec::len);
            ensure!(
                density.len() >= 2 && rows >= 2,
                "panel {title:?}: a density needs two columns and two rows"
            );
            if let Some((i, column)) = density.iter().enumerate().find(|(_, column)| column.len() != rows) {
                bail!("panel {title:?}: column {i} has {} rows, the first {rows}", column.len());
            }
            if let Some(p) = density.iter().flatten().find(|p| !(p.is_finite() && **p >= 0.0)) {
                bail!("panel {title:?}: {p} is no density");
            }
            if let Some(point) = points.iter().find(|(x, y)| !(x.is_finite() && y.is_finite())) {
                bail!("panel {title:?}: the point {point:?} is not finite");
            }
        }
        ensure!(self.cells().any(|p| p > 0.0), "the density is zero everywhere");
        Ok(())
    }

    fn size(&self) -> Result<(u32, u32)> {
        let (width, height) = self.panel_size();
        let count = self.panels.len() as i32;
        let labels = scale_axis(self.scale().0);
        let longest = labels.ticks().iter().map(|&tick| labels.label(tick).chars().count()).max();
        // Densities of several coordinates have many decimals.
        let room = BAR_LABELS.max(LABEL_GAP + DIGIT * longest.unwrap_or(0) as i32);
        let width = LEFT + count * width + (count - 1) * GAP + BAR_GAP + BAR_WIDTH + room;
        Ok((width.unsigned_abs(), (TOP + height + BELOW).unsigned_abs()))
    }

    fn draw<B: DrawingBackend>(&self, canvas: &mut Canvas<B>) -> Result<()> {
        let (darkest, largest) = self.scale();
        for (index, panel) in self.panels.iter().enumerate() {
            let axes = self.axes(index);
            draw_density(canvas, &axes, panel.density, darkest)?;
            draw_points(canvas, &axes, panel.points)?;
            axes.frame(canvas)?;
            axes.title(canvas, panel.title, 0)?;
            axes.x_axis(canvas, self.names[0], TextStyle::new(LABEL_EM, INK).italic())?;
            axes.y_axis(canvas, (index == 0).then_some(self.names[1]))?;
        }
        draw_scale(canvas, &self.axes(self.panels.len() - 1), darkest, largest)
    }
}

/// The lower bounds of the shades above white, as fractions of the darkest, and their colours.
fn shades() -> impl Iterator<Item = (f64, BackendColor)> {
    let bound = |k: u32| (f64::from(k) / f64::from(SHADES)).powf(SPACING);
    (1..SHADES).map(move |k| (bound(k), sequential((bound(k) + bound(k + 1)) / 2.0)))
}

/// Every shade covers all that is at least as dense; the darker ones lie above. So no seam can show white.
fn draw_density<B: DrawingBackend>(
    canvas: &mut Canvas<B>,
    axes: &Axes,
    density: &[Vec<f64>],
    darkest: f64,
) -> Result<()> {
    let steps = (density.len() - 1, density.first().map_or(1, |column| column.len() - 1));
    let scale = (f64::from(axes.size.0) / steps.0 as f64, f64::from(axes.size.1) / steps.1 as f64);
    for (fraction, colour) in shades() {
        for region in contour::regions(density, fraction * darkest) {
            let pixels = |[x, y]: [f64; 2]| [x * scale.0, y * scale.1];
            let outline = simplified(&region.into_iter().map(pixels).collect::<Vec<_>>());
            let place =
                |[x, y]: [f64; 2]| (axes.corner.0 + x.round() as i32, axes.bottom() - y.round() as i32);
            let mut vertices: Vec<_> = outline.into_iter().map(place).collect();
            vertices.dedup();
            if vertices.len() > 2 {
                canvas.polygon(&vertices, colour)?;
            }
        }
    }
    Ok(())
}

fn draw_points<B: DrawingBackend>(canvas: &mut Canvas<B>, axes: &Axes, points: &[(f64, f64)]) -> Result<()> {
    let count = points.len().min(MAX_POINTS);
    let chosen = (0..count).map(|i| points[i * points.len() / count]);
    for (x, y) in chosen.filter(|(x, y)| axes.x.contains(*x) && axes.y.contains(*y)) {
        canvas.dot((axes.column(x), axes.row(y)), POINT_RADIUS, ACCENT.mix(POINT_ALPHA))?;
    }
    Ok(())
}

/// The densities beside the bar.
fn scale_axis(darkest: f64) -> Axis {
    Axis::linear(0.0..darkest, 5)
}

/// The bar beside the last panel that tells which colour is which density.
fn draw_scale<B: DrawingBackend>(
    canvas: &mut Canvas<B>,
    beside: &Axes,
    darkest: f64,
    largest: f64,
) -> Result<()> {
    let bar = Axes {
        corner: (beside.right() + BAR_GAP, beside.corner.1),
        size: (BAR_WIDTH, beside.size.1),
        x: Axis::linear(0.0..1.0, 1),
        y: scale_axis(darkest),
    };
    let ((left, top), (right, bottom)) = (bar.corner, (bar.right(), bar.bottom()));
    for (fraction, colour) in shades() {
        canvas.rectangle((left, top), (right, bar.row(fraction * darkest)), colour)?;
    }
    bar.frame(canvas)?;
    if largest > darkest {
        canvas
            .polygon(&[(left - 1, top), (right + 1, top), ((left + right) / 2, top - 22)], sequential(1.0))?;
    }
    let label = TextStyle::new(TICK_EM, AXIS).anchored(HPos::Left, VPos::Center);
    for &tick in bar.y.ticks() {
        let row = bar.row(tick);
        canvas.line(&[(right, row), (right + 8, row)], THIN, AXIS)?;
        canvas.text(&bar.y.label(tick), (right + LABEL_GAP, row), label)?;
    }
    let name = TextStyle::new(LABEL_EM, INK).italic().anchored(HPos::Center, VPos::Top);
    canvas.text("p(y | x)", (right + 8, bottom + NAME_GAP), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_densities_have_room_for_their_decimals() {
        let size = |p: f64| {
            let density = vec![vec![p; 3]; 3];
            let panel = DensityPanel { title: "", density: &density, points: &[] };
            DensityMaps { x: 0.0..1.0, y: 0.0..1.0, names: ["x", "y"], panels: &[panel] }.size().unwrap()
        };
        // "0.8" and "0.0008".
        assert_eq!(size(1e-3).0 - size(1.0).0, 16 + 17 * 6 - 84);
        assert_eq!(size(1.0).1, size(1e-3).1);
    }
}
