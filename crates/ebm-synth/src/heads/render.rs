//! From a scene to 8-bit pixels.

use ebm_seed::Rng;
use rand::Rng as _;
use rand_distr::StandardNormal;

use super::geometry::{Ellipsoid, Quadric, Vec3, View, dot, mix, normalised, smoothstep};
use super::identity::{Identity, Material, Rgb};
use super::scene::{Scene, Subject};
use ebm_data::Image;

/// Rays per pixel and direction.
const RAYS: usize = 2;
/// Parts of the skin this close flow into each other.
const SEAM: f32 = 0.07;

/// The picture of `scene` with `size` rows and columns, and noise of `noise` levels at mid-grey.
pub(super) fn render(scene: &Scene, size: usize, noise: f32, rng: &mut Rng) -> Image {
    let light = blurred(Stage::new(scene).light(size), size, scene.blur * size as f32 / 64.0);
    Image { width: size, height: size, pixels: exposed(&light, size, noise, scene.side, rng) }
}

/// What a ray meets.
#[derive(Clone, Copy)]
enum Surface<'a> {
    Head(Material, &'a Identity),
    Neck(&'a Identity),
    /// One colour, without shading.
    Flat(Rgb),
    Clothes,
}

struct Stage<'a> {
    scene: &'a Scene,
    view: View,
    /// From the viewer to the back.
    solids: Vec<(Surface<'a>, Quadric)>,
}

impl<'a> Stage<'a> {
    fn new(scene: &'a Scene) -> Self {
        let view = View::of_pose(scene.pose);
        let mut solids = Vec::new();
        let [x, y, z] = match &scene.subject {
            Subject::Person(identity) => {
                let parts = identity.parts.iter();
                solids.extend(parts.map(|(material, ellipsoid)| {
                    (Surface::Head(*material, identity), Quadric::new(ellipsoid, view))
                }));
                let [x, y, z] = view.to_picture([0.0, -0.6, -0.25]);
                let neck = Ellipsoid { center: [x, y - 0.55, z], radii: [0.40, 0.85, 0.40] };
                solids.push((Surface::Neck(identity), Quadric::new(&neck, View::FRONTAL)));
                [x, y, z]
            }
            // Nothing may tell how the hood is turned but the hood itself.
            &Subject::Hood { radii, color } => {
                let hood = Ellipsoid { center: [0.0; 3], radii };
                solids.push((Surface::Flat(color), Quadric::new(&hood, view)));
                let neck = Ellipsoid { center: [0.0, -1.2, -0.25], radii: [0.45, 0.85, 0.3] };
                solids.push((Surface::Flat(color), Quadric::new(&neck, View::FRONTAL)));
                [0.0, -0.7, -0.25]
            }
        };
        let shoulders = Ellipsoid { center: [0.5 * x, y - 1.45, z - 0.1], radii: [1.5, 0.75, 0.6] };
        solids.push((Surface::Clothes, Quadric::new(&shoulders, View::FRONTAL)));
        solids.sort_by(|(_, a), (_, b)| b.front().total_cmp(&a.front()));
        Self { scene, view, solids }
    }

    /// The light of every pixel, row by row.
    fn light(&self, size: usize) -> Vec<Rgb> {
        let scene = self.scene;
        // Symmetric in exact arithmetic and in this one: a mirrored scene meets mirrored rays.
        let place = |index: usize, count: usize| {
            (2.0 * index as f32 + 1.0 - count as f32) / count as f32 * scene.half_side
        };
        let rays = RAYS * size;
        let mut pixels = vec![[0.0; 3]; size * size];
        let mut solids = Vec::with_capacity(self.solids.len());
        for (row, pixels) in pixels.chunks_exact_mut(size).enumerate() {
            for line in RAYS * row..RAYS * (row + 1) {
                let y = -place(line, rays);
                solids.clear();
                solids.extend(self.solids.iter().filter(|(_, solid)| solid.meets_row(y - scene.offset[1])));
                for (column, pixel) in pixels.iter_mut().enumerate() {
                    let mut behind = None;
                    for ray in RAYS * column..RAYS * (column + 1) {
                        let x = place(ray, rays);
                        let color = self.color([x, y], &solids).unwrap_or_else(|| {
                            *behind.get_or_insert_with(|| {
                                let at = [place(column, size) * scene.side, -place(row, size)];
                                scene.backdrop.color(at)
                            })
                        });
                        for (value, light) in pixel.iter_mut().zip(color) {
                            *value += (light + scene.light.veil) / (RAYS * RAYS) as f32;
                        }
                    }
                }
            }
        }
        pixels
    }

    /// The light that comes along one ray, unless it misses everything.
    fn color(&self, [x, y]: [f32; 2], solids: &[(Surface<'a>, Quadric)]) -> Option<Rgb> {
        let scene = self.scene;
        let flat = [x * scene.side, y];
        if let Some(color) = scene.occluders.iter().find_map(|occluder| occluder.color(flat)) {
            let dim = scene.light.ambient + 0.6 * scene.light.strength;
            return Some(color.map(|value| value * dim));
        }
        let (x, y) = (x - scene.offset[0], y - scene.offset[1]);
        let mut nearest: Option<(f32, usize)> = None;
        for (index, (surface, solid)) in solids.iter().enumerate() {
            if nearest.is_some_and(|(z, _)| z >= solid.front()) {
                break;
            }
            let Some([mut z, far]) = solid.hits(x, y) else { continue };
            if let Surface::Head(Material::HairCap, identity) = surface {
                // Through what is bald, the inside of the hair on the other side may be seen.
                let hairs = [z, far].into_iter().find(|&z| identity.hair.covers(self.on_head([x, y, z])));
                let Some(hair) = hairs else { continue };
                z = hair;
            }
            if nearest.is_some_and(|(other, _)| other >= z) {
                continue;
            }
            nearest = Some((z, index));
        }
        let (z, index) = nearest?;
        let (surface, solid) = solids.get(index)?;
        Some(self.shaded(*surface, solid, [x, y, z], solids))
    }

    /// Where on the head `p` is, for textures.
    fn on_head(&self, p: Vec3) -> Vec3 {
        let [x, y, z] = self.view.to_head(p);
        [x * self.scene.side, y, z]
    }

    fn shaded(
        &self,
        surface: Surface<'a>,
        solid: &Quadric,
        p: Vec3,
        solids: &[(Surface<'a>, Quadric)],
    ) -> Rgb {
        let lit = |normal: Vec3| {
            // Some light reaches what is turned away a little.
            let direct = ((dot(normal, self.scene.light.direction) + 0.15) / 1.15).max(0.0);
            self.scene.light.ambient * (0.85 + 0.15 * normal[1]) + self.scene.light.strength * direct
        };
        match surface {
            Surface::Flat(color) => color,
            Surface::Clothes => self.scene.clothes.map(|value| 0.7 * value * lit(solid.normal(p))),
            Surface::Neck(identity) => {
                // The chin keeps light from the upper part.
                let shade = mix(0.85, 0.5, smoothstep(-1.3, -0.7, p[1]));
                identity.skin.map(|value| value * shade * lit(solid.normal(p)))
            }
            Surface::Head(Material::HairCap | Material::Hair, identity) => {
                let color = identity.hair.color(self.on_head(p));
                color.map(|value| value * lit(solid.normal(p)))
            }
            Surface::Head(Material::Skin, identity) => self.skin(identity, p, solids, lit),
        }
    }

    fn skin(
        &self,
        identity: &Identity,
        p: Vec3,
        solids: &[(Surface<'a>, Quadric)],
        lit: impl Fn(Vec3) -> f32,
    ) -> Rgb {
        let mut sum = [0.0; 3];
        for (surface, solid) in solids {
            if let Surface::Head(Material::Skin, _) = surface {
                let Some((distance, normal)) = solid.near(p) else { continue };
                let weight = (1.0 - distance.max(0.0) / SEAM).max(0.0);
                sum = [0, 1, 2].map(|c| sum[c] + weight * weight * normal[c]);
            }
        }
        let mut normal = normalised(sum);
        let at = self.on_head(p);
        if at[2] > 0.2 {
            const STEP: f32 = 0.02;
            let here = identity.relief([at[0], at[1]]);
            let slope = |dx, dy| (identity.relief([at[0] + dx, at[1] + dy]) - here) / STEP;
            let tilt = [-slope(STEP, 0.0) * self.scene.side, -slope(0.0, STEP), 0.0];
            let tilt = self.view.to_picture(tilt);
            normal = normalised([0, 1, 2].map(|c| normal[c] + tilt[c]));
        }
        let to_light = self.scene.light.direction;
        let half = normalised([to_light[0], to_light[1], to_light[2] + 1.0]);
        let gloss = 0.06 * self.scene.light.strength * dot(normal, half).max(0.0).powi(24);
        identity.skin_at(at).map(|value| value * lit(normal) + gloss)
    }
}

/// A Gaussian blur of `sigma` pixels; beyond the border the nearest pixel counts.
fn blurred(pixels: Vec<Rgb>, size: usize, sigma: f32) -> Vec<Rgb> {
    if sigma < 0.2 {
        return pixels;
    }
    let reach = (3.0 * sigma).ceil() as usize;
    let weights: Vec<f32> = (0..=reach).map(|t| (-0.5 * (t as f32 / sigma).powi(2)).exp()).collect();
    let total = 2.0 * weights.iter().sum::<f32>() - 1.0;
    let pass = |from: &[Rgb], step: usize, other: usize| {
        let mut to = vec![[0.0; 3]; from.len()];
        for line in 0..size {
            for place in 0..size {
                let at = |place: usize| from[line * other + place * step];
                let sum = &mut to[line * other + place * step];
                for (t, weight) in weights.iter().enumerate() {
                    let pair = [place.saturating_sub(t), (place + t).min(size - 1)].map(at);
                    // The middle is met from both sides.
                    let weight = if t == 0 { 0.5 } else { 1.0 } * weight / total;
                    *sum = [0, 1, 2].map(|c| sum[c] + weight * (pair[0][c] + pair[1][c]));
                }
            }
        }
        to
    };
    let rows = pass(&pixels, 1, size);
    pass(&rows, size, 1)
}

/// Adds noise that grows with the light and encodes as sRGB.
fn exposed(pixels: &[Rgb], size: usize, noise: f32, side: f32, rng: &mut Rng) -> Vec<u8> {
    // Light of encoded mid-grey, and encoded levels per unit of light there.
    const MID_GREY: f32 = 0.214;
    const LEVELS: f32 = 275.0;
    let deviation = noise / LEVELS * rng.random_range(0.4f32..=1.0);
    let grains: Vec<[f32; 3]> = pixels.iter().map(|_| [(); 3].map(|()| rng.sample(StandardNormal))).collect();
    let mut encoded = Vec::with_capacity(3 * pixels.len());
    for (index, pixel) in pixels.iter().enumerate() {
        let (row, column) = (index / size, index % size);
        let grain = grains[row * size + if side < 0.0 { size - 1 - column } else { column }];
        for (light, grain) in pixel.iter().zip(grain) {
            let noisy = light + deviation * grain * (0.3 + 0.7 * light / MID_GREY).sqrt();
            encoded.push((255.0 * srgb(noisy.clamp(0.0, 1.0)) + 0.5) as u8);
        }
    }
    encoded
}

fn srgb(light: f32) -> f32 {
    if light <= 0.003_130_8 { 12.92 * light } else { 1.055 * light.powf(1.0 / 2.4) - 0.055 }
}
