//! The tab "Ages", without a browser.

use serde_json::{Value, json};

use crate::common::program::{refused, succeeds, text};

use super::server::{Demo, numbers, photograph};
use super::with;

/// The networks of the repository.
pub const RUN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../weights/age");

/// Returns the output of `ebm predict age` for the face in a box of the photograph.
pub fn predicted(bbox: &[f64]) -> Value {
    let bbox: Vec<String> = bbox.iter().map(f64::to_string).collect();
    let (bbox, photograph) = (bbox.join(","), photograph());
    let args = ["predict", "age", "--run", RUN, "--box", &bbox, text(&photograph)];
    let line: Value = serde_json::from_str(&succeeds(&args)[0]).unwrap();
    line["predictions"][0].clone()
}

/// Asserts that the page shows the same numbers as the command line.
#[track_caller]
pub fn assert_same(page: &Value, line: &Value) {
    let same = |a: &Value, b: &Value| (a.as_f64().unwrap() - b.as_f64().unwrap()).abs() < 1e-6;
    for key in ["prediction", "mean", "median"] {
        assert!(same(&page[key], &line[key]), "{key}: {page} {line}");
    }
    let (modes, expected) = (numbers(&page["modes"]), numbers(&line["modes"]));
    assert!(modes.len() == expected.len() && modes.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-6));
    let intervals = [&page["region_90"], &line["region"]]
        .map(|region| region.as_array().unwrap().iter().flat_map(numbers).collect::<Vec<f64>>());
    let [own, expected] = &intervals;
    assert!(
        own.len() == expected.len() && own.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6),
        "{intervals:?}"
    );
}

#[test]
fn an_age_is_that_of_predict_age() {
    // The networks of the program, and on the command line those of the repository.
    let demo = Demo::start();
    let answer = demo.post("ages/look?name=photo.jpg", &std::fs::read(photograph()).unwrap());
    assert_eq!(answer.status, 200);
    let seen = answer.json();
    assert_eq!((&seen["width"], &seen["height"]), (&json!(640), &json!(428)));
    for bbox in [[300.0, 60.5, 90.25, 110.0], [-20.0, -30.0, 200.0, 200.0]] {
        let found = demo.asks("ages/estimate", &json!({"image": seen["image"], "bbox": bbox}), 200);
        assert_same(&found, &predicted(&bbox));
    }
    let asked = json!({"image": seen["image"], "bbox": [300, 60, 90, 110]});
    for (bbox, status) in [
        (json!([0, 0, 0, 10]), 400),
        (json!([9999, 0, 10, 10]), 400),
        (json!([0, 0, 641, 10]), 400),
        (json!([0, 0, 1e300, 10]), 400),
        (json!(null), 400),
    ] {
        demo.asks("ages/estimate", &with(&asked, "bbox", bbox), status);
    }
    demo.asks("ages/estimate", &with(&asked, "image", json!(77)), 404);
    assert_eq!(demo.post("ages/look?name=a.gif", b"GIF89a................").status, 422);
}

#[test]
fn a_run_that_is_named_must_be_there() {
    assert!(refused(&["demo", "--age", "/no/such/run"], &[]).stdout.is_empty());
}
