//! A scene from its key to 8-bit pixels and annotations.

use std::f32::consts::TAU;

use ebm_seed::Key;
use rand::Rng as _;

use super::appearance::Appearance;
use super::background::Background;
use super::config::SceneConfig;
use super::layout::{Placed, arrange};
use crate::drawing::sensor::expose;
use crate::drawing::shape::Category;
use ebm_data::{Image, Result};

/// An annotated object of a scene.
#[derive(Clone, Debug, PartialEq)]
pub struct SceneObject {
    /// What it is.
    pub category: Category,
    /// Its category's place in [`SceneConfig::categories`], from 1.
    pub category_id: usize,
    /// `[x, y, width, height]` in pixels: the extent of the sharp silhouette inside the image, hidden parts
    /// included. The image covers `[0, width] x [0, height]`, so a pixel's centre has coordinates ending in
    /// .5.
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
/// [`Error::Argument`](ebm_data::Error::Argument) if the configuration is not valid.
pub fn render_scene(config: &SceneConfig, key: Key) -> Result<(Image, Vec<SceneObject>)> {
    config.validate()?;
    let angle = key.split("light").rng().random_range(0.0..=TAU);
    let light = [angle.cos(), angle.sin()];
    let placed = arrange(config, key.split("layout"));
    let mut canvas = Background::of_scene(config).paint(key.split("background"));
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
    let mut rng = key.split("sensor").rng();
    let noise = config.noise * rng.random_range(0.3..=1.0);
    let pixels = expose(&canvas, noise, &mut rng);
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
