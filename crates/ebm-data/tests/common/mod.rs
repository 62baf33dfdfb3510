//! What several test files need.
#![allow(dead_code, clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use ebm_data::loader::Batch;
use ebm_data::{Image, Result};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub fn golden(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden")).join(name)
}

/// The picture of make_goldens.py.
pub fn picture(width: usize, height: usize) -> Image {
    let mut pixels = Vec::new();
    for y in 0..height {
        for x in 0..width {
            pixels.extend((0..3).map(|c| ((x * x * 3 + y * 7 + x * y * (c + 1) + 40 * c) % 256) as u8));
        }
    }
    Image::new(width, height, pixels).unwrap()
}

/// The image mirrored left to right.
pub fn mirrored(image: &Image) -> Image {
    let mut mirrored = image.clone();
    for row in mirrored.pixels.chunks_exact_mut(3 * image.width) {
        row.as_chunks_mut::<3>().0.reverse();
    }
    mirrored
}

/// Image `id`'s size in [`write_dataset`]; half are portraits.
pub fn size_of(id: usize) -> (usize, usize) {
    if id.is_multiple_of(2) { (48 + id, 40) } else { (36, 50 + id) }
}

/// Writes `count` JPEGs with one object each to `dir` and returns the annotation file.
pub fn write_dataset(dir: &Path, count: usize) -> PathBuf {
    let mut images = Vec::new();
    let mut annotations = Vec::new();
    for id in 0..count {
        let (width, height) = size_of(id);
        let name = format!("{id:03}.jpg");
        ebm_data::encode::write_jpeg(&dir.join(&name), &picture(width, height), 90).unwrap();
        images.push(json!({"id": id, "file_name": name, "width": width, "height": height}));
        annotations
            .push(json!({"id": id, "image_id": id, "category_id": 7, "bbox": [id, 2, 11, 13], "area": 143,
            "iscrowd": 0}));
    }
    write_json(
        &dir.join("annotations.json"),
        &json!({"images": images, "annotations": annotations,
        "categories": [{"id": 7, "name": "thing"}]}),
    )
}

pub fn write_json(path: &Path, value: &Value) -> PathBuf {
    std::fs::write(path, value.to_string()).unwrap();
    path.to_owned()
}

/// A hash of all that batches hold.
pub fn digest<S: std::fmt::Debug>(batches: impl Iterator<Item = Result<Batch<S>>>) -> Vec<u8> {
    let mut hash = Sha256::new();
    for batch in batches {
        let batch = batch.unwrap();
        batch.data.iter().for_each(|number| hash.update(number.to_le_bytes()));
        hash.update(format!("{} {} {:?} {:?}", batch.epoch, batch.step, batch.shape, batch.samples));
    }
    hash.finalize().to_vec()
}
