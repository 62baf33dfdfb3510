//! Plane figures given by a signed distance and an exact extent.

/// A position in pixels; the pixel of column c and row r covers `[c, c+1) x [r, r+1)`.
pub(crate) type Point = [f32; 2];

/// `[x0, y0, x1, y1]` in pixels.
pub(crate) type Extent = [f32; 4];

/// A plane figure.
#[derive(Clone, Debug)]
pub(crate) enum Primitive {
    /// An ellipse whose first radius lies along the unit vector `axis`.
    Ellipse { center: Point, radii: [f32; 2], axis: Point },
    /// A closed polygon, not necessarily convex, grown by `radius`.
    Polygon { vertices: Vec<Point>, radius: f32 },
    /// A polyline drawn with a round pen of radius `radius`.
    Stroke { points: Vec<Point>, radius: f32 },
}

impl Primitive {
    /// Signed distance, negative inside: exact for polygons and strokes. For ellipses it is exact to first
    /// order near the edge and nowhere beyond the true distance outside: there the level, a norm and so
    /// convex, rises by at most its slope at `p` times that distance.
    pub(crate) fn distance(&self, p: Point) -> f32 {
        match self {
            Self::Ellipse { center, radii, axis } => {
                let (dx, dy) = (p[0] - center[0], p[1] - center[1]);
                let (u, v) = (dx * axis[0] + dy * axis[1], dy * axis[0] - dx * axis[1]);
                let (s, t) = (u / radii[0], v / radii[1]);
                let level = length(s, t);
                let slope = length(s / radii[0], t / radii[1]);
                if slope > 0.0 { level * (level - 1.0) / slope } else { -radii[0].min(radii[1]) }
            }
            Self::Polygon { vertices, radius } => {
                let mut squared = f32::INFINITY;
                let mut inside = false;
                let mut a = vertices.last().copied().unwrap_or_default();
                for &b in vertices {
                    squared = squared.min(squared_distance_to_segment(p, a, b));
                    let crosses = (a[1] > p[1]) != (b[1] > p[1]);
                    if crosses && p[0] < a[0] + (b[0] - a[0]) * (p[1] - a[1]) / (b[1] - a[1]) {
                        inside = !inside;
                    }
                    a = b;
                }
                if inside { -squared.sqrt() - radius } else { squared.sqrt() - radius }
            }
            Self::Stroke { points, radius } => {
                let segments = points.iter().zip(points.iter().skip(1));
                let squared = segments.map(|(&a, &b)| squared_distance_to_segment(p, a, b));
                squared.fold(f32::INFINITY, f32::min).sqrt() - radius
            }
        }
    }

    /// How far the figure extends along a direction d: the largest p · d of its points p, d of any length.
    pub(crate) fn support(&self, d: Point) -> f32 {
        let along = |p: &Point| p[0] * d[0] + p[1] * d[1];
        match self {
            Self::Ellipse { center, radii, axis } => {
                let (u, v) = (axis[0] * d[0] + axis[1] * d[1], axis[0] * d[1] - axis[1] * d[0]);
                along(center) + (radii[0] * u).hypot(radii[1] * v)
            }
            Self::Polygon { vertices: points, radius } | Self::Stroke { points, radius } => {
                let farthest = points.iter().map(along).fold(f32::NEG_INFINITY, f32::max);
                farthest + radius * d[0].hypot(d[1])
            }
        }
    }

    /// The smallest upright rectangle around the figure.
    pub(crate) fn extent(&self) -> Extent {
        let most = |d: Point| self.support(d);
        [-most([-1.0, 0.0]), -most([0.0, -1.0]), most([1.0, 0.0]), most([0.0, 1.0])]
    }

    /// The figure moved by `offset`.
    pub(crate) fn translated(mut self, offset: Point) -> Self {
        let shift = |p: &mut Point| *p = [p[0] + offset[0], p[1] + offset[1]];
        match &mut self {
            Self::Ellipse { center, .. } => shift(center),
            Self::Polygon { vertices: points, .. } | Self::Stroke { points, .. } => {
                points.iter_mut().for_each(shift);
            }
        }
        self
    }
}

/// The extent of nothing: the neutral element of [`hull`].
pub(crate) const EMPTY: Extent = [f32::INFINITY, f32::INFINITY, f32::NEG_INFINITY, f32::NEG_INFINITY];

/// The smallest extent around two.
pub(crate) fn hull(a: Extent, b: Extent) -> Extent {
    [a[0].min(b[0]), a[1].min(b[1]), a[2].max(b[2]), a[3].max(b[3])]
}

/// √(a² + b²) without the care of `hypot` for overflow, which costs a call.
fn length(a: f32, b: f32) -> f32 {
    (a * a + b * b).sqrt()
}

fn squared_distance_to_segment(p: Point, a: Point, b: Point) -> f32 {
    let along = [b[0] - a[0], b[1] - a[1]];
    let from = [p[0] - a[0], p[1] - a[1]];
    let length2 = along[0] * along[0] + along[1] * along[1];
    let t = if length2 > 0.0 { (from[0] * along[0] + from[1] * along[1]) / length2 } else { 0.0 };
    let t = t.clamp(0.0, 1.0);
    let rest = [from[0] - t * along[0], from[1] - t * along[1]];
    rest[0] * rest[0] + rest[1] * rest[1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_match_closed_forms() {
        let circle = Primitive::Ellipse { center: [1.0, 2.0], radii: [3.0, 3.0], axis: [0.6, 0.8] };
        assert!((circle.distance([1.0, 7.0]) - 2.0).abs() < 1e-5);
        assert!((circle.distance([1.0, 2.0]) + 3.0).abs() < 1e-5);
        let square =
            Primitive::Polygon { vertices: vec![[0., 0.], [4., 0.], [4., 4.], [0., 4.]], radius: 1.0 };
        assert!((square.distance([2.0, 2.0]) + 3.0).abs() < 1e-6);
        assert!((square.distance([7.0, 8.0]) - 4.0).abs() < 1e-6);
        let stroke = Primitive::Stroke { points: vec![[0., 0.], [4., 0.], [4., 3.]], radius: 0.5 };
        assert!((stroke.distance([2.0, 2.0]) - 1.5).abs() < 1e-6);
    }

    #[test]
    fn extents_touch_the_edge() {
        let tilted = Primitive::Ellipse { center: [0., 0.], radii: [5., 2.], axis: [0.8, 0.6] };
        let polygon = Primitive::Polygon { vertices: vec![[0., 0.], [6., 1.], [3., 5.]], radius: 0.5 };
        for figure in [tilted, polygon.translated([1.5, -2.5])] {
            let e = figure.extent();
            // The least distance along each side of the extent is zero: the side touches and does not cut.
            let along = |f: &dyn Fn(f32) -> Point| {
                (0..=2000).map(|i| figure.distance(f(i as f32 / 2000.0))).fold(f32::INFINITY, f32::min)
            };
            let (w, h) = (e[2] - e[0], e[3] - e[1]);
            for least in [
                along(&|t| [e[0], e[1] + t * h]),
                along(&|t| [e[2], e[1] + t * h]),
                along(&|t| [e[0] + t * w, e[1]]),
                along(&|t| [e[0] + t * w, e[3]]),
            ] {
                assert!(least.abs() < 1e-2, "{least} for {figure:?}");
            }
        }
    }
}
