//! What makes the box of an annotated object uncertain, as the annotation file tells it.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::render::SceneObject;
use ebm_data::files::read_utf8;
use ebm_data::{Error, Result};

/// How an object of a generated scene is hidden, cut, blurred or faint; the fields of the same names of its
/// annotation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObjectAttributes {
    /// The fraction of the object's area inside the image that lies behind other silhouettes, in 0..=1.
    pub occlusion: f32,
    /// The fraction of the whole silhouette outside the image, in 0..=1.
    pub truncation: f32,
    /// Standard deviation of its blur in pixels; of a motion, along it.
    pub blur: f32,
    /// Whether one side fades or takes the background's colour.
    pub fading_side: bool,
    /// Opacity of the handle or antenna, in 0..=1, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thin_part: Option<f32>,
}

impl From<&SceneObject> for ObjectAttributes {
    fn from(object: &SceneObject) -> Self {
        let &SceneObject { occlusion, truncation, blur, fading_side, thin_part, .. } = object;
        Self { occlusion, truncation, blur, fading_side, thin_part }
    }
}

/// The largest annotation file to read, in bytes.
const LIMIT: u64 = 1 << 30;

#[derive(Deserialize)]
struct File {
    annotations: Vec<Annotation>,
}

#[derive(Deserialize)]
struct Annotation {
    id: u64,
    #[serde(flatten)]
    attributes: ObjectAttributes,
}

/// The ids of the annotations of a set that [`generate`](super::generate) made, each with the attributes of
/// its object, in the file's order.
///
/// # Errors
/// [`Error::Io`] or [`Error::FileTooLarge`]; [`Error::Format`] if the file is no annotation file or an
/// annotation lacks the attributes, as COCO's own do.
pub fn read_attributes(annotations: &Path) -> Result<Vec<(u64, ObjectAttributes)>> {
    let bytes = read_utf8(annotations, LIMIT)?;
    let file: File = serde_json::from_slice(&bytes).map_err(|error| Error::Format {
        path: annotations.to_owned(),
        expected: "the annotations of generated scenes",
        detail: format!("{error}; occlusion, truncation, blur and fading_side come with `ebm data generate`"),
    })?;
    Ok(file.annotations.into_iter().map(|annotation| (annotation.id, annotation.attributes)).collect())
}
