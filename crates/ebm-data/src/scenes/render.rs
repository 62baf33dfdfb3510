//! A scene from its key to 8-bit pixels and annotations.

use std::f32::consts::TAU;

use ebm_seed::{Key, Rng};
use rand::Rng as _;
use rand_distr::StandardNormal;

use super::appearance::Appearance;
use super::config::SceneConfig;
use super::layer::Canvas;
use super::layout::{Placed, arrange};
use super::noise::fractal_field;
use super::shape::{Category, Silhouette};
use super::texture::{Rgb, Texture, mix, random_color};
use crate::{Image, Result};

/// An annotated object of a scene.
#[derive(Clone, Debug, PartialEq)]
pub struct SceneObject {
    /// What it is.
    pub category: Category,
    /// Its category's place in [`SceneConfig::categories`], from 1.
    pub category_id: usize,
    /// `[x, y, width, height]` in pixels: the extent of the sharp silhouette inside the image, hidden parts included.
    /// The image covers `[0, width] x [0, height]`, so a pixel's centre has coordinates ending in .5.
    pub bbox: [f32; 4],
    /// Area of the silhouette inside the image, hidden parts included, in square pixels.
    pub area: f32,
    /// The fraction of that area that lies behind other silhouettes.
    pub occlusion: f32,
    /// The fraction of the whole silhouette outside the image.
    pub truncation: f32,
    /// Standard deviation of the object's blur in pixels; of a motion, along it.
    pub blur: f32,
    /// Whether one side fades or takes the background's colour.
    pub fading_side: bool,
    /// Opacity of the handle or antenna, if there is one.
    pub thin_part: Option<f32>,
}

/// One scene and its objects from back to front, a function of configuration and key alone.
///
/// # Errors
/// [`Error::Argument`](crate::Error::Argument) if the configuration is not valid.
pub fn render_scene(config: &SceneConfig, key: Key) -> Result<(Image, Vec<SceneObject>)> {
    config.validate()?;
    let angle = key.split("light").rng().random_range(0.0..=TAU);
    let light = [angle.cos(), angle.sin()];
    let placed = arrange(config, key.split("layout"));
    let mut canvas = background(config, key.split("background"));
    let mut objects = Vec::with_capacity(placed.len());
    for (index, item) in placed.iter().enumerate() {
        let mut rng = key.split("appearance").index(index as u64).rng();
        let appearance = match item.category {
            Some(category) => {
                let appearance = Appearance::of_object(item, &canvas, config, light, &mut rng);
                objects.push(annotate(item, category, &appearance, config));
                appearance
            }
            None => Appearance::of_clutter(item, &canvas, 0.5 * config.blur, &mut rng),
        };
        appearance.draw(item, &mut canvas, light);
    }
    let pixels = expose(&canvas, config.noise, &mut key.split("sensor").rng());
    Ok((Image { width: config.width, height: config.height, pixels }, objects))
}

fn annotate(item: &Placed, category: Category, appearance: &Appearance, config: &SceneConfig) -> SceneObject {
    let [x0, y0, x1, y1] = item.extent;
    SceneObject {
        category,
        category_id: config.categories.iter().take_while(|&&other| other != category).count() + 1,
        bbox: [x0, y0, x1 - x0, y1 - y0],
        area: item.area,
        occlusion: item.occlusion(),
        truncation: item.truncation,
        blur: appearance.blur_sigma(),
        fading_side: appearance.has_fading_side(),
        thin_part: appearance.protrusion_opacity(item),
    }
}

/// Three colours mixed by two fields of noise, often under a faint pattern, and clutter over them.
fn background(config: &SceneConfig, key: Key) -> Canvas {
    let mut rng = key.split("field").rng();
    let base = random_color(&mut rng);
    let spread = 0.25 + 0.6 * config.clutter;
    let [second, third] =
        [(); 2].map(|()| mix(base, random_color(&mut rng), spread * rng.random_range(0.3..=1.0)));
    let cell = rng.random_range(14.0f32..=60.0);
    let coarse = fractal_field(config.width, config.height, cell, 4, rng.random());
    let fine = fractal_field(config.width, config.height, 1.4 * cell, 2, rng.random());
    // Stretching around the middle uses the colours' whole range: averages of octaves crowd there.
    let stretch = |value: f32| (2.2 * (value - 0.5) + 0.5).clamp(0.0, 1.0);
    let colors =
        coarse.iter().zip(&fine).map(|(&a, &b)| mix(mix(base, second, stretch(a)), third, stretch(b)));
    let mut pixels: Vec<Rgb> = colors.collect();
    if rng.random_bool(0.6 * f64::from(config.clutter)) {
        let wallpaper = Texture::draw(base, rng.random_range(8.0..=24.0), 1.0, &mut rng);
        let strength = rng.random_range(0.1..=0.45);
        for (index, pixel) in pixels.iter_mut().enumerate() {
            let at = [(index % config.width) as f32, (index / config.width) as f32];
            *pixel = mix(*pixel, wallpaper.color(at), strength);
        }
    }
    let mut canvas = Canvas { width: config.width, height: config.height, pixels };
    add_clutter(&mut canvas, config, key);
    canvas
}

fn add_clutter(canvas: &mut Canvas, config: &SceneConfig, key: Key) {
    let side = config.width.min(config.height) as f32;
    let most = (24.0 * config.clutter).round() as u64;
    let count = key.split("count").rng().random_range(most / 3..=most);
    for index in 0..count {
        let mut rng = key.split("clutter").index(index).rng();
        let (figure, scale) = draw_clutter(side, &mut rng);
        let at = [rng.random_range(0.0..=config.width as f32), rng.random_range(0.0..=config.height as f32)];
        let item = Placed::new(None, figure.translated(at), scale, (config.width, config.height));
        Appearance::of_clutter(&item, canvas, 1.6, &mut rng).draw(&item, canvas, [0.0, 0.0]);
    }
}

fn draw_clutter(side: f32, rng: &mut Rng) -> (Silhouette, f32) {
    if rng.random_bool(0.6) {
        let half_width = side * rng.random_range(0.004..=0.02);
        (Silhouette::strip(side * rng.random_range(0.1..=0.45), half_width, rng), half_width)
    } else {
        let scale = side * rng.random_range(0.03..=0.12);
        (Silhouette::patch(scale, rng), scale)
    }
}

/// Adds noise whose variance is part constant, part proportional to the light, and encodes as sRGB.
fn expose(canvas: &Canvas, noise: f32, rng: &mut Rng) -> Vec<u8> {
    // Light of encoded mid-grey, and encoded levels per unit of light there.
    const MID_GREY: f32 = 0.214;
    const LEVELS: f32 = 275.0;
    let deviation = noise / LEVELS * rng.random_range(0.3..=1.0);
    let steps = f32::from(CURVE_STEPS);
    let curve: Vec<f32> = (0..=CURVE_STEPS).map(|i| 255.0 * srgb_encode(f32::from(i) / steps)).collect();
    let mut pixels = Vec::with_capacity(3 * canvas.pixels.len());
    for pixel in &canvas.pixels {
        for &light in pixel {
            let normal: f32 = rng.sample(StandardNormal);
            let noisy = light + deviation * normal * (0.3 + 0.7 * light / MID_GREY).sqrt();
            let step = (noisy.clamp(0.0, 1.0) * steps + 0.5) as usize;
            pixels.push((curve[step] + 0.5) as u8);
        }
    }
    pixels
}

/// Steps of the table for the sRGB curve: less than one 8-bit level each.
const CURVE_STEPS: u16 = 4096;

fn srgb_encode(light: f32) -> f32 {
    if light <= 0.003_130_8 { 12.92 * light } else { 1.055 * light.powf(1.0 / 2.4) - 0.055 }
}
