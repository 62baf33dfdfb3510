//! Densities p(y | x) of one x as curves over y.

use plotters_backend::{
    BackendColor, BackendCoord, DrawingBackend,
    text_anchor::{HPos, VPos},
};

use super::{
    Figure, Result,
    axes::{Axes, Axis, LABEL_EM, NAME_GAP, TICK_EM},
    canvas::Canvas,
    colour::{AXIS, DATA, INK, sequential},
    marks,
    simplify::simplified,
    text::TextStyle,
};

/// Densities of one scalar target, a credible set of the first, and values to compare with.
pub struct DensityCurves<'a> {
    /// Shown above.
    pub title: &'a str,
    /// Name and unit of y.
    pub y_label: &'a str,
    /// Increasing values of y.
    pub grid: &'a [f64],
    /// Names, and the densities at the points of the grid; at most three.
    pub curves: &'a [(String, Vec<f64>)],
    /// Intervals of y below which the first curve is shaded.
    pub regions: &'a [[f64; 2]],
    /// Values of y with a dashed line, and what they are.
    pub marks: &'a [(f64, String)],
}

const WIDTH: i32 = 1800;
const LEFT: i32 = 124;
const RIGHT: i32 = 44;
const TITLE: i32 = 66;
const HEIGHT: i32 = 560;
const BELOW: i32 = 108;
const LINE_WIDTH: u32 = 4;
const SHADE_ALPHA: f64 = 0.2;
/// The vertical axis ends this many times above the highest density.
const HEADROOM: f64 = 1.06;

/// Colours that differ in hue and in lightness.
fn colours() -> [BackendColor; 3] {
    [DATA, sequential(0.35), AXIS]
}

impl DensityCurves<'_> {
    fn axes(&self, top: i32) -> Axes {
        let range = self.grid.first().copied().unwrap_or(0.0)..self.grid.last().copied().unwrap_or(1.0);
        let highest = self.curves.iter().flat_map(|(_, density)| density).copied().fold(0.0, f64::max);
        Axes {
            corner: (LEFT, top),
            size: (WIDTH - LEFT - RIGHT, HEIGHT),
            x: Axis::linear(range, 8),
            y: Axis::linear(0.0..highest * HEADROOM, 5),
        }
    }

    pub(super) fn layout(&self) -> Result<Axes> {
        Ok(self.axes(TITLE + marks::height(&self.axes(0), self.marks)?))
    }

    /// The first curve between `low` and `high`, as (y, density).
    fn stretch(&self, [low, high]: [f64; 2]) -> Vec<[f64; 2]> {
        let Some((_, density)) = self.curves.first() else { return Vec::new() };
        let points = || self.grid.iter().zip(density).map(|(y, p)| [*y, *p]);
        let at = |y: f64| {
            let right = self.grid.partition_point(|g| *g < y).clamp(1, self.grid.len() - 1);
            let [from, to] = [right - 1, right];
            let part = ((y - self.grid[from]) / (self.grid[to] - self.grid[from])).clamp(0.0, 1.0);
            [y, density[from] + part * (density[to] - density[from])]
        };
        let (low, high) = (low.max(self.grid[0]), high.min(self.grid[self.grid.len() - 1]));
        let inside = points().filter(|[y, _]| low < *y && *y < high);
        std::iter::once(at(low)).chain(inside).chain([at(high)]).collect()
    }
}

/// Pixels of a curve of (y, density) pairs.
fn pixels(axes: &Axes, curve: impl IntoIterator<Item = [f64; 2]>) -> Vec<BackendCoord> {
    let exact = |[y, p]: [f64; 2]| {
        [axes.x.fraction(y) * f64::from(axes.size.0), axes.y.fraction(p) * f64::from(axes.size.1)]
    };
    let line = simplified(&curve.into_iter().map(exact).collect::<Vec<_>>());
    let place = |[x, y]: [f64; 2]| (axes.corner.0 + x.round() as i32, axes.bottom() - y.round() as i32);
    line.into_iter().map(place).collect()
}

impl Figure for DensityCurves<'_> {
    fn check(&self) -> Result<()> {
        ensure!(self.grid.len() >= 2, "a grid needs two points");
        let increasing = self.grid.windows(2).all(|pair| pair[0] < pair[1]);
        ensure!(increasing && self.grid.iter().all(|y| y.is_finite()), "the grid does not increase");
        let most = colours().len();
        ensure!((1..=most).contains(&self.curves.len()), "{} curves, not 1 to {most}", self.curves.len());
        for (name, density) in self.curves {
            let (points, values) = (self.grid.len(), density.len());
            ensure!(values == points, "curve {name:?} has {values} values at {points} points");
            if let Some(p) = density.iter().find(|p| !(p.is_finite() && **p >= 0.0)) {
                bail!("curve {name:?}: {p} is no density");
            }
        }
        ensure!(
            self.curves.iter().any(|(_, density)| density.iter().any(|p| *p > 0.0)),
            "the density is zero"
        );
        for [low, high] in self.regions {
            ensure!(low <= high, "the region {low} to {high} is reversed or not finite");
        }
        let (first, last) = (self.grid[0], self.grid[self.grid.len() - 1]);
        for (y, name) in self.marks {
            ensure!((first..=last).contains(y), "the mark {name:?} at {y} is outside the grid");
        }
        Ok(())
    }

    fn size(&self) -> Result<(u32, u32)> {
        Ok((WIDTH.unsigned_abs(), (self.layout()?.bottom() + BELOW).unsigned_abs()))
    }

    fn draw<B: DrawingBackend>(&self, canvas: &mut Canvas<B>) -> Result<()> {
        let axes = self.layout()?;
        let (first, last) = (self.grid[0], self.grid[self.grid.len() - 1]);
        for region in self.regions.iter().filter(|[low, high]| *low < last && *high > first) {
            let mut outline = pixels(&axes, self.stretch(*region));
            if let (Some(start), Some(end)) = (outline.first().copied(), outline.last().copied()) {
                outline.extend([(end.0, axes.bottom()), (start.0, axes.bottom())]);
                canvas.polygon(&outline, DATA.mix(SHADE_ALPHA))?;
            }
        }
        marks::draw(canvas, &axes, self.marks)?;
        for ((_, density), colour) in self.curves.iter().zip(colours()).rev() {
            let curve = self.grid.iter().zip(density).map(|(y, p)| [*y, *p]);
            canvas.line(&pixels(&axes, curve), LINE_WIDTH, colour)?;
        }
        axes.frame(canvas)?;
        axes.title(canvas, self.title, axes.corner.1 - TITLE)?;
        axes.x_axis(canvas, self.y_label, TextStyle::new(LABEL_EM, INK))?;
        axes.y_axis(canvas, Some("p"))?;
        self.legend(canvas, &axes)
    }
}

impl DensityCurves<'_> {
    /// The names of the curves below the axes, from the right; one curve alone needs none.
    fn legend<B: DrawingBackend>(&self, canvas: &mut Canvas<B>, axes: &Axes) -> Result<()> {
        if self.curves.len() < 2 {
            return Ok(());
        }
        let style = TextStyle::new(TICK_EM, AXIS).anchored(HPos::Right, VPos::Center);
        let (mut right, row) = (axes.right(), axes.bottom() + NAME_GAP + 11);
        for ((name, _), colour) in self.curves.iter().zip(colours()).rev() {
            canvas.text(name, (right, row), style)?;
            right -= style.width(name)?.ceil() as i32 + 12;
            canvas.line(&[(right - 44, row), (right, row)], LINE_WIDTH, colour)?;
            right -= 44 + 32;
        }
        Ok(())
    }
}
