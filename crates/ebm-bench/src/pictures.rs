//! The pictures that both sides of a work read.

use std::path::PathBuf;

use anyhow::Result;
use ebm_data::staging::{Busy, Staging};
use ebm_seed::Key;
use ebm_synth::scenes::{SceneConfig, generate};

use super::work::{Size, Task};

/// The file of the annotations in the folder, and the folder of the images in it.
pub const ANNOTATIONS: &str = "annotations.json";
pub const IMAGES: &str = "images";
/// The file in it in which our side says what it made of them.
pub const MADE: &str = "made.json";

/// Generated scenes as JPEGs of quality 90, always the same; they go with the value.
pub struct Pictures {
    staging: Staging,
}

impl Pictures {
    /// Those of `task`, in a new folder among the system's temporary files; none, if it reads none.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn of(task: Task) -> Result<Option<Self>> {
        let Some((count, Size { height, width })) = task.pictures() else { return Ok(None) };
        let name = format!("ebm-bench-{}", std::process::id());
        let pictures = Self { staging: Staging::beside(&std::env::temp_dir().join(name), Busy::Wait)? };
        let shorter = height.min(width) as f32;
        let config =
            SceneConfig { width, height, size: shorter / 6.0..=shorter / 2.0, ..SceneConfig::default() };
        generate(&pictures.folder(), &config, count, Key::new(0).split("bench"))?;
        Ok(Some(pictures))
    }

    /// Where they are.
    pub fn folder(&self) -> PathBuf {
        self.staging.path().join("scenes")
    }
}
