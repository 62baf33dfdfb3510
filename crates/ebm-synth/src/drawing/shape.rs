//! The silhouettes of the categories.

use std::f32::consts::{PI, TAU};

use ebm_seed::Rng;
use rand::Rng as _;
use serde::{Deserialize, Serialize};

use super::primitive::{EMPTY, Extent, Point, Primitive, hull};

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Category {
    /// A filled ellipse of moderate eccentricity.
    Disc,
    /// A slender triangle with rounded corners.
    Cone,
    /// An ellipse with a hole.
    Ring,
    /// A five-pointed star.
    Star,
    /// A tapered cup with an opening; usually a thin handle on one side ends the box there.
    Mug,
    /// A rectangle with a dial and a window; often a thin antenna ends the box above.
    Radio,
}

impl Category {
    /// All categories.
    pub const ALL: [Self; 6] = [Self::Disc, Self::Cone, Self::Ring, Self::Star, Self::Mug, Self::Radio];

    /// The name in annotation files and configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disc => "disc",
            Self::Cone => "cone",
            Self::Ring => "ring",
            Self::Star => "star",
            Self::Mug => "mug",
            Self::Radio => "radio",
        }
    }
}

/// A figure in the plane: the union of `body` and `protrusion` less `hole`.
#[derive(Clone, Debug)]
pub(crate) struct Silhouette {
    pub(crate) body: Vec<Primitive>,
    pub(crate) hole: Option<Primitive>,
    /// A thin part that counts for the box.
    pub(crate) protrusion: Option<Primitive>,
    /// Marks inside the body: a figure and the factor by which it changes the colour.
    pub(crate) marks: Vec<(Primitive, f32)>,
}

impl Silhouette {
    /// A silhouette of the category around the origin, of nominal diameter `2 · scale` pixels.
    pub(crate) fn draw(category: Category, scale: f32, rng: &mut Rng) -> Self {
        match category {
            Category::Disc => {
                let frame = Frame::draw(scale, PI, rng);
                Self::plain(frame.ellipse([0.0, 0.0], [1.0, rng.random_range(0.72..=1.0)]))
            }
            Category::Cone => {
                let frame = Frame::draw(scale, PI, rng);
                let half = rng.random_range(0.5..=0.72);
                Self::plain(frame.polygon(&[[0.0, -0.95], [half, 0.85], [-half, 0.85]], 0.08))
            }
            Category::Ring => {
                let frame = Frame::draw(scale, PI, rng);
                let minor = rng.random_range(0.75..=1.0);
                let hole = rng.random_range(0.42..=0.62);
                let mut ring = Self::plain(frame.ellipse([0.0, 0.0], [1.0, minor]));
                ring.hole = Some(frame.ellipse([0.0, 0.0], [hole, hole * minor]));
                ring
            }
            Category::Star => {
                let frame = Frame::draw(scale, PI, rng);
                let inner = rng.random_range(0.40..=0.52);
                let corner = |i: u8| {
                    let radius = if i.is_multiple_of(2) { 0.98 } else { inner };
                    let (sin, cos) = (f32::from(i) * TAU / 10.0).sin_cos();
                    [radius * sin, -radius * cos]
                };
                let corners: Vec<Point> = (0..10).map(corner).collect();
                Self::plain(frame.polygon(&corners, 0.06))
            }
            Category::Mug => mug(scale, rng),
            Category::Radio => radio(scale, rng),
        }
    }

    /// A long strip through the origin, for clutter and occluders: `half_width` in pixels, gently bent.
    pub(crate) fn strip(length: f32, half_width: f32, rng: &mut Rng) -> Self {
        let frame = Frame::draw(0.5 * length, PI, rng);
        let bend = rng.random_range(-0.35f32..=0.35);
        let points = [-1.0f32, -0.6, -0.2, 0.2, 0.6, 1.0].map(|t| frame.place([t, bend * (t * t - 0.4)]));
        Self::plain(Primitive::Stroke { points: points.to_vec(), radius: half_width })
    }

    /// An irregular convex-ish patch around the origin, for clutter.
    pub(crate) fn patch(scale: f32, rng: &mut Rng) -> Self {
        let frame = Frame::draw(scale, PI, rng);
        let count = rng.random_range(5u8..=8);
        let corner = |i: u8| {
            let (sin, cos) =
                ((f32::from(i) + rng.random_range(-0.3..=0.3)) * TAU / f32::from(count)).sin_cos();
            let radius = rng.random_range(0.45..=1.0);
            [radius * cos, radius * sin]
        };
        let corners: Vec<Point> = (0..count).map(corner).collect();
        Self::plain(frame.polygon(&corners, 0.05))
    }

    /// Signed distance to the body less the hole.
    pub(crate) fn body_distance(&self, p: Point) -> f32 {
        let body = self.body.iter().map(|part| part.distance(p)).fold(f32::INFINITY, f32::min);
        self.hole.as_ref().map_or(body, |hole| body.max(-hole.distance(p)))
    }

    /// Signed distance to the whole silhouette.
    pub(crate) fn distance(&self, p: Point) -> f32 {
        let body = self.body_distance(p);
        self.protrusion.as_ref().map_or(body, |thin| body.min(thin.distance(p)))
    }

    /// The smallest upright rectangle around body and protrusion, exact up to rounding.
    pub(crate) fn extent(&self) -> Extent {
        self.body.iter().chain(&self.protrusion).map(Primitive::extent).fold(EMPTY, hull)
    }

    /// The silhouette moved by `offset`.
    pub(crate) fn translated(self, offset: Point) -> Self {
        let shift = |figure: Primitive| figure.translated(offset);
        Self {
            body: self.body.into_iter().map(shift).collect(),
            hole: self.hole.map(shift),
            protrusion: self.protrusion.map(shift),
            marks: self.marks.into_iter().map(|(figure, tone)| (shift(figure), tone)).collect(),
        }
    }

    fn plain(figure: Primitive) -> Self {
        Self { body: vec![figure], hole: None, protrusion: None, marks: Vec::new() }
    }
}

fn mug(scale: f32, rng: &mut Rng) -> Silhouette {
    let frame = Frame::draw(scale, 0.4, rng);
    let (top, taper) = (rng.random_range(0.58..=0.75), rng.random_range(0.68..=0.9));
    let (rim, base) = (rng.random_range(-0.85..=-0.65), 0.85);
    let cup = frame.polygon(&[[-top, rim], [top, rim], [top * taper, base], [-top * taper, base]], 0.04);
    let opening = frame.ellipse([0.0, rim], [top * 0.95, 0.2]);
    let lip = frame.ellipse([0.0, rim], [top + 0.04, 0.24]);
    // The arc starts and ends inside the cup, so that no gap shows.
    let side = if rng.random_bool(0.5) { 1.0f32 } else { -1.0 };
    let (reach, height) = (rng.random_range(0.42..=0.72), rng.random_range(0.34..=0.5));
    let arc = |i: u8| {
        let (sin, cos) = ((f32::from(i) / 8.0 - 0.5) * PI).sin_cos();
        frame.place([side * (0.93 * top + reach * cos), 0.05 + height * sin])
    };
    let handle = Primitive::Stroke { points: (0..=8).map(arc).collect(), radius: (0.075 * scale).max(0.7) };
    Silhouette {
        body: vec![cup, lip],
        hole: None,
        protrusion: rng.random_bool(0.85).then_some(handle),
        marks: vec![(opening, 0.35)],
    }
}

fn radio(scale: f32, rng: &mut Rng) -> Silhouette {
    let frame = Frame::draw(scale, 0.4, rng);
    let half = rng.random_range(0.5..=0.75);
    let side = if rng.random_bool(0.5) { 1.0f32 } else { -1.0 };
    let case = frame.polygon(&[[-0.94, -half], [0.94, -half], [0.94, half], [-0.94, half]], 0.06);
    let dial = frame.ellipse([-side * 0.5, 0.1], [0.3, 0.3]);
    let window = frame
        .polygon(&[[side * 0.08, -0.3], [side * 0.72, -0.3], [side * 0.72, 0.02], [side * 0.08, 0.02]], 0.0);
    let reach = rng.random_range(0.4..=1.0);
    let lean: f32 = rng.random_range(-0.5..=0.5);
    let tip = [side * 0.75 + reach * lean, -half - reach];
    let antenna = Primitive::Stroke {
        points: vec![frame.place([side * 0.75, -half + 0.1]), frame.place(tip)],
        radius: (0.055 * scale).max(0.65),
    };
    Silhouette {
        body: vec![case],
        hole: None,
        protrusion: rng.random_bool(0.7).then_some(antenna),
        marks: vec![(dial, 0.4), (window, 1.6)],
    }
}

/// Rotation and scale from unit coordinates to pixels.
struct Frame {
    scale: f32,
    axis: Point,
}

impl Frame {
    /// A frame rotated by at most `max_angle` radians either way.
    fn draw(scale: f32, max_angle: f32, rng: &mut Rng) -> Self {
        let (sin, cos) = rng.random_range(-max_angle..=max_angle).sin_cos();
        Self { scale, axis: [cos, sin] }
    }

    fn place(&self, [u, v]: Point) -> Point {
        let [cos, sin] = self.axis;
        [self.scale * (u * cos - v * sin), self.scale * (u * sin + v * cos)]
    }

    fn ellipse(&self, center: Point, radii: [f32; 2]) -> Primitive {
        let radii = radii.map(|r| r * self.scale);
        Primitive::Ellipse { center: self.place(center), radii, axis: self.axis }
    }

    /// A polygon with corners rounded by `radius`, by which it also grows.
    fn polygon(&self, corners: &[Point], radius: f32) -> Primitive {
        let vertices = corners.iter().map(|&corner| self.place(corner)).collect();
        Primitive::Polygon { vertices, radius: radius * self.scale }
    }
}
