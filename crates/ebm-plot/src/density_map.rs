//! Conditional densities p(y | x) side by side, as in Figure 2 of the paper.

use std::ops::Range;

use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color as _, RGBAColor};

use super::axis::Axis;
use super::colour::{ACCENT, INK, sequential};
use super::contour::{regions, simplified};
use super::sheet::{Kind, LABEL_EM, Panel, Shape, Sheet, room, text};
use super::{Figure, Result};

/// Densities over the same x and y on one colour scale.
///
/// The darkest colour stands for the 99.5 % quantile of all cells of all panels, so that a narrow peak does not
/// make the rest pale. If larger values exist, the colour bar ends in an arrow.
pub struct DensityMaps<'a> {
    /// Range of x, from the first to the last column of every density.
    pub x: Range<f64>,
    /// Range of y, from the first to the last row of every density.
    pub y: Range<f64>,
    /// Names of x and y.
    pub names: [&'a str; 2],
    /// Panels from left to right.
    pub panels: &'a [DensityPanel<'a>],
}

/// One density, and observations drawn on it.
pub struct DensityPanel<'a> {
    /// Title above the panel.
    pub title: &'a str,
    /// Columns at equal steps of x, each with p(y | x) at equal steps of y, from bottom to top.
    pub density: &'a [Vec<f64>],
    /// Observations (x, y). Points outside the axes are left out; at most `MAX_POINTS`, evenly chosen, are drawn.
    pub points: &'a [(f64, f64)],
}

/// Largest number of observations per panel; more would hide the density and enlarge the SVG.
pub const MAX_POINTS: usize = 500;

/// Number of shades of the colour scale, with white.
const SHADES: u32 = 64;
/// Exponent of the shades' bounds over equal steps: bounds are closer where the colours are light and an edge
/// between two shades is most visible.
const SPACING: f64 = 1.5;
/// Quantile of the cells that the darkest shade stands for.
const DARKEST: f64 = 0.995;
const WIDTH: i32 = 1800;
const TOP: i32 = 64;
const GAP: i32 = 52;
const BAR_WIDTH: i32 = 24;
/// Largest width of a panel.
const MAX_PANEL_WIDTH: i32 = 760;

impl DensityMaps<'_> {
    /// Returns the density of the darkest shade, and the largest density.
    fn scale(&self) -> Result<(f64, f64)> {
        let mut cells: Vec<f64> = self.panels.iter().flat_map(|panel| panel.density.concat()).collect();
        let largest = cells.iter().copied().fold(0.0, f64::max);
        ensure!(cells.iter().all(|p| p.is_finite() && *p >= 0.0), "a density is negative or not finite");
        ensure!(largest > 0.0, "the density is zero everywhere");
        let at = ((cells.len() as f64 * DARKEST) as usize).min(cells.len() - 1);
        let quantile = *cells.select_nth_unstable_by(at, f64::total_cmp).1;
        Ok((if quantile > 0.0 { quantile } else { largest }, largest))
    }
}

impl DensityPanel<'_> {
    /// Returns the areas of all shades. Each area extends below those of the darker shades, so that no white seam shows.
    fn shapes(&self, [left, top, width, height]: [i32; 4], darkest: f64) -> Vec<Shape> {
        let steps = [self.density.len(), self.density[0].len()].map(|count| (count - 1) as f64);
        let mut shapes = Vec::new();
        for (fraction, colour) in shades() {
            for region in regions(self.density, fraction * darkest) {
                let pixels = |[x, y]: [f64; 2]| {
                    let up = y / steps[1] * f64::from(height);
                    [f64::from(left) + x / steps[0] * f64::from(width), f64::from(top + height) - up]
                };
                let outline = simplified(&region.into_iter().map(pixels).collect::<Vec<_>>());
                shapes.push(Shape(Kind::Area, colour, outline));
            }
        }
        shapes
    }

    /// Returns the observations between the axes.
    fn dots(&self, x: &Axis, y: &Axis) -> Vec<Shape> {
        let count = self.points.len().min(MAX_POINTS);
        let chosen = (0..count).map(|i| self.points[i * self.points.len() / count]);
        let inside = chosen.filter(|point| x.contains(point.0) && y.contains(point.1));
        inside.map(|(x, y)| Shape(Kind::Dot(3), ACCENT.mix(0.5), vec![[x, y]])).collect()
    }
}

impl Figure for DensityMaps<'_> {
    fn sheet(&self) -> Result<Sheet> {
        ensure!((1..=6).contains(&self.panels.len()), "{} panels, not 1 to 6", self.panels.len());
        for DensityPanel { title, density, .. } in self.panels {
            let rows = density.first().map_or(0, Vec::len);
            let full = density.iter().all(|column| column.len() == rows);
            ensure!(
                full && rows > 1 && density.len() > 1,
                "panel {title:?} needs at least two columns of equal length with at least two rows"
            );
        }
        let (darkest, largest) = self.scale()?;
        let x = Axis::linear(self.names[0], self.x.clone(), 6)?;
        let mut y = Axis::linear(self.names[1], self.y.clone(), 3)?;
        let scale = Axis::linear("p(y | x)", 0.0..darkest, 5)?;
        let (mut left, count) = (GAP / 2 + room(&y)?, self.panels.len() as i32);
        let beside = GAP + BAR_WIDTH + room(&scale)? + GAP / 4;
        let width = ((WIDTH - left - beside - GAP * (count - 1)) / count).min(MAX_PANEL_WIDTH);
        let height = width * 4 / 5;
        let mut sheet = Sheet::new(left + count * width + (count - 1) * GAP + beside);
        for shown in self.panels {
            let area = [left, TOP, width, height];
            let middle = [f64::from(left + width / 2), f64::from(TOP - 18)];
            sheet.shapes.push(text(shown.title, middle, LABEL_EM, INK, Pos::new(HPos::Center, VPos::Bottom)));
            sheet.shapes.extend(shown.shapes(area, darkest));
            let mut panel = Panel::new(area, x.clone(), y.clone(), [false; 2]);
            panel.shapes = shown.dots(&x, &y);
            sheet.push(panel);
            y = y.unlabelled();
            left += width + GAP;
        }
        let area = [left, TOP, BAR_WIDTH, height];
        // The arrow marks larger densities than the scale shows.
        let [low, middle, high] = [left - 1, left + BAR_WIDTH / 2, left + BAR_WIDTH + 1].map(f64::from);
        let top = f64::from(TOP);
        if largest > darkest {
            let arrow = vec![[low, top], [high, top], [middle, top - 22.0]];
            sheet.shapes.push(Shape(Kind::Area, sequential(1.0), arrow));
        }
        let mut across = Axis::names([&String::new()]);
        across.ticks.clear();
        let mut bar = Panel::new(area, across, scale, [false; 2]);
        bar.shapes = shades()
            .map(|(fraction, colour)| {
                let (from, to) = (fraction * darkest, darkest);
                Shape(Kind::Area, colour, vec![[0.0, from], [1.0, from], [1.0, to], [0.0, to]])
            })
            .collect();
        bar.right = true;
        sheet.push(bar);
        Ok(sheet)
    }
}

/// Returns the lower bounds of the shades above white, as fractions of the darkest, and their colours.
fn shades() -> impl Iterator<Item = (f64, RGBAColor)> {
    let bound = |k: u32| (f64::from(k) / f64::from(SHADES)).powf(SPACING);
    (1..SHADES).map(move |k| (bound(k), sequential((bound(k) + bound(k + 1)) / 2.0)))
}
