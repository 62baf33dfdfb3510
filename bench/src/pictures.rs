//! The pictures that both sides of a work read.

use std::path::Path;

use anyhow::Result;
use ebm_base::Key;
use ebm_synth::scenes::{SceneConfig, generate};

use super::work::{Size, Task};

/// The file of the annotations in the folder, and the folder of the images in it.
pub const ANNOTATIONS: &str = "annotations.json";
pub const IMAGES: &str = "images";
/// The file in it in which our side says what it made of them.
pub const MADE: &str = "made.json";

/// Writes drawn scenes as JPEGs of quality 90, always the same, into `folder`; nothing for a task that reads none.
///
/// # Errors
/// When they cannot be written.
pub fn write(task: Task, folder: &Path) -> Result<()> {
    let Task::Loader { images, size: Size { height, width }, .. } = task else { return Ok(()) };
    let shorter = height.min(width) as f32;
    let config = SceneConfig { width, height, size: shorter / 6.0..=shorter / 2.0, ..SceneConfig::default() };
    generate(folder, &config, images, Key::new(0).split("bench"))?;
    Ok(())
}
