//! The tab "Toy", without a browser.

use serde_json::{Value, json};

use crate::common::program::{files_in, json_in, succeeds, text};

use super::server::{Demo, numbers};
use super::with;

/// Returns the divergence and the loss of the second epoch of `ebm reproduce toy`.
pub fn reproduced() -> [f64; 2] {
    let out = tempfile::tempdir().unwrap();
    let args = ["reproduce", "toy", "--smoke", "--set=schedule.epochs=2", "--problem", "dataset1"];
    let more = ["--methods", "ML-IS", "--seeds", "1", "--out", text(out.path())];
    succeeds(&[&args[..], &more].concat());
    let results = json_in(&files_in(out.path())[0].join("results.json"));
    let row = &results["rows"][0];
    ["kl", "final_loss"].map(|key| row[key].as_f64().unwrap())
}

#[test]
fn a_training_in_slices_comes_to_what_reproduce_comes_to() {
    let demo = Demo::start();
    let model = demo.asks("toy/model", &Value::Null, 200);
    assert_eq!(model["epochs"], 75);
    let begun = demo.asks("toy/begin", &begin(json!("dataset1"), "ML-IS"), 200);
    assert_eq!((numbers(&begun["x"]).len(), &begun["state"]["losses"]), (2000, &json!([])));
    let train = json!({"training": begun["training"], "epochs": 2});
    let (mut slices, mut state) = (0, begun["state"].clone());
    while numbers(&state["losses"]).len() < 2 {
        state = demo.asks("toy/train", &train, 200);
        slices += 1;
    }
    assert!(slices > 1, "{slices} slices");
    let [kl, loss] = reproduced();
    let own = [state["kl"].as_f64().unwrap(), numbers(&state["losses"])[1]];
    assert!((own[0] - kl).abs() < 1e-6 && (own[1] - loss).abs() < 1e-6, "{own:?} {kl} {loss}");
    // Nothing is left to do, and nothing is done.
    assert_eq!(demo.asks("toy/train", &train, 200), state);

    let map = &state["map"];
    let cells = map["columns"].as_u64().unwrap() * map["rows"].as_u64().unwrap();
    let p = numbers(&map["p"]);
    assert!(p.len() as u64 == cells && p.iter().all(|p| (0.0..=1.0).contains(p)) && p.contains(&1.0));

    let curve = demo.asks("toy/curve", &json!({"training": begun["training"], "x": -1.5}), 200);
    for key in ["p", "truth"] {
        let mass = numbers(&curve[key]).iter().sum::<f64>() * curve["step"].as_f64().unwrap();
        assert!((mass - 1.0).abs() < 1e-2, "{key}: {mass}");
    }
    assert!(!curve["region_90"].as_array().unwrap().is_empty());
}

fn begin(problem: Value, method: &str) -> Value {
    json!({"problem": problem, "method": method, "added": []})
}

#[test]
fn points_of_ones_own_are_learnt_from_and_what_is_impossible_is_refused() {
    let demo = Demo::start();
    let asked = with(&begin(Value::Null, "ML-IS"), "added", json!([[0.5, 1.0], [0.6, 1.1]]));
    let begun = demo.asks("toy/begin", &asked, 200);
    let training = &begun["training"];
    assert_eq!(begun["state"]["kl"], Value::Null);
    let added = demo.asks("toy/add", &json!({"training": training, "x": 0.55, "y": 1.05}), 200);
    assert_eq!(added["points"], 3);
    let mean = |demo: &Demo| {
        let curve = demo.asks("toy/curve", &json!({"training": training, "x": 0.55}), 200);
        assert_eq!(curve["truth"], Value::Null);
        curve["mean"].as_f64().unwrap()
    };
    let before = mean(&demo);
    let mut losses = 0;
    while losses < 300 {
        let state = demo.asks("toy/train", &json!({"training": training, "epochs": 300}), 200);
        losses = numbers(&state["losses"]).len();
    }
    let after = mean(&demo);
    assert!((after - 1.05).abs() < 0.3 && (after - 1.05).abs() < (before - 1.05).abs(), "{before} {after}");

    let own = begin(json!("dataset1"), "ML-IS");
    let many: Vec<[f64; 2]> = vec![[0.0, 0.0]; 2001];
    for asked in [
        begin(json!("dataset3"), "ML-IS"),
        begin(json!("dataset1"), "<b>"),
        begin(Value::Null, "ML-IS"),
        with(&own, "added", json!([[0, 3.5]])),
        with(&own, "added", json!([[1e300, 0]])),
        with(&own, "added", json!(many)),
        with(&own, "other", json!(1)),
    ] {
        assert!(demo.asks("toy/begin", &asked, 400)["error"].is_string());
    }
    demo.asks("toy/train", &json!({"training": training, "epochs": 1001}), 400);
    demo.asks("toy/train", &json!({"training": 999, "epochs": 1}), 404);
    demo.asks("toy/add", &json!({"training": training, "x": 3.01, "y": 0}), 400);
    demo.asks("toy/curve", &json!({"training": training, "x": -3.01}), 400);
}
