//! What kind of scenes to make.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::drawing::shape::Category;
use ebm_data::{Error, Result};

/// How ambiguous the box edges are; see [`SceneConfig::preset`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Difficulty {
    /// Separate, sharp objects on a calm background.
    Easy,
    /// Most edges are clear, a good part is hidden, blurred or faint.
    Normal,
    /// Crowded, noisy scenes: most objects have an uncertain edge.
    Hard,
}

/// The distribution of scenes. Lengths are in pixels, probabilities in 0..=1.
///
/// In a configuration file every key is optional and defaults to [`Difficulty::Normal`]; unknown keys are
/// errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SceneConfig {
    /// Columns of each image.
    pub width: usize,
    /// Rows of each image.
    pub height: usize,
    /// How many annotated objects are asked for; one that finds no admissible place is left out.
    pub objects: RangeInclusive<usize>,
    /// The categories, equally likely. An object's `category_id` is its place in this list, from 1.
    pub categories: Vec<Category>,
    /// Nominal diameter of an object before its handle or antenna is added; small ones are more frequent.
    pub size: RangeInclusive<f32>,
    /// Probability that an object is placed across the edge of an earlier one, in front of it.
    pub occlusion: f32,
    /// The largest fraction of an object's silhouette that others may hide.
    pub max_occlusion: f32,
    /// The largest number of strips, not annotated, that lie over the objects.
    pub occluders: usize,
    /// The amount of clutter behind the objects, 0..=1.
    pub clutter: f32,
    /// The largest standard deviation of an object's blur.
    pub blur: f32,
    /// Probability that one side of an object fades or takes the background's colour, and, independently,
    /// that a handle or antenna is nearly transparent.
    pub faint: f32,
    /// Probability that an object is placed across the image border.
    pub truncation: f32,
    /// Standard deviation of the sensor noise at mid-grey, in 8-bit levels.
    pub noise: f32,
    /// JPEG quality, 1..=100; from 90 on, chroma is not subsampled.
    pub jpeg_quality: u8,
}

impl Default for SceneConfig {
    fn default() -> Self {
        Self::preset(Difficulty::Normal)
    }
}

impl SceneConfig {
    /// 160x160 scenes of the given difficulty.
    pub fn preset(difficulty: Difficulty) -> Self {
        let normal = Self {
            width: 160,
            height: 160,
            objects: 3..=8,
            categories: Category::ALL.to_vec(),
            size: 20.0..=64.0,
            occlusion: 0.35,
            max_occlusion: 0.65,
            occluders: 3,
            clutter: 0.5,
            blur: 2.4,
            faint: 0.3,
            truncation: 0.12,
            noise: 5.0,
            jpeg_quality: 90,
        };
        match difficulty {
            Difficulty::Easy => Self {
                objects: 2..=5,
                size: 24.0..=64.0,
                occlusion: 0.05,
                max_occlusion: 0.2,
                occluders: 0,
                clutter: 0.15,
                blur: 0.8,
                faint: 0.05,
                truncation: 0.04,
                noise: 2.0,
                jpeg_quality: 95,
                ..normal
            },
            Difficulty::Normal => normal,
            Difficulty::Hard => Self {
                objects: 5..=11,
                size: 18.0..=60.0,
                occlusion: 0.6,
                occluders: 6,
                clutter: 1.0,
                blur: 3.6,
                faint: 0.55,
                truncation: 0.2,
                noise: 9.0,
                jpeg_quality: 80,
                ..normal
            },
        }
    }

    /// The category of `category_id`, if there is one.
    pub fn category(&self, category_id: usize) -> Option<Category> {
        self.categories.get(category_id.checked_sub(1)?).copied()
    }

    /// Checks every field.
    ///
    /// # Errors
    /// [`Error::Argument`] with the first field that is out of range.
    pub fn validate(&self) -> Result<()> {
        let shorter = self.width.min(self.height) as f32;
        let (smallest, largest) = (*self.size.start(), *self.size.end());
        let max_occlusion_ok = (0.0..=0.9).contains(&self.max_occlusion);
        check("width", (32..=4096).contains(&self.width), "must be in 32..=4096 pixels")?;
        check("height", (32..=4096).contains(&self.height), "must be in 32..=4096 pixels")?;
        check("objects", (1..=100).contains(self.objects.start()), "must start in 1..=100")?;
        check("objects", (1..=100).contains(self.objects.end()), "must end in 1..=100")?;
        check("objects", !self.objects.is_empty(), "must not end before it starts")?;
        check("categories", !self.categories.is_empty(), "must name at least one category")?;
        check("categories", self.categories_differ(), "must not name a category twice")?;
        check("size", (8.0..=4096.0).contains(&smallest), "must start at 8 pixels or more")?;
        check("size", smallest <= largest, "must not end before it starts")?;
        check("size", largest <= 0.6 * shorter, "must end at 0.6 of the image's shorter side or less")?;
        check("occlusion", is_probability(self.occlusion), "must be in 0..=1")?;
        check("max_occlusion", max_occlusion_ok, "must be in 0..=0.9")?;
        check("occluders", self.occluders <= 100, "must be 100 or less")?;
        check("clutter", is_probability(self.clutter), "must be in 0..=1")?;
        check("blur", (0.0..=8.0).contains(&self.blur), "must be in 0..=8 pixels")?;
        check("faint", is_probability(self.faint), "must be in 0..=1")?;
        check("truncation", is_probability(self.truncation), "must be in 0..=1")?;
        check("noise", (0.0..=64.0).contains(&self.noise), "must be in 0..=64 levels")?;
        check("jpeg_quality", (1..=100).contains(&self.jpeg_quality), "must be in 1..=100")
    }

    fn categories_differ(&self) -> bool {
        let seen = |index: usize| {
            self.categories.iter().take(index).any(|&c| Some(&c) == self.categories.get(index))
        };
        !(0..self.categories.len()).any(seen)
    }
}

fn is_probability(value: f32) -> bool {
    (0.0..=1.0).contains(&value)
}

fn check(field: &'static str, valid: bool, requirement: &str) -> Result<()> {
    match valid {
        true => Ok(()),
        false => Err(Error::Argument { name: field, detail: format!("of a scene {requirement}") }),
    }
}
