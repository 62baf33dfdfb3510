//! Where a figure lies in a frame.

use crate::drawing::primitive::{Extent, Point};
use crate::drawing::shape::Silhouette;

/// `p ↦ matrix · p + offset`, from a figure's own coordinates to pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Affine {
    /// Rows.
    matrix: [Point; 2],
    offset: Point,
}

impl Affine {
    /// Stretched by `exp(aspect)` along the direction `axis` (radians) and shrunk by as much across it, then
    /// multiplied by `scale`, turned by `angle` and moved to `place`.
    pub(super) fn new(place: Point, scale: f32, angle: f32, aspect: f32, axis: f32) -> Self {
        let (sin, cos) = axis.sin_cos();
        let (along, across) = (aspect.exp(), (-aspect).exp());
        let stretch = [
            [along * cos * cos + across * sin * sin, (along - across) * sin * cos],
            [(along - across) * sin * cos, along * sin * sin + across * cos * cos],
        ];
        let (sin, cos) = angle.sin_cos();
        let turn = [[scale * cos, -scale * sin], [scale * sin, scale * cos]];
        Self { matrix: product(turn, stretch), offset: place }
    }

    pub(super) fn apply(&self, p: Point) -> Point {
        let [x, y] = multiply(self.matrix, p);
        [x + self.offset[0], y + self.offset[1]]
    }

    /// This map, and `next` after it.
    pub(super) fn then(&self, next: &Self) -> Self {
        Self { matrix: product(next.matrix, self.matrix), offset: next.apply(self.offset) }
    }

    pub(super) fn inverse(&self) -> Self {
        let [[a, b], [c, d]] = self.matrix;
        let determinant = a * d - b * c;
        let matrix = [[d / determinant, -b / determinant], [-c / determinant, a / determinant]];
        let [x, y] = multiply(matrix, self.offset);
        Self { matrix, offset: [-x, -y] }
    }

    /// The least factor by which a length grows: the smaller singular value.
    pub(super) fn least_stretch(&self) -> f32 {
        let [[a, b], [c, d]] = self.matrix;
        // Half the sum and half the difference of the singular values.
        let (sum, difference) = (0.5 * (a + d).hypot(b - c), 0.5 * (a - d).hypot(b + c));
        (sum - difference).abs()
    }

    /// The smallest upright rectangle around the whole figure, exact up to rounding: the extreme of
    /// `e · (M p + o)` lies where the figure extends farthest along `Mᵀ e`.
    pub(super) fn extent(&self, figure: &Silhouette) -> Extent {
        let [x, y] = self.matrix;
        let most = |direction: Point| figure.support(direction);
        [
            self.offset[0] - most([-x[0], -x[1]]),
            self.offset[1] - most([-y[0], -y[1]]),
            self.offset[0] + most(x),
            self.offset[1] + most(y),
        ]
    }
}

fn multiply(matrix: [Point; 2], p: Point) -> Point {
    matrix.map(|row| row[0] * p[0] + row[1] * p[1])
}

fn product(a: [Point; 2], b: [Point; 2]) -> [Point; 2] {
    a.map(|row| [0, 1].map(|column| row[0] * b[0][column] + row[1] * b[1][column]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::primitive::{EMPTY, hull};
    use crate::scenes::Category;
    use ebm_seed::Key;
    use rand::Rng as _;

    fn close(a: Point, b: Point) -> bool {
        (a[0] - b[0]).abs() < 1e-4 && (a[1] - b[1]).abs() < 1e-4
    }

    #[test]
    fn maps_compose_and_invert() {
        let (first, second) =
            (Affine::new([3.0, -4.0], 1.5, 0.7, 0.3, 1.1), Affine::new([1.0, 2.0], 0.8, -2.0, 0.1, 0.0));
        let p = [5.0, 7.0];
        assert!(close(first.then(&second).apply(p), second.apply(first.apply(p))));
        assert!(close(first.inverse().apply(first.apply(p)), p));
        assert!(close(
            Affine::new([1.0, 1.0], 2.0, 0.0, 0.5, 0.0).apply([1.0, 1.0]),
            [1.0 + 2.0 * 0.5f32.exp(), 1.0 + 2.0 * (-0.5f32).exp()]
        ));
        assert!(
            (Affine::new([0.0; 2], 2.0, 0.4, 0.5, 0.9).least_stretch() - 2.0 * (-0.5f32).exp()).abs() < 1e-5
        );
    }

    /// The box of all points of a fine grid that the figure covers is the extent up to a step of the grid.
    #[test]
    fn extents_are_those_of_rendered_masks() {
        const STEP: f32 = 0.125;
        for category in Category::ALL {
            for seed in 0..6 {
                let mut rng = Key::new(seed).rng();
                let figure = Silhouette::draw(category, 18.0, &mut rng);
                let mut random = |range: std::ops::RangeInclusive<f32>| rng.random_range(range);
                let map = Affine::new(
                    [random(-9.0..=9.0), random(-9.0..=9.0)],
                    random(0.6..=1.6),
                    random(-3.0..=3.0),
                    random(-0.4..=0.4),
                    random(-3.0..=3.0),
                );
                let (extent, inverse) = (map.extent(&figure), map.inverse());
                let mut found = EMPTY;
                let lines = |axis: usize| {
                    let first = extent[axis] - 2.0;
                    let count = ((extent[axis + 2] + 2.0 - first) / STEP) as u16;
                    (0..count).map(move |i| first + STEP * f32::from(i))
                };
                for y in lines(1) {
                    for p in lines(0).map(|x| [x, y]) {
                        if figure.distance(inverse.apply(p)) < 0.0 {
                            found = hull(found, [p[0], p[1], p[0], p[1]]);
                        }
                    }
                }
                for (exact, grid) in extent.into_iter().zip(found) {
                    // A sharp corner may lie between the grid's lines by more than a step.
                    assert!((exact - grid).abs() < 4.0 * STEP, "{category:?} {extent:?} {found:?}");
                }
                let loose = extent[0] > found[0] + 1e-3 || extent[2] < found[2] - 1e-3;
                assert!(!loose && extent[1] <= found[1] + 1e-3 && extent[3] >= found[3] - 1e-3);
            }
        }
    }
}
