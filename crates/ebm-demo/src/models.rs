//! All that the page computes with, and which request asks for what.

use ebm_detect::Detector;
use ebm_face::AgeEstimator;
use ebm_server::{Answer, Call, Refusal, Site, StatusCode, json};
use ebm_toy::Experiment;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ages::Ages;
use crate::boxes::Boxes;
use crate::error::Result;
use crate::page;
use crate::toy::Toy;

/// The models behind the page.
pub struct Models {
    boxes: Boxes,
    toy: Toy,
    ages: Ages,
}

impl Models {
    /// With a detector for the first tab, of whose detections those from `min_score` on are shown; the settings of the toy;
    /// and what estimates ages.
    pub fn new(detector: Detector, min_score: f32, toy: Experiment, ages: AgeEstimator) -> Self {
        Self { boxes: Boxes::new(detector, min_score), toy: Toy::new(toy), ages: Ages::new(ages) }
    }
}

impl Site for Models {
    fn file(&self, name: &str) -> Option<Answer> {
        page::file(name)
    }

    fn compute(&self, call: &Call) -> Option<std::result::Result<Answer, Refusal>> {
        let path = call.path.strip_prefix("api/").filter(|_| call.is_post)?;
        let (Self { boxes, toy, ages }, Call { query, body, .. }) = (self, call);
        Some(match path {
            "boxes/model" => told(Ok(boxes.model())),
            "boxes/look" => told(boxes.look(query, body)),
            "boxes/climb" => asked(body, |asked| boxes.climb(asked)),
            "boxes/density" => asked(body, |asked| boxes.density(asked)),
            "toy/model" => told(Ok(toy.model())),
            "toy/begin" => asked(body, |asked| toy.begin(asked)),
            "toy/train" => asked(body, |asked| toy.train(asked)),
            "toy/add" => asked(body, |asked| toy.add(asked)),
            "toy/curve" => asked(body, |asked| toy.curve(asked)),
            "ages/model" => told(Ok(ages.model())),
            "ages/look" => told(ages.look(query, body)),
            "ages/estimate" => asked(body, |asked| ages.estimate(asked)),
            _ => return None,
        })
    }
}

/// The answer to a request's JSON.
fn asked<Q: DeserializeOwned, A: Serialize>(
    body: &[u8],
    answer: impl FnOnce(&Q) -> Result<A>,
) -> std::result::Result<Answer, Refusal> {
    let question = serde_json::from_slice(body)
        .map_err(|error| Refusal::bad(format!("the request is not understood: {error}")))?;
    told(answer(&question))
}

fn told<A: Serialize>(answer: Result<A>) -> std::result::Result<Answer, Refusal> {
    Ok(json(StatusCode::OK, &answer?))
}
