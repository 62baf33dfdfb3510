//! A set of scenes on disk: `images/000001.jpg` …, `annotations.json` in COCO format, `scenes.json`.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ebm_seed::Key;
use rand::RngCore as _;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::config::SceneConfig;
use super::render::{SceneObject, render_scene};
use crate::encode::write_jpeg;
use crate::files::write_atomic;
use crate::{Error, Result};

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
const MANIFEST: &str = "scenes.json";
/// To be raised by every change that alters the scenes of a given key.
const GENERATOR: u32 = 1;

/// Writes `count` scenes into `dir`, or reuses them if `dir` holds the same set already.
///
/// Image `i` (from 0) depends on `config` and `key.index(i)` alone, not on `count` or the number of threads. The set
/// is written beside `dir` and renamed at the end, so `dir` never holds half a set. The annotations carry
/// `occlusion`, `truncation`, `blur`, `fading_side` and `thin_part` of [`SceneObject`] besides COCO's fields.
///
/// # Errors
/// [`Error::Argument`] if the configuration is not valid, `count` is 0, or `dir` holds anything else than this set;
/// [`Error::Io`] or [`Error::Encode`] if a file cannot be written.
pub fn generate(dir: &Path, config: &SceneConfig, count: usize, key: Key) -> Result<GeneratedSet> {
    config.validate()?;
    if !(1..=999_999).contains(&count) {
        return Err(Error::Argument { name: "count", detail: "of scenes must be in 1..=999999".to_owned() });
    }
    let digest = digest(config, count, key)?;
    if holds_set(dir, &digest, count)? {
        return Ok(GeneratedSet::at(dir, true));
    }
    let staging = Staging::beside(dir)?;
    write_set(&staging.0, config, count, key, &digest)?;
    match fs::rename(&staging.0, dir) {
        Ok(()) => Ok(GeneratedSet::at(dir, false)),
        // Another run may have finished the same set meanwhile.
        Err(_) if holds_set(dir, &digest, count)? => Ok(GeneratedSet::at(dir, true)),
        Err(source) => Err(Error::io("move the finished set to", dir, source)),
    }
}

/// What made a set, and the size of all its files: enough to tell whether a directory holds it whole.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    digest: String,
    bytes: u64,
    count: usize,
    config: SceneConfig,
}

/// A digest of all that determines the bytes of a set.
fn digest(config: &SceneConfig, count: usize, key: Key) -> Result<String> {
    let config = serde_json::to_string(config)
        .map_err(|error| Error::Argument { name: "config", detail: error.to_string() })?;
    let mut bytes = [0; 16];
    // The generator's version comes last: no other key of the scenes starts with this path.
    let key = key.split("digest").split(&config).index(count as u64).index(u64::from(GENERATOR));
    key.rng().fill_bytes(&mut bytes);
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether `dir` holds the whole set; `false` if it does not exist or is empty.
fn holds_set(dir: &Path, digest: &str, count: usize) -> Result<bool> {
    let occupied = |why: &str| Error::Argument {
        name: "dir",
        detail: format!("{} {why}; remove it or choose another directory", dir.display()),
    };
    match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(Error::io("list", dir, source)),
        Ok(mut entries) => {
            if entries.next().is_none() {
                return Ok(false);
            }
        }
    }
    let manifest =
        fs::read(dir.join(MANIFEST)).map_err(|_| occupied("holds files but no generated scenes"))?;
    let manifest: Manifest =
        serde_json::from_slice(&manifest).map_err(|_| occupied("holds scenes of another version"))?;
    if manifest.digest != digest {
        return Err(occupied("holds scenes of another configuration, count, seed or version"));
    }
    let paths = (0..count).map(|index| dir.join(IMAGES).join(file_name(index)));
    let sizes = paths.chain([dir.join(ANNOTATIONS)]).map(|path| size_of(&path));
    if sizes.sum::<Result<u64>>().is_ok_and(|total| total == manifest.bytes) {
        Ok(true)
    } else {
        Err(occupied("holds these scenes, but files are missing or cut short"))
    }
}

fn size_of(path: &Path) -> Result<u64> {
    Ok(fs::metadata(path).map_err(|source| Error::io("read", path, source))?.len())
}

/// A directory beside the final one, removed unless it was renamed.
struct Staging(PathBuf);

impl Staging {
    fn beside(dir: &Path) -> Result<Self> {
        let Some(name) = dir.file_name() else {
            let detail = format!("{} does not name a directory to be made", dir.display());
            return Err(Error::Argument { name: "dir", detail });
        };
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(|source| Error::io("create", parent, source))?;
        // A run that was killed leaves its directory behind, and another may be at work: take a fresh name.
        let mut number = 0u32;
        loop {
            let mut hidden = std::ffi::OsString::from(".");
            hidden.push(name);
            hidden.push(format!(".{number}.partial"));
            let staging = parent.join(hidden);
            match fs::create_dir(&staging) {
                Ok(()) => return Ok(Self(staging)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists && number < u32::MAX => number += 1,
                Err(source) => return Err(Error::io("create", &staging, source)),
            }
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Absent after the rename; a failure here must not hide the error that led to it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn write_set(dir: &Path, config: &SceneConfig, count: usize, key: Key, digest: &str) -> Result<()> {
    let images = dir.join(IMAGES);
    fs::create_dir(&images).map_err(|source| Error::io("create", &images, source))?;
    let scenes: Vec<(u64, Vec<SceneObject>)> = (0..count)
        .into_par_iter()
        .map(|index| {
            let (image, objects) = render_scene(config, key.index(index as u64))?;
            let path = images.join(file_name(index));
            // Chroma is subsampled below quality 90.
            write_jpeg(&path, &image, config.jpeg_quality)?;
            Ok((size_of(&path)?, objects))
        })
        .collect::<Result<_>>()?;
    let image_bytes: u64 = scenes.iter().map(|scene| scene.0).sum();
    let annotations = dir.join(ANNOTATIONS);
    write_json(&annotations, &coco(config, scenes))?;
    let bytes = image_bytes + size_of(&annotations)?;
    let manifest = Manifest { digest: digest.to_owned(), bytes, count, config: config.clone() };
    write_json(&dir.join(MANIFEST), &manifest)
}

fn file_name(index: usize) -> String {
    format!("{:06}.jpg", index + 1)
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let fail = |error: serde_json::Error| Error::io("write", path, error.into());
    write_atomic(path, &serde_json::to_vec(value).map_err(fail)?)
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

fn coco(config: &SceneConfig, scenes: Vec<(u64, Vec<SceneObject>)>) -> CocoFile {
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
        .flat_map(|(index, (_, objects))| objects.into_iter().map(move |object| (index + 1, object)));
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
