//! Generated detection scenes in COCO format.
//!
//! A scene is a textured ground with some figures of six categories, each in a hue of its category. Later ones hide
//! parts of earlier ones, and the image's border cuts some. A box is tight around pixels covered by half or more.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use ebm_base::{Key, Rng};
use ebm_data::encode::write_jpeg;
use ebm_data::files::create_dir;
use ebm_data::{Image, Result};
use rand::Rng as _;
use rayon::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};

use crate::drawing::{Canvas, FIGURES, JPEG_QUALITY, Mask, Surface, check, figure, log_uniform, place};
use crate::generated_dir::{Kind, make, write_json};

/// Names of the categories; an object's `category_id` is the position in this list, from 1.
pub const CATEGORIES: [&str; 6] = FIGURES;
/// Number of attempts to place an object before it is left out.
const ATTEMPTS: usize = 30;
/// Smallest visible fraction of a figure.
const LEAST_SEEN: f32 = 0.5;
const ANNOTATIONS: &str = "annotations.json";
const IMAGES: &str = "images";
const KIND: Kind = Kind { what: "scenes", manifest: "scenes.json", digest: "digest", version: 2 };

/// Settings of generated scenes. Lengths are in pixels.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SceneConfig {
    /// Number of columns of each image.
    pub width: usize,
    /// Number of rows of each image.
    pub height: usize,
    /// Number of objects to place; an object that finds no place is left out.
    pub objects: RangeInclusive<usize>,
    /// Diameter of an object; small ones are more frequent.
    pub size: RangeInclusive<f32>,
    /// Largest noise either way, in 8-bit levels.
    pub noise: f32,
}

impl Default for SceneConfig {
    fn default() -> Self {
        Self { width: 160, height: 160, objects: 3..=8, size: 20.0..=64.0, noise: 10.0 }
    }
}

impl SceneConfig {
    fn validate(&self) -> Result<()> {
        let shorter = self.width.min(self.height) as f32;
        let (objects, size) = (&self.objects, &self.size);
        let counted = *objects.start() >= 1 && !objects.is_empty() && *objects.end() <= 100;
        let sized = *size.start() >= 8.0 && !size.is_empty() && *size.end() <= 0.6 * shorter;
        let fields = [
            ("width", (32..=4096).contains(&self.width), "be in 32..=4096 pixels"),
            ("height", (32..=4096).contains(&self.height), "be in 32..=4096 pixels"),
            ("objects", counted, "be in 1..=100"),
            ("size", sized, "be in 8..=0.6 of the image's shorter side"),
            ("noise", (0.0..=64.0).contains(&self.noise), "be in 0..=64 levels"),
        ];
        check("a scene", fields)
    }
}

/// Annotated object of a scene.
#[derive(Clone, Debug, PartialEq)]
pub struct SceneObject {
    /// Position of the category in [`CATEGORIES`], from 1.
    pub category_id: usize,
    /// Box `[x, y, width, height]` of the object's visible pixels. The image covers `[0, width] x [0, height]`.
    pub bbox: [usize; 4],
    /// Number of the object's visible pixels.
    pub area: usize,
}

/// Draws one scene and its objects from back to front, a function of the configuration and the key.
///
/// # Errors
/// [`ebm_data::Error::Argument`] if the configuration is not valid.
pub fn render_scene(config: &SceneConfig, key: Key) -> Result<(Image, Vec<SceneObject>)> {
    config.validate()?;
    let &SceneConfig { width, height, noise, .. } = config;
    let ground = Surface::ground(&mut key.split("ground").rng());
    let mut scene = Scene {
        config,
        canvas: Canvas::new(width, height, &ground),
        shown: vec![None; width * height],
        placed: Vec::new(),
    };
    for index in 0..key.split("count").rng().random_range(config.objects.clone()) {
        let mut rng = key.split("object").index(index as u64).rng();
        let category = rng.random_range(0..FIGURES.len());
        let _fits = (0..ATTEMPTS).any(|_| scene.add(category, &mut rng));
    }
    Ok((scene.canvas.expose(noise, &mut key.split("noise").rng()), scene.objects()))
}

/// Scene in progress.
struct Scene<'a> {
    config: &'a SceneConfig,
    canvas: Canvas,
    /// Index of the object that each pixel shows.
    shown: Vec<Option<usize>>,
    /// Category, number of all pixels (also outside the image) and number of visible pixels of each object.
    placed: Vec<(usize, usize, usize)>,
}

impl Scene<'_> {
    /// Draws a figure at a random place, unless too little of it or of another one would be visible.
    fn add(&mut self, category: usize, rng: &mut Rng) -> bool {
        let &SceneConfig { width, height, ref size, .. } = self.config;
        let radius = 0.5 * log_uniform(size, rng);
        let center = [width, height].map(|side| rng.random_range(0.6 * radius..=side as f32 - 0.6 * radius));
        let mask = Mask::new(&place(&figure(category, rng), center, radius));
        let pixels = || mask.inside(width, height).filter(|(.., cover)| *cover >= 0.5);
        let mut hidden = vec![0; self.placed.len()];
        pixels().filter_map(|(x, y, _)| self.shown[y * width + x]).for_each(|index| hidden[index] += 1);
        let (whole, own) = (mask.size(), pixels().count());
        let enough = |whole: usize, seen: usize| seen as f32 >= LEAST_SEEN * whole as f32;
        let mut others = self.placed.iter().zip(&hidden);
        if !enough(whole, own) || others.any(|((_, whole, seen), hidden)| !enough(*whole, seen - hidden)) {
            return false;
        }
        self.placed.iter_mut().zip(hidden).for_each(|((.., seen), hidden)| *seen -= hidden);
        pixels().for_each(|(x, y, _)| self.shown[y * width + x] = Some(self.placed.len()));
        self.placed.push((category, whole, own));
        self.canvas.paint(&mask, &Surface::of(category, rng), center, radius);
        true
    }

    /// Returns the objects with their boxes.
    fn objects(&self) -> Vec<SceneObject> {
        let mut ends = vec![[usize::MAX, usize::MAX, 0, 0]; self.placed.len()];
        for (at, index) in self.shown.iter().enumerate().filter_map(|(at, index)| Some((at, (*index)?))) {
            let (x, y) = (at % self.config.width, at / self.config.width);
            let [left, top, right, bottom] = ends[index];
            ends[index] = [left.min(x), top.min(y), right.max(x + 1), bottom.max(y + 1)];
        }
        let object = |(&(category, _, area), [left, top, right, bottom]): (_, [usize; 4])| SceneObject {
            category_id: category + 1,
            bbox: [left, top, right - left, bottom - top],
            area,
        };
        self.placed.iter().zip(ends).map(object).collect()
    }
}

/// Paths of a generated dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedSet {
    /// Annotation file in COCO format.
    pub annotations: PathBuf,
    /// Directory of the annotated images.
    pub images: PathBuf,
}

/// Writes `count` scenes into `dir`, or reuses them if `dir` holds the same set.
///
/// Image `i` (from 0) depends only on `config` and `key.index(i)`, not on `count` or the number of threads. The
/// set is written beside `dir` and renamed at the end, so `dir` never holds half a set.
///
/// # Errors
/// [`ebm_data::Error::Argument`] if the configuration is not valid, `count` is 0, or `dir` holds anything else than
/// this set; [`ebm_data::Error::Io`] or [`ebm_data::Error::Failure`] if a file cannot be written.
pub fn generate(dir: &Path, config: &SceneConfig, count: usize, key: Key) -> Result<GeneratedSet> {
    config.validate()?;
    check("scenes", [("count", (1..=999_999).contains(&count), "be in 1..=999999")])?;
    let name = |index: usize| format!("{:06}.jpg", index + 1);
    let files = |dir: &Path| {
        let images = (0..count).map(|index| dir.join(IMAGES).join(name(index)));
        images.chain([dir.join(ANNOTATIONS)]).collect()
    };
    let write = |dir: &Path| {
        let images = dir.join(IMAGES);
        create_dir(&images)?;
        let draw = |index: usize| {
            let (image, objects) = render_scene(config, key.index(index as u64))?;
            write_jpeg(&images.join(name(index)), &image, JPEG_QUALITY)?;
            Ok(objects)
        };
        let scenes = (0..count).into_par_iter().map(draw).collect::<Result<Vec<_>>>()?;
        write_json(&dir.join(ANNOTATIONS), &coco(config, name, &scenes))
    };
    make(dir, &KIND, config, count, key, files, write)?;
    Ok(GeneratedSet { annotations: dir.join(ANNOTATIONS), images: dir.join(IMAGES) })
}

fn coco(config: &SceneConfig, name: impl Fn(usize) -> String, scenes: &[Vec<SceneObject>]) -> Value {
    let &SceneConfig { width, height, .. } = config;
    let image =
        |index| json!({ "id": index + 1, "file_name": name(index), "width": width, "height": height });
    let objects =
        scenes.iter().enumerate().flat_map(|(index, objects)| objects.iter().map(move |one| (index, one)));
    let annotation = |(at, (index, object)): (usize, (usize, &SceneObject))| {
        let SceneObject { category_id, bbox, area } = object;
        json!({
            "id": at + 1, "image_id": index + 1, "category_id": category_id, "bbox": bbox, "area": area, "iscrowd": 0
        })
    };
    let category = |(index, name): (usize, &&str)| json!({ "id": index + 1, "name": name });
    json!({
        "images": (0..scenes.len()).map(image).collect::<Vec<_>>(),
        "annotations": objects.enumerate().map(annotation).collect::<Vec<_>>(),
        "categories": CATEGORIES.iter().enumerate().map(category).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The boxes fit the pixels that differ from the ground in scenes of one figure.
    #[test]
    fn a_box_is_tight_around_what_is_seen() {
        let config = SceneConfig { objects: 1..=1, noise: 0.0, ..SceneConfig::default() };
        for index in 0..40 {
            let key = Key::new(3).index(index);
            let (image, objects) = render_scene(&config, key).unwrap();
            let ground = Surface::ground(&mut key.split("ground").rng());
            let empty = Canvas::new(160, 160, &ground).expose(0.0, &mut key.rng());
            let [mut left, mut top, mut right, mut bottom] = [160, 160, 0, 0];
            let pixels = image.pixels.chunks(3).zip(empty.pixels.chunks(3)).enumerate();
            for (at, _) in pixels.filter(|(_, (a, b))| a != b) {
                (left, right) = (left.min(at % 160), right.max(at % 160 + 1));
                (top, bottom) = (top.min(at / 160), bottom.max(at / 160 + 1));
            }
            let [x, y, w, h] = objects[0].bbox;
            // A pixel that is covered by less than half differs too; a star's point has several.
            let apart = [x - left, y - top, right - (x + w), bottom - (y + h)];
            assert!(apart.iter().all(|&pixels| pixels <= 3), "{apart:?} of {objects:?} in {index}");
        }
    }

    #[test]
    fn of_every_object_half_is_seen_and_boxes_end_at_its_pixels() {
        let config = SceneConfig { objects: 12..=12, ..SceneConfig::default() };
        let mut hidden = 0;
        for index in 0..20 {
            let key = Key::new(4).index(index);
            let ground = Canvas::new(160, 160, &Surface::ground(&mut key.rng()));
            let (shown, placed) = (vec![None; 160 * 160], Vec::new());
            let mut scene = Scene { config: &config, canvas: ground, shown, placed };
            let mut rng = key.split("objects").rng();
            for category in (0..6).cycle().take(30) {
                scene.add(category, &mut rng);
            }
            for (at, (&(_, whole, seen), object)) in scene.placed.iter().zip(scene.objects()).enumerate() {
                let of = |pixel: &(usize, &Option<usize>)| *pixel.1 == Some(at);
                let pixels: Vec<usize> =
                    scene.shown.iter().enumerate().filter(of).map(|(at, _)| at).collect();
                assert!(pixels.len() == seen && object.area == seen && 2 * seen >= whole);
                hidden += usize::from(seen < whole);
                let [x, y, w, h] = object.bbox;
                let columns = || pixels.iter().map(|at| at % 160);
                assert_eq!((columns().min(), columns().max()), (Some(x), Some(x + w - 1)));
                assert_eq!((pixels[0] / 160, pixels[pixels.len() - 1] / 160), (y, y + h - 1));
            }
        }
        assert!(hidden > 50, "{hidden}");
    }
}
