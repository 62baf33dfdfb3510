//! Pictures that both sides of a work read.

use std::path::Path;

use anyhow::Result;
use ebm_base::Key;
use ebm_synth::scenes::{SceneConfig, generate};

use super::work::{Size, Task};

/// Names of the annotations' file and of the images' folder, in the folder of the pictures.
pub const ANNOTATIONS: &str = "annotations.json";
pub const IMAGES: &str = "images";
/// Name of the file with our side's statistics, in the folder of the pictures.
pub const STATISTICS: &str = "made.json";

/// Writes generated scenes into `folder`, always the same, as JPEGs of quality 90, if the task reads any.
///
/// # Errors
/// If they cannot be written.
pub fn write(task: Task, folder: &Path) -> Result<()> {
    let Task::Loader { images, size: Size { height, width }, .. } = task else { return Ok(()) };
    let shorter = height.min(width) as f32;
    let config = SceneConfig { width, height, size: shorter / 6.0..=shorter / 2.0, ..SceneConfig::default() };
    generate(folder, &config, images, Key::new(0).split("bench"))?;
    Ok(())
}
