//! All that the page computes with, and which request asks for what.

use ebm_detect::Detector;
use hyper::StatusCode;
use serde::de::DeserializeOwned;

use crate::answer::{Answer, Refusal, json};
use crate::boxes::Boxes;

/// The models behind the page.
pub struct Models {
    boxes: Boxes,
}

impl Models {
    /// With a detector for the first tab, of whose detections those from `min_score` on are shown.
    pub fn new(detector: Detector, min_score: f32) -> Self {
        Self { boxes: Boxes::new(detector, min_score) }
    }

    /// The answer to a request with this path and body; none where there is nothing of that name.
    pub(crate) fn answer(&self, path: &str, query: &str, body: &[u8]) -> Option<Result<Answer, Refusal>> {
        let boxes = &self.boxes;
        Some(match path {
            "boxes/model" => Ok(json(StatusCode::OK, &boxes.model())),
            "boxes/look" => boxes.look(query, body).map(|seen| json(StatusCode::OK, &seen)),
            "boxes/climb" => parsed(body).and_then(|asked| Ok(json(StatusCode::OK, &boxes.climb(&asked)?))),
            "boxes/density" => {
                parsed(body).and_then(|asked| Ok(json(StatusCode::OK, &boxes.density(&asked)?)))
            }
            _ => return None,
        })
    }

    /// Ends what goes on beside requests.
    pub(crate) fn stop(&self) {}
}

/// A request's JSON.
fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body)
        .map_err(|error| Refusal::bad(format!("the request is not understood: {error}")))
}
