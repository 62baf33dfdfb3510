//! A set of scenes on disk: `images/000001.jpg` …, `annotations.json` in COCO format, `scenes.json`.

use std::fs;
use std::path::{Path, PathBuf};

use ebm_seed::Key;
use rayon::prelude::*;
use serde::Serialize;

use super::config::SceneConfig;
use super::render::{SceneObject, render_scene};
use crate::generated_dir::{Kind, make, write_json};
use ebm_data::encode::write_jpeg;
use ebm_data::{Error, Result};

/// Where a generated set lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedSet {
    /// The annotation file in COCO format.
    pub annotations: PathBuf,
    /// The directory of the images that it names.
    pub images: PathBuf,
    /// Whether the set was there already.
    pub reused: bool,
}

impl GeneratedSet {
    fn at(dir: &Path, reused: bool) -> Self {
        Self { annotations: dir.join(ANNOTATIONS), images: dir.join(IMAGES), reused }
    }
}

const ANNOTATIONS: &str = "annotations.json";
const IMAGES: &str = "images";
const KIND: Kind = Kind { what: "scenes", manifest: "scenes.json", digest: "digest", version: 1 };

/// Writes `count` scenes into `dir`, or reuses them if `dir` holds the same set already.
///
/// Image `i` (from 0) depends on `config` and `key.index(i)` alone, not on `count` or the number of threads.
/// The set is written beside `dir` and renamed at the end, so `dir` never holds half a set. The annotations
/// carry each object's `occlusion`, `truncation`, `blur`, `fading_side` and, where it has one, `thin_part` (see
/// [`SceneObject`]) besides COCO's fields.
///
/// # Errors
/// [`Error::Argument`] if the configuration is not valid, `count` is 0, or `dir` holds anything else than
/// this set; [`Error::Io`] or [`Error::Encode`] if a file cannot be written.
pub fn generate(dir: &Path, config: &SceneConfig, count: usize, key: Key) -> Result<GeneratedSet> {
    config.validate()?;
    if !(1..=999_999).contains(&count) {
        return Err(Error::Argument { name: "count", detail: "of scenes must be in 1..=999999".to_owned() });
    }
    let files = |dir: &Path| {
        let paths = (0..count).map(|index| dir.join(IMAGES).join(file_name(index)));
        Ok(paths.chain([dir.join(ANNOTATIONS)]).collect())
    };
    let write = |dir: &Path| write_set(dir, config, count, key);
    Ok(GeneratedSet::at(dir, make(dir, &KIND, config, count, key, files, write)?))
}

fn write_set(dir: &Path, config: &SceneConfig, count: usize, key: Key) -> Result<()> {
    let images = dir.join(IMAGES);
    fs::create_dir(&images).map_err(|source| Error::io("create", &images, source))?;
    let scenes: Vec<Vec<SceneObject>> = (0..count)
        .into_par_iter()
        .map(|index| {
            let (image, objects) = render_scene(config, key.index(index as u64))?;
            // Chroma is subsampled below quality 90.
            write_jpeg(&images.join(file_name(index)), &image, config.jpeg_quality)?;
            Ok(objects)
        })
        .collect::<Result<_>>()?;
    write_json(&dir.join(ANNOTATIONS), &coco(config, scenes))
}

fn file_name(index: usize) -> String {
    format!("{:06}.jpg", index + 1)
}

#[derive(Serialize)]
struct CocoFile {
    images: Vec<CocoImage>,
    annotations: Vec<CocoAnnotation>,
    categories: Vec<CocoCategory>,
}

#[derive(Serialize)]
struct CocoImage {
    id: usize,
    file_name: String,
    width: usize,
    height: usize,
}

#[derive(Serialize)]
struct CocoAnnotation {
    id: usize,
    image_id: usize,
    category_id: usize,
    bbox: [f32; 4],
    area: f32,
    iscrowd: u8,
    occlusion: f32,
    truncation: f32,
    blur: f32,
    fading_side: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thin_part: Option<f32>,
}

#[derive(Serialize)]
struct CocoCategory {
    id: usize,
    name: &'static str,
}

fn coco(config: &SceneConfig, scenes: Vec<Vec<SceneObject>>) -> CocoFile {
    let image = |index| CocoImage {
        id: index + 1,
        file_name: file_name(index),
        width: config.width,
        height: config.height,
    };
    let images = (0..scenes.len()).map(image).collect();
    let objects = scenes
        .into_iter()
        .enumerate()
        .flat_map(|(index, objects)| objects.into_iter().map(move |object| (index + 1, object)));
    let annotation = |(index, (image_id, object)): (usize, (usize, SceneObject))| CocoAnnotation {
        id: index + 1,
        image_id,
        category_id: object.category_id,
        bbox: object.bbox,
        area: object.area,
        iscrowd: 0,
        occlusion: object.occlusion,
        truncation: object.truncation,
        blur: object.blur,
        fading_side: object.fading_side,
        thin_part: object.thin_part,
    };
    let annotations = objects.enumerate().map(annotation).collect();
    let names = config.categories.iter().enumerate();
    let categories =
        names.map(|(index, category)| CocoCategory { id: index + 1, name: category.name() }).collect();
    CocoFile { images, annotations, categories }
}
