//! The page of `ebm demo`, which refines boxes, trains a density and estimates ages.
//!
//! [`Models`] is a site of [`crate::server`]; each tab of the page has a module here and a script beside it.

mod ages;
mod boxes;
mod toy;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ebm_core::GridDensity;
use ebm_data::Image;
use ebm_data::decode::{DecodeLimits, decode_upright};
use ebm_detect::Detector;
use ebm_face::AgeEstimator;
use ebm_toy::Experiment;
use hyper::StatusCode;
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use self::ages::Ages;
use self::boxes::Boxes;
use self::toy::Toy;
use crate::page::{CHART, Document, PAGE};
use crate::server::{Answer, BODY_BYTES, Call, Refusal, Site, bytes, html};

/// The result of a request.
type Result<T, E = Refusal> = std::result::Result<T, E>;

/// Scripts of the page in their order.
const SCRIPTS: [&str; 7] = [
    PAGE,
    CHART,
    include_str!("common.js"),
    include_str!("box.js"),
    include_str!("boxes.js"),
    include_str!("toy.js"),
    include_str!("ages.js"),
];
const PHOTOGRAPH: &[u8] = include_bytes!("../../embedded/photograph.jpg");

/// Models behind the page.
pub struct Models {
    boxes: Boxes,
    toy: Toy,
    ages: Ages,
}

impl Models {
    /// Creates the page for a detector, whose detections with a score of at least `min_score` are shown, the settings of the
    /// toy experiment, and an estimator of ages.
    pub fn new(detector: Detector, min_score: f32, toy: Experiment, ages: AgeEstimator) -> Self {
        Self { boxes: Boxes::new(detector, min_score), toy: Toy::new(toy), ages: Ages::new(ages) }
    }
}

impl Site for Models {
    fn answer(&self, call: &Call) -> Option<Result<Answer>> {
        let (Self { boxes, toy, ages }, Call { query, body, .. }) = (self, call);
        let answer = match (call.path.as_str(), call.is_post) {
            ("", false) => return Some(Ok(html(page()))),
            ("photograph.jpg", false) => {
                return Some(Ok(bytes(StatusCode::OK, "image/jpeg", PHOTOGRAPH.into())));
            }
            ("boxes/look", true) => boxes.detect(query, body),
            ("boxes/climb", true) => asked(body).and_then(|asked| boxes.climb(&asked)),
            ("boxes/density", true) => asked(body).and_then(|asked| boxes.density(&asked)),
            ("toy/model", true) => Ok(toy.model()),
            ("toy/begin", true) => asked(body).and_then(|asked| toy.begin(&asked)),
            ("toy/train", true) => asked(body).and_then(|asked| toy.train(&asked)),
            ("toy/add", true) => asked(body).and_then(|asked| toy.add(&asked)),
            ("toy/curve", true) => asked(body).and_then(|asked| toy.curve(&asked)),
            ("ages/look", true) => ages.load(query, body),
            ("ages/estimate", true) => asked(body).and_then(|asked| ages.estimate(&asked)),
            _ => return None,
        };
        Some(answer.and_then(|value| crate::server::json(&value)))
    }
}

fn page() -> String {
    let (style, body) = (include_str!("demo.css"), include_str!("body.html"));
    Document { title: "ebm demo", is_served: true, style, body, charts: None, scripts: &SCRIPTS }.render()
}

/// Parses a request's JSON.
fn asked<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    serde_json::from_slice(body)
        .map_err(|error| Refusal::bad(format!("the request is not understood: {error}")))
}

/// Decodes the photograph in the file `bytes`; its name is the query `name=`.
fn upload(query: &str, bytes: &[u8]) -> Result<Image> {
    let name = query.split('&').find_map(|part| part.strip_prefix("name=")).unwrap_or("the%20photograph");
    let name = percent_decode_str(name).decode_utf8_lossy();
    let limits =
        DecodeLimits { max_file_bytes: BODY_BYTES as u64, max_pixels: 40_000_000, ..DecodeLimits::default() };
    Ok(decode_upright(bytes, Path::new(&*name), &limits)?)
}

/// Checks that a box is valid and not outside of its photograph.
fn check_box(bbox: [f64; 4], size: [usize; 2]) -> Result<()> {
    let [x, y, width, height] = bbox;
    let [columns, rows] = size.map(|side| side as f64);
    let is_box = bbox.iter().all(|value| value.abs() <= 1e6) && width >= 1.0 && height >= 1.0;
    if !is_box || x >= columns || y >= rows || x + width <= 0.0 || y + height <= 0.0 {
        return Err(Refusal::bad("a box is at least a pixel wide and high, and partly in the photograph"));
    }
    Ok(())
}

/// Returns p(y | x) of a number for the page. Two modes count if log p falls by `prominence` nats between them.
fn density(density: &GridDensity, prominence: f64) -> Result<Value> {
    let points = density.points();
    Ok(json!({
        "first": points[0],
        "step": points[1] - points[0],
        "p": density.log_prob_values().iter().map(|log| log.exp()).collect::<Vec<f64>>(),
        "mean": density.mean(),
        "median": density.quantile(0.5)?,
        "modes": density.modes(prominence),
        "region_90": density.highest_density_region(0.9)?.intervals,
    }))
}

/// Rounds a density's value from 0 to 1 to thousandths, finer than colours show.
fn shade(p: f64) -> f64 {
    (p * 1000.0).round() / 1000.0
}

/// The four latest values, each with its number.
struct Recent<T>(Mutex<VecDeque<(u64, T)>>);

impl<T> Recent<T> {
    fn new() -> Self {
        Self(Mutex::default())
    }

    /// Keeps a value, and returns its number.
    fn add(&self, one: T) -> u64 {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = kept.front().map_or(0, |(number, _)| number + 1);
        kept.truncate(3);
        kept.push_front((number, one));
        number
    }

    /// Calls `ask` with the value of this number.
    fn with<A>(&self, number: u64, ask: impl FnOnce(&mut T) -> Result<A>) -> Result<A> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter_mut().find(|(known, _)| *known == number);
        let said = "the server no longer has this photograph or training; begin again";
        let (_, found) = found.ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, said))?;
        ask(found)
    }
}

impl From<ebm_data::Error> for Refusal {
    fn from(error: ebm_data::Error) -> Self {
        use ebm_data::Error as E;
        let status = match &error {
            E::TooLarge(..) => StatusCode::PAYLOAD_TOO_LARGE,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Self::new(status, error.to_string())
    }
}

impl From<ebm_experiment::Error> for Refusal {
    fn from(error: ebm_experiment::Error) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
    }
}

impl From<ebm_core::Error> for Refusal {
    fn from(error: ebm_core::Error) -> Self {
        ebm_experiment::Error::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes() {
        let recent = Recent::new();
        let numbers = ["a", "b", "c", "d", "e"].map(|one| recent.add(one));
        let read = |number| recent.with(number, |one| Ok(*one)).map_err(|refusal| refusal.status);
        assert_eq!(read(numbers[0]), Err(StatusCode::NOT_FOUND));
        assert_eq!([1, 4].map(|place: usize| read(numbers[place])), [Ok("b"), Ok("e")]);
    }

    #[test]
    fn nothing_of_the_page_is_inline_and_no_script_ends_early() {
        let body = include_str!("body.html");
        assert!(!["<script", "<style", "style=", "javascript:"].iter().any(|part| body.contains(part)));
        assert!(body.split_whitespace().all(|word| !(word.starts_with("on") && word.contains('='))));
        for script in SCRIPTS {
            assert!(!["</script", "<!--", "innerHTML", "eval("].iter().any(|part| script.contains(part)));
        }
    }
}
