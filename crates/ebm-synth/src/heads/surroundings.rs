//! What is behind a head and what is in front of it, in the plane of the picture.

use std::f32::consts::TAU;

use ebm_seed::{Key, Rng};
use rand::Rng as _;

use super::geometry::{mix, segment_distance};
use super::identity::{Rgb, blend, random_color, skin_color};
use super::noise::fractal;

/// Two colours mixed by noise, and a few slabs.
#[derive(Clone, Debug)]
pub(super) struct Backdrop {
    colors: [Rgb; 2],
    scale: f32,
    slabs: Vec<Slab>,
    seed: u32,
}

#[derive(Clone, Debug)]
struct Slab {
    center: [f32; 2],
    axis: [f32; 2],
    half: [f32; 2],
    color: Rgb,
}

impl Backdrop {
    /// A random one; against the light, `bright`, all of it is bright.
    pub(super) fn draw(bright: bool, key: Key) -> Self {
        let mut rng = key.split("backdrop").rng();
        let color = |rng: &mut Rng| {
            let color = random_color(rng);
            if bright { blend(color, [0.85; 3], rng.random_range(0.6..=0.95)) } else { color }
        };
        let first = color(&mut rng);
        let second = blend(first, color(&mut rng), rng.random_range(0.2..=1.0));
        let slab = |rng: &mut Rng| {
            let (sin, cos) = rng.random_range(0.0..=TAU).sin_cos();
            Slab {
                center: [rng.random_range(-1.8..=1.8), rng.random_range(-1.8..=1.8)],
                axis: [cos, sin],
                half: [rng.random_range(0.05..=0.9), rng.random_range(0.04..=0.4)],
                color: color(rng),
            }
        };
        let count = rng.random_range(0..=5);
        Self {
            colors: [first, second],
            scale: rng.random_range(0.5..=3.0),
            slabs: (0..count).map(|_| slab(&mut rng)).collect(),
            seed: rng.random(),
        }
    }

    pub(super) fn color(&self, [x, y]: [f32; 2]) -> Rgb {
        let wave = fractal([self.scale * x, self.scale * y, 0.5], self.seed);
        let mut color = blend(self.colors[0], self.colors[1], (2.2 * wave - 0.6).clamp(0.0, 1.0));
        for slab in &self.slabs {
            let (dx, dy) = (x - slab.center[0], y - slab.center[1]);
            let along = (dx * slab.axis[0] + dy * slab.axis[1]).abs();
            let across = (dy * slab.axis[0] - dx * slab.axis[1]).abs();
            if along < slab.half[0] && across < slab.half[1] {
                color = slab.color;
            }
        }
        color
    }
}

/// Rounded sticks in front of a head.
#[derive(Clone, Debug)]
pub(super) struct Occluder {
    sticks: Vec<([f32; 2], [f32; 2], f32)>,
    color: Rgb,
    seed: u32,
}

impl Occluder {
    /// A strip or a hand over a part of a head.
    pub(super) fn draw(rng: &mut Rng) -> Self {
        if rng.random_bool(0.5) { Self::strip(rng) } else { Self::hand(rng) }
    }

    fn strip(rng: &mut Rng) -> Self {
        let (sin, cos) = rng.random_range(0.0..=TAU).sin_cos();
        let [x, y] = [(); 2].map(|()| rng.random_range(-0.7..=0.7f32));
        let ends = ([x - 3.0 * cos, y - 3.0 * sin], [x + 3.0 * cos, y + 3.0 * sin]);
        let radius = rng.random_range(0.06..=0.2);
        Self { sticks: vec![(ends.0, ends.1, radius)], color: random_color(rng), seed: rng.random() }
    }

    /// An arm from the side, a palm, four fingers.
    fn hand(rng: &mut Rng) -> Self {
        let side = if rng.random_bool(0.5) { 1.0 } else { -1.0 };
        let (x, y) = (side * rng.random_range(0.45..=0.9), rng.random_range(-0.9..=0.1f32));
        let (sin, cos) = rng.random_range(0.3..=1.2f32).sin_cos();
        let up = [-side * cos, sin];
        let mut sticks = vec![([x, y], [x - 3.0 * up[0], y - 3.0 * up[1]], 0.2), ([x, y], [x, y], 0.26)];
        for (finger, length) in [(-1.5, 0.34), (-0.5, 0.42), (0.5, 0.44), (1.5, 0.36)] {
            let base = [x + 0.15 * up[0] - 0.13 * finger * up[1], y + 0.15 * up[1] + 0.13 * finger * up[0]];
            let tip = [base[0] + length * up[0], base[1] + length * up[1]];
            sticks.push((base, tip, 0.065));
        }
        let tone = rng.random_range(0.0..=0.8);
        Self { sticks, color: skin_color(tone, rng), seed: rng.random() }
    }

    /// A board over most of a face around `center`.
    pub(super) fn board(center: [f32; 2], rng: &mut Rng) -> Self {
        let [x, y] = center.map(|value| value + rng.random_range(-0.1..=0.1));
        let (sin, cos) = rng.random_range(-0.5..=0.5f32).sin_cos();
        let half = rng.random_range(0.15..=0.45);
        let ends = ([x - half * cos, y - half * sin], [x + half * cos, y + half * sin]);
        let radius = rng.random_range(0.55..=0.72);
        Self { sticks: vec![(ends.0, ends.1, radius)], color: random_color(rng), seed: rng.random() }
    }

    /// Its colour at a point that it covers.
    pub(super) fn color(&self, at: [f32; 2]) -> Option<Rgb> {
        let depth = |&(a, b, radius): &([f32; 2], [f32; 2], f32)| 1.0 - segment_distance(at, a, b) / radius;
        let depth = self.sticks.iter().map(depth).fold(0.0, f32::max);
        (depth > 0.0).then(|| {
            let grain = fractal([5.0 * at[0], 5.0 * at[1], 0.5], self.seed);
            let shade = mix(0.55, 1.0, (2.0 * depth).min(1.0)) * (0.85 + 0.3 * grain);
            self.color.map(|value| value * shade)
        })
    }
}
