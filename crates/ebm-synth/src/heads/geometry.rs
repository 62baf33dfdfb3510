//! Ellipsoids seen along parallel rays, and the rotation of a head.
//!
//! Coordinates are right, up and towards the viewer, of the picture or of a head that looks straight at the
//! viewer. The unit is about half the height of a head.

/// Right, up, towards the viewer.
pub(super) type Vec3 = [f32; 3];

pub(super) fn dot(a: Vec3, b: Vec3) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

pub(super) fn normalised(a: Vec3) -> Vec3 {
    let scale = 1.0 / dot(a, a).sqrt().max(1e-12);
    a.map(|value| value * scale)
}

/// The length of `a`; `f32::hypot` is slower as it guards against overflow.
pub(super) fn length(a: [f32; 2]) -> f32 {
    (a[0] * a[0] + a[1] * a[1]).sqrt()
}

/// 0 up to `from`, 1 beyond `to`, smooth in between.
pub(super) fn smoothstep(from: f32, to: f32, value: f32) -> f32 {
    let t = ((value - from) / (to - from)).clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}

/// The point at `t` of the way from `a` to `b`.
pub(super) fn mix(a: f32, b: f32, t: f32) -> f32 {
    a + (b - a) * t
}

/// Distance of `p` from the segment between `a` and `b`.
pub(super) fn segment_distance(p: [f32; 2], a: [f32; 2], b: [f32; 2]) -> f32 {
    let (along, to) = ([b[0] - a[0], b[1] - a[1]], [p[0] - a[0], p[1] - a[1]]);
    let square = (along[0] * along[0] + along[1] * along[1]).max(1e-12);
    let t = ((to[0] * along[0] + to[1] * along[1]) / square).clamp(0.0, 1.0);
    length([to[0] - t * along[0], to[1] - t * along[1]])
}

/// A rotation from the coordinates of a head to those of the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct View {
    rows: [Vec3; 3],
}

impl View {
    /// No rotation.
    pub(super) const FRONTAL: Self = Self { rows: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]] };

    /// Roll about the axis of sight, then yaw about the vertical, then pitch about the horizontal; yaw, pitch
    /// and roll in degrees, with the signs of the [module](super).
    pub(super) fn of_pose(pose: [f32; 3]) -> Self {
        let [(sy, cy), (sp, cp), (sr, cr)] = pose.map(|degrees| degrees.to_radians().sin_cos());
        Self {
            rows: [
                [cy * cr, cy * sr, -sy],
                [sp * sy * cr - cp * sr, sp * sy * sr + cp * cr, sp * cy],
                [cp * sy * cr + sp * sr, cp * sy * sr - sp * cr, cp * cy],
            ],
        }
    }

    /// Where the head's `p` is in the picture.
    pub(super) fn to_picture(self, p: Vec3) -> Vec3 {
        self.rows.map(|row| dot(row, p))
    }

    /// Where the picture's `p` is on the head.
    pub(super) fn to_head(self, p: Vec3) -> Vec3 {
        [0, 1, 2].map(|c| self.rows[0][c] * p[0] + self.rows[1][c] * p[1] + self.rows[2][c] * p[2])
    }
}

/// An ellipsoid whose axes are those of the head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ellipsoid {
    pub(super) center: Vec3,
    pub(super) radii: Vec3,
}

/// An ellipsoid (p − c)ᵀA(p − c) = 1 in the coordinates of the picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quadric {
    center: Vec3,
    matrix: [Vec3; 3],
    /// How far it reaches from its centre to the right, up and towards the viewer.
    reach: Vec3,
}

impl Quadric {
    /// `ellipsoid` turned by `view` about the origin.
    pub(super) fn new(ellipsoid: &Ellipsoid, view: View) -> Self {
        let product = |weights: Vec3, i: usize, j: usize| -> f32 {
            (0..3).map(|k| view.rows[i][k] * weights[k] * view.rows[j][k]).sum()
        };
        let squares = ellipsoid.radii.map(|radius| radius * radius);
        let inverse = squares.map(|square| 1.0 / square);
        Self {
            center: view.to_picture(ellipsoid.center),
            matrix: [0, 1, 2].map(|i| [0, 1, 2].map(|j| product(inverse, i, j))),
            reach: [0, 1, 2].map(|i| product(squares, i, i).sqrt()),
        }
    }

    /// The place of its point that is nearest to the viewer.
    pub(super) fn front(&self) -> f32 {
        self.center[2] + self.reach[2]
    }

    /// Whether the row of the picture at height `y` can meet it.
    pub(super) fn meets_row(&self, y: f32) -> bool {
        (y - self.center[1]).abs() <= self.reach[1]
    }

    /// Where the ray through `(x, y)` enters and where it leaves it: how far towards the viewer.
    pub(super) fn hits(&self, x: f32, y: f32) -> Option<[f32; 2]> {
        let (dx, dy) = (x - self.center[0], y - self.center[1]);
        if dx.abs() > self.reach[0] {
            return None;
        }
        let [a, b, c] = self.matrix;
        let linear = a[2] * dx + b[2] * dy;
        let constant = a[0] * dx * dx + 2.0 * a[1] * dx * dy + b[1] * dy * dy - 1.0;
        let square = linear * linear - c[2] * constant;
        (square >= 0.0).then(|| {
            let root = square.sqrt();
            [root, -root].map(|root| self.center[2] + (root - linear) / c[2])
        })
    }

    /// The unit normal at `p` on the surface.
    pub(super) fn normal(&self, p: Vec3) -> Vec3 {
        let d = [0, 1, 2].map(|i| p[i] - self.center[i]);
        normalised(self.matrix.map(|row| dot(row, d)))
    }

    /// The approximate distance of `p` outside, and the unit normal there; `None` if `p` is more than an
    /// ellipsoid's size away.
    pub(super) fn near(&self, p: Vec3) -> Option<(f32, Vec3)> {
        let d = [0, 1, 2].map(|i| p[i] - self.center[i]);
        let gradient = self.matrix.map(|row| dot(row, d));
        let square = dot(d, gradient);
        if square > 4.0 {
            return None;
        }
        let (level, slope) = (square.sqrt(), dot(gradient, gradient).sqrt().max(1e-12));
        Some((level * (level - 1.0) / slope, gradient.map(|value| value / slope)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// yaw, pitch and roll by the formulas of the dataset's preparation.
    fn angles(r: [[f32; 3]; 3]) -> [f32; 3] {
        let yaw = -(-r[2][0]).atan2(r[2][1].hypot(r[2][2]));
        [yaw, r[2][1].atan2(r[2][2]), -r[1][0].atan2(r[0][0])].map(f32::to_degrees)
    }

    #[test]
    fn the_rotation_has_the_angles_of_the_biwi_formulas() {
        for pose in [[0.0, 0.0, 0.0], [40.0, 0.0, 0.0], [-75.0, 60.0, 50.0], [30.0, -20.0, 10.0]] {
            let rows = View::of_pose(pose).rows;
            // BIWI's axes are right, down and away; the formulas take the transposed matrix.
            let sign = [1.0, -1.0, -1.0];
            let r = [0, 1, 2].map(|i| [0, 1, 2].map(|j| sign[i] * sign[j] * rows[j][i]));
            let found = angles(r);
            assert!(found.iter().zip(pose).all(|(a, b)| (a - b).abs() < 1e-3), "{pose:?} became {found:?}");
        }
    }

    #[test]
    fn signs_are_as_described() {
        let nose = |pose| View::of_pose(pose).to_picture([0.0, 0.0, 1.0]);
        assert!(nose([30.0, 0.0, 0.0])[0] < -0.4, "positive yaw turns the face to the picture's left");
        assert!(nose([0.0, 30.0, 0.0])[1] > 0.4, "positive pitch turns the face up");
        let crown = View::of_pose([0.0, 0.0, 30.0]).to_picture([0.0, 1.0, 0.0]);
        assert!(crown[0] > 0.4, "positive roll tilts the crown to the picture's right");
    }

    #[test]
    fn views_are_rotations() {
        let view = View::of_pose([50.0, -35.0, 20.0]);
        let p = [0.3, -0.7, 0.4];
        let back = view.to_head(view.to_picture(p));
        assert!(back.iter().zip(p).all(|(a, b)| (a - b).abs() < 1e-6));
    }

    #[test]
    fn hits_lie_on_the_ellipsoid() {
        let ellipsoid = Ellipsoid { center: [0.2, -0.1, 0.3], radii: [0.5, 0.9, 0.7] };
        let view = View::of_pose([25.0, 15.0, -30.0]);
        let quadric = Quadric::new(&ellipsoid, view);
        let mut hits = 0;
        for (i, j) in (-15..15).flat_map(|i| (-15..15).map(move |j| (i, j))) {
            let (x, y) = (i as f32 * 0.08, j as f32 * 0.08);
            let Some([z, far]) = quadric.hits(x, y) else { continue };
            assert!(far <= z);
            assert!(quadric.meets_row(y) && z <= quadric.front() + 1e-5);
            let p = view.to_head([x, y, z]);
            let level: f32 =
                (0..3).map(|c| ((p[c] - ellipsoid.center[c]) / ellipsoid.radii[c]).powi(2)).sum();
            assert!((level - 1.0).abs() < 1e-4);
            let (distance, normal) = quadric.near([x, y, z]).unwrap();
            let same = quadric.normal([x, y, z]);
            assert!((dot(normal, same) - 1.0).abs() < 1e-5);
            assert!(distance.abs() < 1e-4 && normal[2] > -1e-3, "the nearer of two hits faces the viewer");
            hits += 1;
        }
        assert!(hits > 100);
    }
}
