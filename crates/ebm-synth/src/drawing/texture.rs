//! Colours and patterns, in linear light.

use std::f32::consts::PI;

use ebm_seed::Rng;
use rand::Rng as _;

use super::noise::{fractal, lerp, smooth, split};
use super::primitive::Point;

/// Red, green and blue, proportional to light, 0..=1.
pub(crate) type Rgb = [f32; 3];

#[derive(Clone, Copy, Debug)]
enum Pattern {
    Plain,
    Noise,
    Stripes,
    Checker,
    Dots,
}

/// A pattern of two colours.
#[derive(Clone, Debug)]
pub(crate) struct Texture {
    pattern: Pattern,
    colors: [Rgb; 2],
    /// Periods per pixel.
    frequency: f32,
    axis: Point,
    phase: Point,
    seed: u32,
}

impl Texture {
    /// A random pattern whose period is about `period` pixels, between a random colour that differs from
    /// `surround` and a second one; `strength` (0..=1) is how far the second may be from the first.
    pub(crate) fn draw(surround: Rgb, period: f32, strength: f32, rng: &mut Rng) -> Self {
        let first = contrasting(surround, rng);
        let second = mix(first, random_color(rng), strength * rng.random_range(0.25..=0.9));
        let pattern = match rng.random_range(0u8..8) {
            0 | 1 => Pattern::Plain,
            2 | 3 => Pattern::Noise,
            4 | 5 => Pattern::Stripes,
            6 => Pattern::Checker,
            _ => Pattern::Dots,
        };
        let (sin, cos) = rng.random_range(-PI..=PI).sin_cos();
        Self {
            pattern,
            colors: [first, second],
            // A period of fewer than 4 pixels would alias.
            frequency: 1.0 / (period * rng.random_range(0.7..=1.4)).max(4.0),
            axis: [cos, sin],
            phase: [rng.random_range(0.0..=1.0), rng.random_range(0.0..=1.0)],
            seed: rng.random(),
        }
    }

    /// The colour at an offset in pixels from the figure's centre.
    pub(crate) fn color(&self, [x, y]: Point) -> Rgb {
        let [cos, sin] = self.axis;
        let u = self.frequency * (x * cos + y * sin) + self.phase[0];
        let v = self.frequency * (y * cos - x * sin) + self.phase[1];
        let t = match self.pattern {
            Pattern::Plain => 0.15 * fractal(u, v, 1, self.seed),
            Pattern::Noise => smooth(fractal(1.6 * u, 1.6 * v, 2, self.seed)),
            Pattern::Stripes => square_wave(u),
            Pattern::Checker => {
                let (a, b) = (square_wave(u), square_wave(v));
                a + b - 2.0 * a * b
            }
            Pattern::Dots => {
                let (a, b) = (split(u).1 - 0.5, split(v).1 - 0.5);
                let r = (a * a + b * b).sqrt();
                smooth(((r - 0.2) * 4.0).clamp(0.0, 1.0))
            }
        };
        mix(self.colors[0], self.colors[1], t)
    }
}

/// A wave of period 1 between 0 and 1 with soft flanks, a quarter of the period each.
fn square_wave(u: f32) -> f32 {
    let triangle = (2.0 * split(u).1 - 1.0).abs();
    smooth((2.0 * triangle - 0.5).clamp(0.0, 1.0))
}

/// The colour at `t` of the way from `a` to `b`.
pub(crate) fn mix(a: Rgb, b: Rgb, t: f32) -> Rgb {
    [0, 1, 2].map(|c| lerp(a[c], b[c], t))
}

/// A random colour, uniform in hue, of any lightness.
pub(crate) fn random_color(rng: &mut Rng) -> Rgb {
    let hue = rng.random_range(0.0f32..6.0);
    let saturation = rng.random_range(0.1f32..=0.85);
    let value = rng.random_range(0.2f32..=0.95);
    [0.0f32, 4.0, 2.0].map(|shift| {
        let wave = ((hue + shift) % 6.0 - 3.0).abs() - 1.0;
        let encoded = value * (1.0 - saturation * (1.0 - wave.clamp(0.0, 1.0)));
        // A square is close enough to the sRGB curve for drawing colours evenly.
        encoded * encoded
    })
}

fn contrasting(surround: Rgb, rng: &mut Rng) -> Rgb {
    const ENOUGH: f32 = 0.3;
    let mut best = (0.0, surround);
    for _ in 0..8 {
        let color = random_color(rng);
        let difference = contrast(color, surround);
        if difference > ENOUGH {
            return color;
        }
        if difference > best.0 {
            best = (difference, color);
        }
    }
    best.1
}

/// The distance of two colours after a square root, which is roughly how the encoded image shows it.
pub(crate) fn contrast(a: Rgb, b: Rgb) -> f32 {
    [0, 1, 2].map(|c| (a[c].sqrt() - b[c].sqrt()).powi(2)).iter().sum::<f32>().sqrt()
}
