//! Coverage of silhouettes on the pixel grid.

use super::primitive::{EMPTY, Extent, Point, Primitive, hull};
use super::shape::Silhouette;

/// A window of whole pixels that may reach beyond the image: left, top, width, height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) x: i32,
    pub(crate) y: i32,
    pub(crate) width: i32,
    pub(crate) height: i32,
}

impl Window {
    /// The pixels that an extent touches, and `margin` more on each side.
    pub(crate) fn around(extent: Extent, margin: f32) -> Self {
        let (x, y) = ((extent[0] - margin).floor() as i32, (extent[1] - margin).floor() as i32);
        let (x1, y1) = ((extent[2] + margin).ceil() as i32, (extent[3] + margin).ceil() as i32);
        Self { x, y, width: (x1 - x).max(0), height: (y1 - y).max(0) }
    }

    /// The whole image.
    pub(crate) fn image(width: usize, height: usize) -> Self {
        Self { x: 0, y: 0, width: width as i32, height: height as i32 }
    }

    /// The common pixels of two windows, possibly none.
    pub(crate) fn intersection(self, other: Self) -> Self {
        let (x, y) = (self.x.max(other.x), self.y.max(other.y));
        let x1 = (self.x + self.width).min(other.x + other.width);
        let y1 = (self.y + self.height).min(other.y + other.height);
        Self { x, y, width: (x1 - x).max(0), height: (y1 - y).max(0) }
    }

    /// The number of pixels.
    pub(crate) fn len(self) -> usize {
        self.width as usize * self.height as usize
    }

    /// The place of row `y`, column `x` (image coordinates, inside the window) in row-major order.
    pub(crate) fn offset(self, x: i32, y: i32) -> usize {
        ((y - self.y) * self.width + (x - self.x)) as usize
    }
}

/// Coverage in 0..=1 of each pixel of a window, body and protrusion apart.
#[derive(Clone, Debug)]
pub(crate) struct Mask {
    pub(crate) window: Window,
    /// The body's coverage.
    pub(crate) body: Vec<f32>,
    /// The protrusion's coverage where the body does not cover; empty without one.
    pub(crate) protrusion: Vec<f32>,
    /// Signed distance of the pixel's centre to the body's edge where the body covers, else 0.
    pub(crate) distance: Vec<f32>,
}

impl Mask {
    /// Coverage of the silhouette over all pixels it touches, also those outside the image.
    pub(crate) fn new(silhouette: &Silhouette) -> Self {
        let window = Window::around(silhouette.extent(), 1.0);
        let (mut body, mut distance) = (vec![0.0; window.len()], vec![0.0; window.len()]);
        scan(
            window,
            |p| silhouette.body_distance(p),
            |index, cover, d| {
                body[index] = cover;
                distance[index] = d;
            },
        );
        let protrusion = match &silhouette.protrusion {
            None => Vec::new(),
            Some(thin) => protrusion_coverage(thin, window, &body),
        };
        Self { window, body, protrusion, distance }
    }

    /// The extent of the silhouette's part inside the image, to 1/16 pixel where the image cuts the
    /// silhouette and exact where it does not. Cutting first matters: a part outside the image must not widen
    /// the box inside.
    pub(crate) fn extent_inside(&self, silhouette: &Silhouette, image: Window) -> Extent {
        let whole = silhouette.extent();
        let [right, bottom] = [image.x + image.width, image.y + image.height].map(|side| side as f32);
        if whole[0] >= 0.0 && whole[1] >= 0.0 && whole[2] <= right && whole[3] <= bottom {
            return whole;
        }
        let pixels = self.covered_pixels(image);
        let [left, top, right, bottom] = pixels;
        let covers = |p: Point| silhouette.distance(p) < 0.0;
        // Whether a line through the outermost pixels meets the silhouette: of x = at, or of y = at.
        let column = |at: f32| samples(top, bottom, 4.0).any(|y| covers([at, y]));
        let row = |at: f32| samples(left, right, 4.0).any(|x| covers([x, at]));
        [
            first_hit(left, 1.0, column).max(whole[0]),
            first_hit(top, 1.0, row).max(whole[1]),
            first_hit(right, -1.0, column).min(whole[2]),
            first_hit(bottom, -1.0, row).min(whole[3]),
        ]
    }

    /// The extent of the pixels inside the image that are covered at least in part; all zero if there is
    /// none.
    pub(crate) fn covered_pixels(&self, image: Window) -> Extent {
        let seen = self.window.intersection(image);
        let mut extent = EMPTY;
        for y in seen.y..seen.y + seen.height {
            for x in seen.x..seen.x + seen.width {
                if self.whole(self.window.offset(x, y)) > 0.0 {
                    let (x, y) = (x as f32, y as f32);
                    extent = hull(extent, [x, y, x + 1.0, y + 1.0]);
                }
            }
        }
        if extent == EMPTY { [0.0; 4] } else { extent }
    }

    /// Coverage of the whole silhouette at an index of the window.
    pub(crate) fn whole(&self, index: usize) -> f32 {
        self.body[index] + self.protrusion.get(index).copied().unwrap_or(0.0)
    }
}

/// The middles of intervals of `1 / per_pixel` from `low` to `high`.
fn samples(low: f32, high: f32, per_pixel: f32) -> impl Iterator<Item = f32> {
    (0..((high - low) * per_pixel) as u16).map(move |i| low + (f32::from(i) + 0.5) / per_pixel)
}

/// From `edge` at most a pixel in `direction` until the line meets the silhouette.
fn first_hit(edge: f32, direction: f32, meets: impl Fn(f32) -> bool) -> f32 {
    let hit = samples(0.0, 1.0, 16.0).find(|&t| meets(edge + direction * t));
    // The silhouette begins half an interval before the first sample that meets it.
    edge + direction * (hit.map_or(1.0, |t| t - 0.5 / 16.0))
}

fn protrusion_coverage(thin: &Primitive, window: Window, body: &[f32]) -> Vec<f32> {
    let mut cover = vec![0.0; window.len()];
    scan(window, |p| thin.distance(p), |index, value, _| cover[index] = value.min(1.0 - body[index]));
    cover
}

/// Visits the pixels of a window that a figure covers, with index, coverage and distance at the centre.
/// Pixels that the distance proves to lie outside are skipped.
pub(crate) fn scan(
    window: Window,
    distance: impl Fn([f32; 2]) -> f32,
    mut visit: impl FnMut(usize, f32, f32),
) {
    for y in window.y..window.y + window.height {
        let mut x = window.x;
        while x < window.x + window.width {
            let d = distance([x as f32 + 0.5, y as f32 + 0.5]);
            if d > NEAR {
                x += 1 + (d - NEAR) as i32;
                continue;
            }
            visit(window.offset(x, y), coverage([x as f32, y as f32], d, &distance), d);
            x += 1;
        }
    }
}

/// An edge farther than this from a pixel's centre leaves the pixel alone: its corners are at 0.71, and the
/// rest allows for an ellipse's approximate distance inside.
const NEAR: f32 = 0.8;

/// The covered part of the pixel with the given corner, by 4x4 samples where the edge is near.
fn coverage([x, y]: [f32; 2], at_center: f32, distance: impl Fn([f32; 2]) -> f32) -> f32 {
    const SIDE: u8 = 4;
    if at_center < -NEAR {
        return 1.0;
    }
    let step = |i: u8| (f32::from(i) + 0.5) / f32::from(SIDE);
    let mut inside = 0u8;
    for j in 0..SIDE {
        for i in 0..SIDE {
            inside += u8::from(distance([x + step(i), y + step(j)]) < 0.0);
        }
    }
    f32::from(inside) / f32::from(SIDE * SIDE)
}
