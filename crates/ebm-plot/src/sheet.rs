//! A page of panels with titles and labels, drawn through plotters.

use ebm_data::{Image, resize::resize_pillow_box};
use plotters::chart::{ChartBuilder, LabelAreaPosition};
use plotters::coord::{Shift, ranged1d::Ranged as _};
use plotters::drawing::{DrawingArea, IntoDrawingArea as _};
use plotters::element::{Circle, DashedPathElement, PathElement, Polygon};
use plotters::prelude::{DrawingBackend, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color as _, RGBAColor, WHITE};

use super::Result;
use super::axis::Axis;
use super::bitmap::{Bitmap, label_width, style};
use super::colour::{ACCENT, AXIS, GRID, INK};

/// Em of tick labels, in pixels.
pub const TICK_EM: f64 = 23.0;
/// Em of the names of axes, in pixels.
pub const LABEL_EM: f64 = 26.0;
/// Em of titles, in pixels.
const TITLE_EM: f64 = 28.0;
/// Width of frames and ticks, in pixels.
pub const THIN: u32 = 2;
/// Height below the axes, in pixels: ticks, their labels, a name, and [`FREE`] pixels of space.
const BELOW: i32 = 100;
const FREE: i32 = 16;
/// Length of a tick; its label is twice as far from the axis.
const TICK: i32 = 8;
/// Height of a line of labels of marks.
const LINE: i32 = 34;
/// Factor by which figures are drawn larger and then reduced, for smooth edges.
const SCALE: i32 = 2;

/// A shape with its kind, its colour, and its points in values of a panel's axes or in pixels of the page.
pub struct Shape(pub Kind, pub RGBAColor, pub Vec<[f64; 2]>);

/// Kind of a shape.
pub enum Kind {
    /// Line through all points, of this width in pixels.
    Line(u32),
    /// Thin dashed line through all points.
    Dashed,
    /// Filled polygon of all points.
    Area,
    /// Dot at the first point, of this radius in pixels.
    Dot(i32),
    /// Line of text at the first point, with its em in pixels and its anchor.
    Text(String, f64, Pos),
}

/// Returns a line of text on the page with its anchor at `at`.
pub fn text(text: &str, at: [f64; 2], em: f64, colour: RGBAColor, anchor: Pos) -> Shape {
    Shape(Kind::Text(text.to_owned(), em, anchor), colour, vec![at])
}

impl Shape {
    fn draw<B: DrawingBackend>(
        &self,
        page: &DrawingArea<B, Shift>,
        place: impl Fn(&[f64; 2]) -> (i32, i32),
    ) -> Result<()> {
        let Self(kind, colour, points) = self;
        ensure!(points.iter().flatten().all(|value| value.is_finite()), "a value is not finite");
        let points: Vec<_> = points.iter().map(place).collect();
        let stroke = |width: u32| colour.stroke_width(width * SCALE.unsigned_abs());
        Ok(match kind {
            Kind::Line(width) => page.draw(&PathElement::new(points, stroke(*width))),
            Kind::Dashed => {
                page.draw(&DashedPathElement::new(points, TICK * SCALE, TICK * SCALE, stroke(THIN)))
            }
            Kind::Area => page.draw(&Polygon::new(points, colour.filled())),
            Kind::Dot(radius) => page.draw(&Circle::new(points[0], radius * SCALE, colour.filled())),
            Kind::Text(text, em, anchor) => {
                page.draw_text(text, &style(em * f64::from(SCALE), *colour).pos(*anchor), points[0])
            }
        }?)
    }
}

/// A pair of axes, and the shapes between them.
pub struct Panel {
    /// Left, top, width and height of the area between the axes, in pixels.
    pub area: [i32; 4],
    pub x: Axis,
    pub y: Axis,
    /// Whether grid lines are drawn behind the data at the ticks of x and of y.
    pub grid: [bool; 2],
    /// Whether the labels of y are on the right side.
    pub right: bool,
    /// Shapes with points in values of the axes.
    pub shapes: Vec<Shape>,
}

/// Returns the width in pixels for the labels and the name of `y` beside a panel.
pub fn room(y: &Axis) -> Result<i32> {
    let mut widest: f64 = 0.0;
    for (_, label) in &y.ticks {
        widest = widest.max(label_width(label, TICK_EM)?);
    }
    let name = if y.name.is_empty() { 0.0 } else { 1.5 * LABEL_EM };
    Ok(if widest > 0.0 { 2 * TICK + (widest + name).ceil() as i32 } else { 0 })
}

impl Panel {
    pub fn new(area: [i32; 4], x: Axis, y: Axis, grid: [bool; 2]) -> Self {
        Self { area, x, y, grid, right: false, shapes: Vec::new() }
    }

    /// Draws a dashed line at each value of x, and returns the labels of the lines. They are placed above the axes, which
    /// move down. A label that would touch another is placed higher.
    pub fn mark(&mut self, marks: &[(f64, String)]) -> Result<Vec<Shape>> {
        let mut marks: Vec<_> = marks.iter().collect();
        marks.sort_by(|a, b| a.0.total_cmp(&b.0));
        let ([left, top, width, _], y) = (self.area, self.y.range());
        // The right end of each line of labels.
        let mut ends: Vec<f64> = Vec::new();
        let mut placed = Vec::new();
        for (value, label) in marks {
            let half = label_width(label, TICK_EM)? / 2.0 + 12.0;
            let middle = f64::from(left) + self.x.fraction(*value) * f64::from(width);
            let line = ends.iter().position(|end| *end <= middle - half).unwrap_or(ends.len());
            ends.resize(ends.len().max(line + 1), 0.0);
            ends[line] = middle + half;
            placed.push((label, middle, line as i32));
            self.shapes.push(Shape(Kind::Dashed, ACCENT, vec![[*value, y.start], [*value, y.end]]));
        }
        self.area[1] += LINE * ends.len() as i32;
        let row = |line: i32| f64::from(top + LINE * (ends.len() as i32 - line) - 8);
        let label = |(label, middle, line): (&String, f64, i32)| {
            text(label, [middle, row(line)], TICK_EM, ACCENT, Pos::new(HPos::Center, VPos::Bottom))
        };
        Ok(placed.into_iter().map(label).collect())
    }

    fn draw<B: DrawingBackend>(&self, page: &DrawingArea<B, Shift>) -> Result<()> {
        let [left, top, width, height] = self.area.map(|length| length * SCALE);
        let room = room(&self.y)? * SCALE;
        let (before, after) = if self.right { (0, room) } else { (room, 0) };
        let around = page
            .clone()
            .shrink((left - before, top), (before + width + after, height + (BELOW - FREE) * SCALE));
        let mut chart = ChartBuilder::on(&around)
            .set_label_area_size(LabelAreaPosition::Left, before)
            .set_label_area_size(LabelAreaPosition::Right, after)
            .set_label_area_size(LabelAreaPosition::Bottom, (BELOW - FREE) * SCALE)
            .build_cartesian_2d(self.x.clone(), self.y.clone())?;
        let thin = THIN * SCALE.unsigned_abs();
        let mut mesh = chart.configure_mesh();
        mesh.label_style(style(TICK_EM * f64::from(SCALE), AXIS))
            .axis_desc_style(style(LABEL_EM * f64::from(SCALE), INK))
            .axis_style(AXIS.stroke_width(thin))
            .bold_line_style(GRID.stroke_width(thin))
            .set_all_tick_mark_size(TICK * SCALE)
            .x_desc(self.x.name.as_str())
            .y_desc(self.y.name.as_str());
        if !self.grid[0] {
            mesh.disable_x_mesh();
        }
        if !self.grid[1] {
            mesh.disable_y_mesh();
        }
        mesh.draw()?;
        for shape in &self.shapes {
            shape.draw(page, |[x, y]| chart.plotting_area().map_coordinate(&(*x, *y)))?;
        }
        // The frame's ends overlap by half a stroke, because an open line does not close its last corner.
        let (right, bottom, half) = (left + width, top + height, SCALE);
        let frame = [(left - half, top), (right, top), (right, bottom), (left, bottom), (left, top - half)];
        Ok(page.draw(&PathElement::new(frame, AXIS.stroke_width(thin)))?)
    }
}

/// A figure that is laid out on a page.
pub struct Sheet {
    /// Width and height in pixels.
    pub(crate) size: [i32; 2],
    /// Shapes in pixels of the page, drawn below the panels.
    pub(crate) shapes: Vec<Shape>,
    pub(crate) panels: Vec<Panel>,
}

impl Sheet {
    pub(crate) fn new(width: i32) -> Self {
        Self { size: [width, 0], shapes: Vec::new(), panels: Vec::new() }
    }

    /// Writes a title and, below it, the legend of the colours, both from `left` on at the lower end of the page,
    /// which grows.
    pub(crate) fn title(&mut self, left: i32, title: &str, keys: &[(&str, RGBAColor)]) -> Result<()> {
        let [left, width, top] = [left, self.size[0], self.size[1]].map(f64::from);
        let at_left = Pos::new(HPos::Left, VPos::Center);
        self.shapes.push(text(title, [left, top + 36.0], TITLE_EM, INK, at_left));
        let (mut x, mut y) = (left, top + 80.0);
        for (name, colour) in keys {
            let wide = 92.0 + label_width(name, TICK_EM)?;
            if x > left && x + wide > width {
                (x, y) = (left, y + f64::from(LINE));
            }
            self.shapes.push(Shape(Kind::Line(6), *colour, vec![[x, y], [x + 44.0, y]]));
            self.shapes.push(text(name, [x + 56.0, y], TICK_EM, AXIS, at_left));
            x += wide;
        }
        self.size[1] = if keys.is_empty() { top as i32 + 66 } else { y as i32 + 28 };
        Ok(())
    }

    /// Creates a panel of the page's width below a title.
    pub(crate) fn panel(
        &mut self,
        height: i32,
        title: &str,
        keys: &[(&str, RGBAColor)],
        [x, y]: [Axis; 2],
        grid: [bool; 2],
    ) -> Result<Panel> {
        // The minimum aligns most panels in a column.
        let left = (40 + room(&y)?).max(110);
        self.title(left, title, keys)?;
        Ok(Panel::new([left, self.size[1], self.size[0] - left - 44, height], x, y, grid))
    }

    /// Adds a panel, and the height of its labels below it.
    pub(crate) fn push(&mut self, panel: Panel) {
        let [_, top, _, height] = panel.area;
        self.size[1] = top + height + BELOW;
        self.panels.push(panel);
    }

    fn draw<B: DrawingBackend>(&self, page: &DrawingArea<B, Shift>) -> Result<()> {
        let place = |point: &[f64; 2]| {
            let [x, y] = point.map(|length| (length * f64::from(SCALE)).round() as i32);
            (x, y)
        };
        self.shapes.iter().try_for_each(|shape| shape.draw(page, place))?;
        self.panels.iter().try_for_each(|panel| panel.draw(page))?;
        Ok(page.present()?)
    }

    pub(crate) fn svg(&self) -> Result<String> {
        let [width, height] = self.size.map(|length| length * SCALE);
        let mut document = String::new();
        {
            let backend =
                SVGBackend::with_string(&mut document, (width.unsigned_abs(), height.unsigned_abs()));
            let page = backend.into_drawing_area();
            page.fill(&WHITE)?;
            self.draw(&page)?;
        }
        let size = |[width, height]: [i32; 2]| format!("width=\"{width}\" height=\"{height}\" viewBox");
        Ok(document.replacen(&size([width, height]), &size(self.size), 1))
    }

    pub(crate) fn image(&self) -> Result<Image> {
        let [width, height] = self.size.map(|length| length as usize);
        let scale = SCALE as usize;
        let mut image = Image::filled(width * scale, height * scale, [255; 3])?;
        self.draw(&Bitmap(&mut image).into_drawing_area())?;
        Ok(resize_pillow_box(&image, width, height))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_would_touch_go_higher() {
        let axis = || Axis::linear("", 0.0..1.0, 5).unwrap();
        let mut panel = Panel::new([0, 10, 1000, 100], axis(), axis(), [false; 2]);
        let marks = [(0.1, "one".into()), (0.9, "three".into()), (0.12, "two".into()), (0.13, "four".into())];
        let rows = |shapes: Vec<Shape>| -> Vec<(String, f64)> {
            let row = |shape| match shape {
                Shape(Kind::Text(text, ..), _, at) => Some((text, at[0][1])),
                _ => None,
            };
            shapes.into_iter().filter_map(row).collect()
        };
        let rows = rows(panel.mark(&marks).unwrap());
        let expected = [("one", 104.0), ("two", 70.0), ("four", 36.0), ("three", 104.0)];
        assert_eq!(rows, expected.map(|(text, y)| (text.to_owned(), y)));
        assert_eq!((panel.area[1], panel.shapes.len()), (10 + 3 * LINE, 4));
        assert!(panel.mark(&[]).unwrap().is_empty());
    }
}
