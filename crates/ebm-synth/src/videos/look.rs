//! A figure with its texture and decals, drawn under an affine map.

use ebm_seed::Rng;
use rand::Rng as _;

use super::affine::Affine;
use crate::drawing::layer::{Blur, Canvas, Layer};
use crate::drawing::mask::{Window, scan};
use crate::drawing::primitive::{Point, Primitive};
use crate::drawing::shape::{Category, Silhouette};
use crate::drawing::texture::{Rgb, Texture, mix, random_color};

/// A figure around the origin of its own coordinates, and how it looks.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) figure: Silhouette,
    /// Half its nominal diameter.
    pub(super) radius: f32,
    texture: Texture,
    /// Figures of one colour on it, which tell parts of it apart.
    decals: Vec<(Primitive, Rgb)>,
    /// How much darker the edge is than the middle, 0..=1.
    rim: f32,
}

impl Look {
    /// An object of the category that contrasts with `surround`.
    pub(super) fn of_object(category: Category, radius: f32, surround: Rgb, rng: &mut Rng) -> Self {
        let figure = Silhouette::draw(category, radius, rng);
        let texture = Texture::draw(surround, rng.random_range(0.4..=0.7) * radius, 1.0, rng);
        Self { figure, radius, texture, decals: decals(radius, rng), rim: rng.random_range(0.0..=0.4) }
    }

    /// Another object of the same category, with the same pattern in similar colours.
    pub(super) fn similar(&self, category: Category, rng: &mut Rng) -> Self {
        let radius = self.radius * rng.random_range(0.8..=1.2);
        Self {
            figure: Silhouette::draw(category, radius, rng),
            radius,
            texture: self.texture.varied(rng.random_range(0.05..=0.3), rng),
            decals: decals(radius, rng),
            rim: self.rim,
        }
    }

    /// Something that passes in front of the target.
    pub(super) fn of_occluder(figure: Silhouette, radius: f32, surround: Rgb, rng: &mut Rng) -> Self {
        let texture = Texture::draw(surround, rng.random_range(6.0..=16.0), 0.8, rng);
        Self { figure, radius, texture, decals: Vec::new(), rim: rng.random_range(0.0..=0.3) }
    }

    /// Draws the figure; of what `blur` carries into the canvas nothing is lost.
    pub(super) fn draw(&self, map: &Affine, blur: Blur, canvas: &mut Canvas) {
        let margin = blur.reach() + 1.0;
        let image = [0.0, 0.0, canvas.width as f32, canvas.height as f32];
        let window =
            Window::around(map.extent(&self.figure), margin).intersection(Window::around(image, margin));
        if window.len() == 0 {
            return;
        }
        let mut layer = Layer::new(window);
        // The figure's own distance times the least stretch is nowhere more than the distance in pixels, as
        // `scan` demands.
        let (inverse, stretch) = (map.inverse(), map.least_stretch());
        let distance = |p: Point| stretch * self.figure.distance(inverse.apply(p));
        scan(window, distance, |index, cover, distance| {
            let (column, row) = (index as i32 % window.width, index as i32 / window.width);
            let p = [(window.x + column) as f32 + 0.5, (window.y + row) as f32 + 0.5];
            let [r, g, b] = self.color(inverse.apply(p), distance / stretch, stretch);
            layer.pixels[index] = [r * cover, g * cover, b * cover, cover];
        });
        canvas.draw(&layer.blurred(blur));
    }

    /// The colour at a point of the figure's coordinates, at this distance from its edge, of which one unit
    /// is `stretch` pixels.
    fn color(&self, p: Point, distance: f32, stretch: f32) -> Rgb {
        let mut color = self.texture.color(p);
        for (figure, tone) in &self.decals {
            // One pixel of transition keeps the edge from aliasing.
            color = mix(color, *tone, (0.5 - stretch * figure.distance(p)).clamp(0.0, 1.0));
        }
        let mut shade = 1.0;
        for (mark, tone) in &self.figure.marks {
            shade *= 1.0 + (tone - 1.0) * (0.5 - stretch * mark.distance(p)).clamp(0.0, 1.0);
        }
        let rim = (1.0 + distance / (0.35 * self.radius)).clamp(0.0, 1.0);
        color.map(|value| value * shade * (1.0 - self.rim * rim * rim))
    }
}

/// Two to four ellipses and bars.
fn decals(radius: f32, rng: &mut Rng) -> Vec<(Primitive, Rgb)> {
    let count = rng.random_range(2u8..=4);
    let mut decal = || {
        let at = [(); 2].map(|()| radius * rng.random_range(-0.6..=0.6));
        let (sin, cos) = rng.random_range(0.0..=std::f32::consts::PI).sin_cos();
        let long = radius * rng.random_range(0.15..=0.4);
        let figure = if rng.random_bool(0.5) {
            let radii = [long, long * rng.random_range(0.4..=1.0)];
            Primitive::Ellipse { center: at, radii, axis: [cos, sin] }
        } else {
            let points = [-1.0, 1.0].map(|t| [at[0] + t * long * cos, at[1] + t * long * sin]);
            Primitive::Stroke { points: points.to_vec(), radius: radius * rng.random_range(0.05..=0.12) }
        };
        (figure, random_color(rng))
    };
    (0..count).map(|_| decal()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebm_seed::Key;

    /// The drawn pixels reach each side of the box and do not go beyond it.
    #[test]
    fn the_extent_is_tight_around_what_is_drawn() {
        let (width, height) = (120, 100);
        for seed in 0..40 {
            let mut rng = Key::new(seed).rng();
            let category = Category::ALL[rng.random_range(0..Category::ALL.len())];
            let look = Look::of_object(category, rng.random_range(8.0..=20.0), [0.2; 3], &mut rng);
            let place = [60.0 + rng.random_range(-1.0..=1.0), 50.0 + rng.random_range(-1.0..=1.0)];
            let map = Affine::new(
                place,
                rng.random_range(0.7..=1.1),
                rng.random_range(-3.0..=3.0),
                rng.random_range(-0.3..=0.3),
                1.0,
            );
            // No texture is of this colour.
            let none = [-1.0; 3];
            let mut canvas = Canvas { width, height, pixels: vec![none; width * height] };
            look.draw(&map, Blur::Motion([0.0; 2]), &mut canvas);
            let extent = map.extent(&look.figure);
            let drawn: Vec<Point> = (0..width * height)
                .filter(|&index| canvas.pixels[index] != none)
                .map(|index| [(index % width) as f32, (index / width) as f32])
                .collect();
            for axis in 0..2 {
                let first = drawn.iter().map(|p| p[axis]).fold(f32::INFINITY, f32::min);
                let last = drawn.iter().map(|p| p[axis]).fold(0.0, f32::max) + 1.0;
                // A tip narrower than a pixel may cover none of a pixel's 16 samples.
                assert!((-1.0..2.0).contains(&(first - extent[axis])), "{category:?} {first} {extent:?}");
                assert!((-2.0..1.0).contains(&(last - extent[axis + 2])), "{category:?} {last} {extent:?}");
            }
        }
    }
}
