//! The tab "Ages": p(age | face) of a face in a photograph.

use std::time::Instant;

use ebm_data::Image;
use ebm_data::faces::crop_face;
use ebm_face::AgeEstimator;
use ebm_face::prediction::{FACE_CROP, PROMINENCE};
use ebm_server::Refusal;
use serde::{Deserialize, Serialize};

use crate::boxes::{check_box, since};
use crate::density::Density;
use crate::error::Result;
use crate::limits;
use crate::recent::Recent;
use crate::upload::upload;

/// What estimates ages, and the photographs that were sent last.
pub struct Ages {
    estimator: AgeEstimator,
    known: Recent<Image>,
}

/// What the page is told of the model.
#[derive(Serialize)]
pub struct Model {
    /// The side of the square that is looked at, over the longer side of a face's box.
    crop: f64,
}

/// A photograph that was sent.
#[derive(Serialize)]
pub struct Seen {
    /// Its number in later requests.
    image: u64,
    width: usize,
    height: usize,
}

/// A face whose age is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    image: u64,
    /// `[x, y, width, height]` of the face in pixels.
    bbox: [f64; 4],
}

/// p(age | face).
#[derive(Serialize)]
pub struct Estimated {
    /// The refined estimate, in years.
    prediction: f64,
    #[serde(flatten)]
    density: Density,
    milliseconds: f64,
}

impl Ages {
    /// With no photograph yet.
    pub fn new(estimator: AgeEstimator) -> Self {
        Self { estimator, known: Recent::new(limits::FACES, "photograph") }
    }

    /// What there is.
    pub fn model(&self) -> Model {
        Model { crop: FACE_CROP }
    }

    /// Keeps the photograph whose file is `bytes`.
    pub fn look(&self, query: &str, bytes: &[u8]) -> Result<Seen> {
        let image = upload(query, bytes)?;
        let Image { width, height, .. } = image;
        Ok(Seen { image: self.known.add(image), width, height })
    }

    /// The age of the face in a box.
    pub fn estimate(&self, asked: &Estimate) -> Result<Estimated> {
        let start = Instant::now();
        let face = self.known.with(asked.image, |image| {
            let size = [image.width, image.height];
            check_box(asked.bbox, size)?;
            // The crop of a larger one would be larger than any photograph.
            if asked.bbox[2] > size[0] as f64 || asked.bbox[3] > size[1] as f64 {
                return Err(Refusal::bad("a face is no larger than its photograph").into());
            }
            Ok(crop_face(image, asked.bbox, FACE_CROP)?)
        })?;
        let estimate = self.estimator.estimate(&face)?;
        Ok(Estimated {
            prediction: estimate.value,
            density: Density::of(&estimate.density, PROMINENCE)?,
            milliseconds: since(start),
        })
    }
}
