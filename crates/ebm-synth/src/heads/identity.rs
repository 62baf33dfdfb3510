//! One head: its shape, its colours, its hair.

use ebm_seed::{Key, Rng};
use rand::Rng as _;

use super::geometry::{Ellipsoid, Vec3, mix, smoothstep};
use super::latents::Cues;
use super::noise::{fractal, noise};

/// Red, green and blue, proportional to light, 0..=1.
pub(super) type Rgb = [f32; 3];

/// The colour at `t` of the way from `a` to `b`.
pub(super) fn blend(a: Rgb, b: Rgb, t: f32) -> Rgb {
    [0, 1, 2].map(|c| mix(a[c], b[c], t))
}

/// A colour between mid-dark and bright, mostly of low saturation.
pub(super) fn random_color(rng: &mut Rng) -> Rgb {
    let level: f32 = rng.random_range(0.02..=0.8);
    [(); 3].map(|()| (level * rng.random_range(0.45..=1.3f32)).min(1.0))
}

/// What a part of a head is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Material {
    Skin,
    /// Skin only where hair does not cover it: the outside of the hair's cap.
    HairCap,
    Hair,
}

/// Hair: where it ends and what it looks like.
#[derive(Clone, Debug)]
pub(super) struct Hair {
    color: Rgb,
    /// The grey part of it.
    grey: f32,
    /// Height of the hairline above the forehead.
    line: f32,
    /// How much higher it is above the temples.
    temples: f32,
    /// Height of its end at the nape.
    nape: f32,
    seed: u32,
}

impl Hair {
    /// Whether the cap covers the head at `p`.
    pub(super) fn covers(&self, p: Vec3) -> bool {
        let front = self.line + self.temples * smoothstep(0.1, 0.45, p[0].abs());
        let edge = if p[2] < 0.1 {
            mix(self.nape, -0.05, smoothstep(-0.4, 0.1, p[2]))
        } else {
            mix(-0.05, front, smoothstep(0.1, 0.6, p[2]))
        };
        // Noise decides near the edge only.
        (p[1] - edge).abs() > 0.06 && p[1] > edge
            || (p[1] - edge).abs() <= 0.06
                && p[1] > edge + 0.12 * (noise(p.map(|value| 7.0 * value), self.seed) - 0.5)
    }

    /// The colour at `p`: strands that run downwards, some of them grey.
    pub(super) fn color(&self, p: Vec3) -> Rgb {
        let strand = fractal([9.0 * p[0], 2.5 * p[1], 9.0 * p[2]], self.seed ^ 1);
        let grey = (self.grey * (0.5 + strand)).clamp(0.0, 1.0);
        blend(self.color, [0.50, 0.50, 0.52], grey).map(|value| value * (0.55 + 0.9 * strand))
    }

    /// The mean colour.
    pub(super) fn mean_color(&self) -> Rgb {
        blend(self.color, [0.50, 0.50, 0.52], self.grey)
    }
}

/// One head.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) parts: Vec<(Material, Ellipsoid)>,
    pub(super) skin: Rgb,
    pub(super) hair: Hair,
    pub(super) cues: Cues,
    /// Half the distance of the eyes, and their height.
    pub(super) eyes: [f32; 2],
    /// Half width and half height of an eye.
    pub(super) eye_size: [f32; 2],
    pub(super) iris: Rgb,
    /// Where the eyes look, beside the middle.
    pub(super) gaze: [f32; 2],
    /// Height of the brows above the eyes, and half their thickness.
    pub(super) brows: [f32; 2],
    /// Height of the mouth, half its width, half its thickness.
    pub(super) mouth: Vec3,
    /// Redness of the lips.
    pub(super) lips: f32,
    /// Density of the beard, 0 for none.
    pub(super) beard: f32,
    /// The frame of glasses, if there are any.
    pub(super) glasses: Option<Rgb>,
    pub(super) seed: u32,
}

impl Identity {
    /// A random head that shows `cues`.
    pub(super) fn draw(cues: Cues, key: Key) -> Self {
        let mut rng = key.split("identity").rng();
        let mut near = |center: f32, spread: f32| center + rng.random_range(-spread..=spread);
        let (width, depth, jaw, nose) = (near(1.0, 0.07), near(1.0, 0.06), near(1.0, 0.12), near(1.0, 0.25));
        let eyes = [near(0.27, 0.025) * width, near(0.02, 0.03)];
        let eye_size = [near(0.125, 0.015), near(0.055, 0.014)];
        let gaze = [near(0.0, 0.03), near(0.0, 0.01)];
        let brows = [near(0.17, 0.025), near(0.03, 0.012)];
        let mouth = [near(-0.58, 0.04), near(0.22, 0.04), near(0.06, 0.02)];
        let lips = near(0.5, 0.4);
        let (style, volume) = (near(0.5, 0.5), near(0.1, 0.06));
        let hairline = near(0.62, 0.05);
        let long = style > 0.6;
        let bearded = style < 0.17;
        let skin = skin_color(near(0.4, 0.4), &mut rng);
        let hair = Hair {
            color: hair_color(&mut rng),
            // Light adds up in proportion, eyes see its square root or so.
            grey: (0.98 * cues.grey).clamp(0.0, 1.0).powf(1.9),
            line: hairline + 0.26 * cues.hairline,
            temples: 0.04 + 0.3 * cues.hairline.max(0.0),
            nape: if long { -0.9 } else { -0.5 },
            seed: rng.random(),
        };
        let shape = Shape { width, depth, jaw, nose, jowls: cues.jowls, volume, long };
        Self {
            parts: shape.parts(),
            skin,
            hair,
            cues,
            eyes,
            eye_size,
            iris: blend([0.02, 0.012, 0.008], [0.10, 0.16, 0.22], rng.random_range(0.0f32..=1.0).powi(2)),
            gaze,
            brows,
            mouth,
            lips,
            beard: if bearded { rng.random_range(0.4..=0.95) } else { 0.0 },
            glasses: rng.random_bool(0.15).then(|| random_color(&mut rng).map(|value| 0.2 * value)),
            seed: rng.random(),
        }
    }
}

struct Shape {
    width: f32,
    depth: f32,
    jaw: f32,
    nose: f32,
    jowls: f32,
    volume: f32,
    long: bool,
}

impl Shape {
    fn parts(&self) -> Vec<(Material, Ellipsoid)> {
        let Self { width, depth, jaw, nose, jowls, volume, long } = *self;
        let mut parts = Vec::with_capacity(20);
        let mut add = |material, center: Vec3, radii: Vec3| {
            let ellipsoid = Ellipsoid { center, radii: [radii[0] * width, radii[1], radii[2] * depth] };
            parts.push((
                material,
                Ellipsoid { center: [center[0] * width, center[1], center[2] * depth], ..ellipsoid },
            ));
        };
        let skin = Material::Skin;
        add(skin, [0.0, 0.25, -0.10], [0.74, 0.80, 0.90]);
        add(skin, [0.0, -0.25, 0.10], [0.63, 0.80, 0.68]);
        add(skin, [0.0, -0.80, 0.42], [0.28 * jaw, 0.22, 0.28]);
        // Bridge, tip and wings of the nose.
        add(skin, [0.0, -0.06, 0.76], [0.075, 0.28, 0.12 * nose]);
        add(skin, [0.0, -0.22, 0.79], [0.085, 0.20, 0.17 * nose]);
        add(skin, [0.0, -0.30, 0.83], [0.10, 0.09, 0.21 * nose]);
        for side in [-1.0, 1.0] {
            add(skin, [0.09 * side, -0.32, 0.78], [0.07, 0.065, 0.12]);
            add(skin, [0.36 * side, -0.22, 0.42], [0.24, 0.22, 0.28]);
            let sag = 0.10 * jowls;
            add(
                skin,
                [(0.32 + 0.5 * sag) * side, -0.64 - 0.3 * sag, 0.26],
                [0.18 * jaw + sag, 0.24 + sag, 0.28],
            );
            add(skin, [0.74 * side, -0.08, -0.10], [0.09, 0.23, 0.15]);
        }
        add(Material::HairCap, [0.0, 0.27, -0.12], [0.76 + 0.6 * volume, 0.80 + volume, 0.90 + 0.6 * volume]);
        if long {
            add(Material::Hair, [0.0, -0.25, -0.40], [0.80 + 0.8 * volume, 1.15, 0.58 + 0.5 * volume]);
        }
        parts
    }
}

/// From light to dark for `tone` in 0..=1, a little varied in hue.
pub(super) fn skin_color(tone: f32, rng: &mut Rng) -> Rgb {
    let (light, dark): (Rgb, Rgb) = ([0.78, 0.50, 0.38], [0.13, 0.065, 0.04]);
    let hue: f32 = rng.random_range(-0.06..=0.06);
    let color = [0, 1, 2].map(|c| light[c].powf(1.0 - tone) * dark[c].powf(tone));
    [color[0] * (1.0 + hue), color[1], color[2] * (1.0 - hue)]
}

fn hair_color(rng: &mut Rng) -> Rgb {
    let palette: [Rgb; 4] =
        [[0.012, 0.010, 0.009], [0.06, 0.03, 0.017], [0.34, 0.20, 0.08], [0.22, 0.06, 0.02]];
    let first = palette[[0, 0, 0, 1, 1, 1, 1, 2, 2, 3][rng.random_range(0..10)]];
    blend(first, palette[1], rng.random_range(0.0..=0.6))
}
