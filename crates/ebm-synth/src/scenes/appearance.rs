//! How one silhouette looks: texture, shading, what becomes of its edges.

use std::f32::consts::TAU;

use ebm_seed::Rng;
use rand::Rng as _;

use super::config::SceneConfig;
use super::layout::Placed;
use crate::drawing::layer::{Blur, Canvas, Layer};
use crate::drawing::mask::Window;
use crate::drawing::noise::smooth;
use crate::drawing::primitive::{Extent, Point};
use crate::drawing::texture::{Rgb, Texture, mix};

/// Shadows fall this far from their object, in units of its scale.
const SHADOW_OFFSET: f32 = 0.18;

/// The look of one silhouette.
#[derive(Clone, Debug)]
pub(crate) struct Appearance {
    texture: Texture,
    /// Relative change of brightness per nominal radius.
    gradient: Point,
    /// How much darker the edge is than the middle, 0..=1.
    rim: f32,
    fade: Option<Fade>,
    /// Opacity of the thin part.
    protrusion: f32,
    blur: Blur,
    /// Darkness of the shadow, 0 for none.
    shadow: f32,
}

/// One side of an object that is hard to see: from `start` along `normal`, weight falls over `length` pixels
/// to `floor`.
#[derive(Clone, Debug)]
struct Fade {
    normal: Point,
    start: f32,
    length: f32,
    floor: f32,
    /// The colour that takes over; what is behind the object if `None`.
    into: Option<Rgb>,
}

impl Fade {
    /// The last 0.25 to 0.7 of the extent along a nearly horizontal or vertical direction fades.
    fn draw(extent: Extent, surround: Rgb, rng: &mut Rng) -> Self {
        let quarter = f32::from(rng.random_range(0u8..4));
        let (sin, cos) = (0.25 * TAU * quarter + rng.random_range(-0.35..=0.35)).sin_cos();
        let half = 0.5 * ((extent[2] - extent[0]) * cos.abs() + (extent[3] - extent[1]) * sin.abs());
        let center = 0.5 * ((extent[0] + extent[2]) * cos + (extent[1] + extent[3]) * sin);
        let length = 2.0 * half * rng.random_range(0.25..=0.7);
        Self {
            normal: [cos, sin],
            start: center + half - length,
            length,
            floor: rng.random_range(0.0..=0.2),
            into: rng.random_bool(0.5).then_some(surround),
        }
    }

    /// How much of the object is left at a point.
    fn weight(&self, p: Point) -> f32 {
        let t = ((p[0] * self.normal[0] + p[1] * self.normal[1] - self.start) / self.length).clamp(0.0, 1.0);
        1.0 - (1.0 - self.floor) * smooth(t)
    }
}

impl Appearance {
    /// The look of an annotated object on what is drawn so far.
    pub(crate) fn of_object(
        placed: &Placed,
        canvas: &Canvas,
        config: &SceneConfig,
        light: Point,
        rng: &mut Rng,
    ) -> Self {
        let surround = canvas.mean(Window::around(placed.extent, 4.0));
        let texture = Texture::draw(surround, 0.45 * placed.scale, 1.0, rng);
        let faint = f64::from(config.faint);
        let fade = rng.random_bool(faint).then(|| Fade::draw(placed.silhouette.extent(), surround, rng));
        let protrusion = if rng.random_bool(faint) { rng.random_range(0.03..=0.3) } else { 1.0 };
        let strength = rng.random_range(0.1..=0.4);
        Self {
            texture,
            gradient: [strength * light[0], strength * light[1]],
            rim: rng.random_range(0.0..=0.45),
            fade,
            protrusion,
            blur: draw_blur(config.blur.min(0.12 * placed.scale), rng),
            shadow: if rng.random_bool(0.5) { rng.random_range(0.2..=0.6) } else { 0.0 },
        }
    }

    /// The look of clutter or of a strip: no shading, and a blur of at most `blur` pixels.
    pub(crate) fn of_clutter(placed: &Placed, canvas: &Canvas, blur: f32, rng: &mut Rng) -> Self {
        let surround = canvas.mean(Window::around(placed.extent, 0.0));
        Self {
            texture: Texture::draw(surround, 9.0, 0.7, rng),
            gradient: [0.0, 0.0],
            rim: 0.0,
            fade: None,
            protrusion: 1.0,
            blur: Blur::Defocus(rng.random_range(0.0..=blur)),
            shadow: 0.0,
        }
    }

    /// Standard deviation of the blur, in pixels.
    pub(crate) fn blur_sigma(&self) -> f32 {
        self.blur.sigma()
    }

    /// Whether one side fades or takes the background's colour.
    pub(crate) fn has_fading_side(&self) -> bool {
        self.fade.is_some()
    }

    /// Opacity of the thin part, if there is one.
    pub(crate) fn protrusion_opacity(&self, placed: &Placed) -> Option<f32> {
        placed.silhouette.protrusion.as_ref().map(|_| self.protrusion)
    }

    /// Draws the silhouette, and its shadow under it, on the canvas.
    pub(crate) fn draw(&self, placed: &Placed, canvas: &mut Canvas, light: Point) {
        if self.shadow > 0.0 {
            canvas.draw(&self.shadow_layer(placed, canvas, light));
        }
        let mut layer = Layer::new(window_for(placed, self.blur, [0.0, 0.0], canvas));
        let center = placed.center();
        fill(&mut layer, placed, [0, 0], |p, index| {
            let body = placed.mask.body[index];
            let thin = self.protrusion * placed.mask.protrusion.get(index).copied().unwrap_or(0.0);
            let mut alpha = body + thin;
            let mut color = self.color(placed, p, center, placed.mask.distance[index]);
            if let Some(fade) = &self.fade {
                let weight = fade.weight(p);
                match fade.into {
                    Some(into) => color = mix(into, color, weight),
                    None => alpha *= weight,
                }
            }
            [color[0] * alpha, color[1] * alpha, color[2] * alpha, alpha]
        });
        canvas.draw(&layer.blurred(self.blur));
    }

    fn color(&self, placed: &Placed, p: Point, center: Point, distance: f32) -> Rgb {
        let (dx, dy) = ((p[0] - center[0]) / placed.scale, (p[1] - center[1]) / placed.scale);
        let rim = (1.0 + distance / (0.35 * placed.scale)).clamp(0.0, 1.0);
        let lit = (1.0 + self.gradient[0] * dx + self.gradient[1] * dy).max(0.3);
        let mut shade = lit * (1.0 - self.rim * rim * rim);
        for (mark, tone) in &placed.silhouette.marks {
            // One pixel of transition keeps the mark's edge from aliasing.
            shade *= 1.0 + (tone - 1.0) * (0.5 - mark.distance(p)).clamp(0.0, 1.0);
        }
        self.texture.color([p[0] - center[0], p[1] - center[1]]).map(|value| value * shade)
    }

    fn shadow_layer(&self, placed: &Placed, canvas: &Canvas, light: Point) -> Layer {
        let blur = Blur::Defocus(self.blur.sigma() + 0.06 * placed.scale);
        let offset = light.map(|component| (-component * SHADOW_OFFSET * placed.scale).round());
        let mut layer = Layer::new(window_for(placed, blur, offset, canvas));
        fill(&mut layer, placed, offset.map(|component| component as i32), |_, index| {
            [0.0, 0.0, 0.0, self.shadow * placed.mask.body[index]]
        });
        layer.blurred(blur)
    }
}

/// The pixels that a blurred silhouette can change, and those outside the image whose light reaches into it.
fn window_for(placed: &Placed, blur: Blur, offset: Point, canvas: &Canvas) -> Window {
    let [x0, y0, x1, y1] = placed.silhouette.extent();
    let moved = [x0 + offset[0], y0 + offset[1], x1 + offset[0], y1 + offset[1]];
    let image = [0.0, 0.0, canvas.width as f32, canvas.height as f32];
    Window::around(moved, blur.reach() + 1.0).intersection(Window::around(image, blur.reach() + 1.0))
}

/// Sets the layer's pixels where the mask, moved by `offset`, covers them; `pixel` gets the centre of a pixel
/// of the mask and its index.
fn fill(layer: &mut Layer, placed: &Placed, offset: [i32; 2], pixel: impl Fn(Point, usize) -> [f32; 4]) {
    let mask = &placed.mask;
    let moved = Window { x: mask.window.x + offset[0], y: mask.window.y + offset[1], ..mask.window };
    let common = moved.intersection(layer.window);
    for y in common.y..common.y + common.height {
        for x in common.x..common.x + common.width {
            let index = moved.offset(x, y);
            if mask.whole(index) > 0.0 {
                let center = [(x - offset[0]) as f32 + 0.5, (y - offset[1]) as f32 + 0.5];
                layer.pixels[layer.window.offset(x, y)] = pixel(center, index);
            }
        }
    }
}

/// A blur of at most `largest` pixels: small ones are more frequent, one in three is a motion.
fn draw_blur(largest: f32, rng: &mut Rng) -> Blur {
    let u: f32 = rng.random_range(0.0..=1.0);
    let sigma = largest * u * u;
    if rng.random_bool(1.0 / 3.0) {
        let (sin, cos) = rng.random_range(0.0..=TAU).sin_cos();
        let length = sigma * 12f32.sqrt();
        Blur::Motion([length * cos, length * sin])
    } else {
        Blur::Defocus(sigma)
    }
}
