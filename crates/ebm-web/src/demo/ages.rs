//! The tab "Ages": p(age | face) of a face in a photograph.

use ebm_data::Image;
use ebm_data::faces::crop_face;
use ebm_face::AgeEstimator;
use ebm_face::prediction::{FACE_CROP, PROMINENCE};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Recent, Result, check_box, density, upload};
use crate::server::Refusal;

/// An estimator of ages, and the latest photographs.
pub(super) struct Ages {
    estimator: AgeEstimator,
    known: Recent<Image>,
}

/// Request for the age of a face.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Estimate {
    image: u64,
    /// Box `[x, y, width, height]` of the face in pixels.
    bbox: [f64; 4],
}

impl Ages {
    pub fn new(estimator: AgeEstimator) -> Self {
        Self { estimator, known: Recent::new() }
    }

    /// Keeps the photograph in the file `bytes`. `crop` in the answer is the side of the square that the network sees, over
    /// the longer side of a face's box.
    pub fn load(&self, query: &str, bytes: &[u8]) -> Result<Value> {
        let image = upload(query, bytes)?;
        let (width, height) = (image.width, image.height);
        Ok(json!({"image": self.known.add(image), "width": width, "height": height, "crop": FACE_CROP}))
    }

    /// Estimates the age of the face in a box.
    pub fn estimate(&self, asked: &Estimate) -> Result<Value> {
        let face = self.known.with(asked.image, |image| {
            let size = [image.width, image.height];
            check_box(asked.bbox, size)?;
            // A larger box would need a crop larger than any photograph.
            if asked.bbox[2] > size[0] as f64 || asked.bbox[3] > size[1] as f64 {
                return Err(Refusal::bad("a face is no larger than its photograph"));
            }
            Ok(crop_face(image, asked.bbox, FACE_CROP)?)
        })?;
        let estimate = self.estimator.estimate(&face)?;
        let mut answer = density(&estimate.density, PROMINENCE)?;
        answer["prediction"] = json!(estimate.value);
        Ok(answer)
    }
}
