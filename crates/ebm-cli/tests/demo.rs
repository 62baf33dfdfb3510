//! `ebm demo`: who is answered, what it does with hostile requests, and what a browser shows.

#[path = "demo/ages.rs"]
mod ages;
#[path = "demo/attacks.rs"]
mod attacks;
#[path = "demo/browser.rs"]
mod browser;
use crate::chromium;
#[path = "demo/server.rs"]
mod server;
#[path = "demo/toy.rs"]
mod toy;

use serde_json::{Value, json};

use crate::common::program::refused;
use server::{Demo, numbers, photograph, predicted};

#[test]
fn the_boxes_are_those_of_predict_detection_climb_and_have_a_density() {
    let demo = Demo::start();
    let found = demo.look("photo.jpg", &std::fs::read(photograph()).unwrap());
    let lines = predicted();
    let detections = found["detections"].as_array().unwrap();
    assert!(lines.len() >= 3 && lines.len() == detections.len(), "{found}");
    for (line, detection) in lines.iter().zip(detections) {
        for (key, own) in [("bbox", "bbox"), ("bbox_before", "before")] {
            for (a, b) in numbers(&line[key]).iter().zip(numbers(&detection[own])) {
                assert!((a - b).abs() < 1e-6, "{line} {detection}");
            }
        }
        let score = |value: &Value| value["score"].as_f64().unwrap();
        assert!((score(line) - score(detection)).abs() < 1e-6 && line["label_name"] == detection["name"]);
    }
    assert_eq!((&found["width"], &found["height"]), (&json!(640), &json!(428)));

    let person = detections.iter().find(|one| one["name"] == "person").unwrap();
    let mut start = numbers(&person["bbox"]);
    start[0] += 25.0;
    let asked = json!({"image": found["image"], "label": person["label"], "bbox": start});
    let climbed = demo.asks("boxes/climb", &asked, 200);
    let path = climbed["path"].as_array().unwrap();
    let f: Vec<f64> = path.iter().map(|point| point["f"].as_f64().unwrap()).collect();
    assert!(f.len() > 5 && f.windows(2).all(|pair| pair[1] >= pair[0]) && f[f.len() - 1] > f[0], "{f:?}");
    let end = numbers(&path[f.len() - 1]["bbox"]);
    assert!((end[0] - start[0]).abs() > 1.0 && numbers(&path[0]["bbox"]) == start, "{end:?}");

    let about = json!({"image": found["image"], "label": person["label"], "bbox": end, "corner": "top_left"});
    let density = demo.asks("boxes/density", &about, 200);
    let p = numbers(&density["corner"]["p"]);
    assert!(p.len() == 64 * 64 && p.contains(&1.0) && p.iter().all(|p| (0.0..=1.0).contains(p)));
    for (edge, place) in [end[0], end[1], end[0] + end[2], end[1] + end[3]].iter().zip(0..) {
        let intervals = density["edges_90"][place].as_array().unwrap();
        let holds = |one: &Value| numbers(one)[0] <= edge + 1e-6 && edge - 1e-6 <= numbers(one)[1];
        assert!(intervals.iter().any(holds), "{density}");
    }

    let refused = [
        (with(&asked, "bbox", json!([0, 0, 0, 0])), 400),
        (with(&asked, "bbox", json!([9999, 0, 10, 10])), 400),
        (with(&asked, "bbox", json!([1e300, 0, 10, 10])), 400),
        (with(&asked, "other", json!(1)), 400),
        (with(&asked, "image", json!(77)), 404),
        (with(&asked, "label", json!(2)), 422),
        (with(&asked, "label", json!(100_000)), 422),
    ];
    for (asked, status) in refused {
        let answer = demo.asks("boxes/climb", &asked, status);
        assert!(answer["error"].is_string(), "{answer}");
    }
    demo.asks("boxes/density", &with(&about, "corner", json!("middle")), 400);
}

fn with(asked: &Value, key: &str, value: Value) -> Value {
    let mut asked = asked.clone();
    asked[key] = value;
    asked
}

#[test]
fn a_port_that_is_taken_is_named_and_a_signal_ends_it() {
    let mut demo = Demo::start();
    let port = demo.port().to_string();
    refused(&["demo", "--port", &port], &[&format!("cannot listen at 127.0.0.1:{port}")]);
    assert_eq!(demo.get("").status, 200);
    let output = demo.interrupt();
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
}
