//! Every number of every embedded configuration, made hostile: refused with key, value and range, or it is one that a training bears.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::process::Command;

use ebm_experiment::Error;
use ebm_experiment::config::{Configured, Overrides, Settings};
use ebm_toy::{Dataset, Experiment, Problem};
use toml::{Table, Value};

const HOSTILE: [Value; 7] = [
    Value::Float(f64::NAN),
    Value::Float(f64::INFINITY),
    Value::Float(f64::NEG_INFINITY),
    Value::Float(9_223_372_036_854_775_808.0),
    Value::Integer(-1),
    Value::Integer(0),
    Value::Integer(1_000_000_000),
];

/// The dotted keys of all numbers in `value`; of the items of a list of numbers, of the first alone.
fn keys(value: &Value, key: &str, found: &mut Vec<String>) {
    match value {
        Value::Integer(_) | Value::Float(_) => found.push(key.to_owned()),
        Value::Table(table) => table.iter().for_each(|(name, value)| keys(value, &dotted(key, name), found)),
        Value::Array(items) => items.iter().enumerate().for_each(|(index, value)| match row(value) {
            Some(row) => keys(value, &dotted(key, row), found),
            None if index == 0 || value.is_table() => keys(value, &format!("{key}[{index}]"), found),
            None => {}
        }),
        _ => {}
    }
}

fn dotted(key: &str, name: &str) -> String {
    if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") }
}

fn row(value: &Value) -> Option<&str> {
    value.get("key").and_then(Value::as_str)
}

/// The place in `value` of the dotted key.
fn place<'a>(value: &'a mut Value, key: &str) -> &'a mut Value {
    key.split(['.', '[']).filter(|part| !part.is_empty()).fold(value, |value, part| match value {
        Value::Array(items) => {
            let index = part.strip_suffix(']').and_then(|part| part.parse().ok());
            let index =
                index.unwrap_or_else(|| items.iter().position(|item| row(item) == Some(part)).unwrap());
            &mut items[index]
        }
        value => &mut value[part],
    })
}

/// Makes every number of the embedded configuration `name` hostile; what is accepted, by the value.
fn accepted<S: Settings>(name: &str, settings: &Table) -> BTreeMap<String, Vec<String>> {
    let mut settings = Value::Table(settings.clone());
    let mut all = Vec::new();
    keys(&settings, "", &mut all);
    assert!(all.len() > 10, "{name}: {all:?}");
    let mut accepted = BTreeMap::<_, Vec<_>>::new();
    for key in all {
        for hostile in HOSTILE {
            let before = std::mem::replace(place(&mut settings, &key), hostile.clone());
            let text = toml::to_string(&settings).unwrap();
            *place(&mut settings, &key) = before;
            match S::parse(name, &text).map(drop) {
                Err(Error::OutOfRange(out)) => {
                    assert_eq!((out.key, out.value), (key.clone(), hostile.to_string()));
                    assert!(out.range.low < out.range.high, "{key}: {}", out.range);
                }
                // One that contradicts another.
                Err(Error::Config { .. }) if hostile.is_integer() => {}
                Ok(()) if hostile.is_integer() => {
                    accepted.entry(hostile.to_string()).or_default().push(key.clone());
                }
                other => panic!("{name}: {key} = {hostile}: {other:?}"),
            }
        }
    }
    accepted
}

/// The same of the numbers of all embedded configurations.
fn all_are_refused_or_bearable<S: Settings>() {
    for (name, _) in S::EMBEDDED {
        accepted::<S>(name, &S::embedded(name).unwrap().to_toml().unwrap().parse().unwrap());
    }
}

#[test]
fn hostile_numbers_are_refused_with_key_value_and_range() {
    all_are_refused_or_bearable::<ebm_detect::config::ExperimentConfig>();
    all_are_refused_or_bearable::<ebm_track::config::ExperimentConfig>();
    all_are_refused_or_bearable::<ebm_face::config::ExperimentConfig>();
    all_are_refused_or_bearable::<Experiment>();
}

/// The smallest settings of `name` as tables, and for each hostile value those with all numbers at it that may be.
fn hostile_settings<S: Settings>(name: &str) -> Vec<Table> {
    let smoke = Overrides { smoke: true, changes: Vec::new() };
    let settings = Configured::<S>::load(name, &smoke).unwrap().settings.to_toml().unwrap();
    let settings: Table = settings.parse().unwrap();
    let mut all = Vec::new();
    for (hostile, keys) in accepted::<S>(name, &settings) {
        let mut settings = Value::Table(settings.clone());
        let hostile = Value::Integer(hostile.parse().unwrap());
        // Whoever asks for a thousand million steps gets them.
        let is_length = |key: &String| [".steps", ".pairs_per_epoch"].iter().any(|name| key.ends_with(name));
        for key in keys.iter().filter(|key| hostile.as_integer() < Some(1 << 20) || !is_length(key)) {
            *place(&mut settings, key) = hostile.clone();
        }
        let Value::Table(settings) = settings else { panic!("no table any more") };
        all.push(settings);
    }
    all
}

/// Runs `ebm reproduce TASK --smoke` with each of these settings.
fn reproduces<S: Settings>(task: &str, name: &str, more: &[&str]) {
    for settings in hostile_settings::<S>(name) {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let (config, out, data) = (path("hostile.toml"), path("runs"), path("data"));
        std::fs::write(&config, format!("{}\n[smoke]\n", toml::to_string(&settings).unwrap())).unwrap();
        let start = std::time::Instant::now();
        let output = Command::new(env!("CARGO_BIN_EXE_ebm"))
            .args(["reproduce", task, "--scale", "mini", "--smoke", "--seeds", "1", "--json"])
            .args(["--config", &config, "--out", &out, "--datasets", &data, "--weights", &data])
            .args(more)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        eprintln!("{:?} {:?}", start.elapsed(), output.status);
        assert!(output.status.success(), "{settings}: {said}");
    }
}

#[test]
fn what_is_accepted_of_detection_trains() {
    let methods = ["--from-scratch", "--methods", "direct,ebm,iou_net,laplace"];
    reproduces::<ebm_detect::config::ExperimentConfig>("detection", "mini", &methods);
}

#[test]
fn what_is_accepted_of_tracking_trains() {
    reproduces::<ebm_track::config::ExperimentConfig>("tracking", "mini", &[]);
}

#[test]
fn what_is_accepted_of_faces_trains() {
    reproduces::<ebm_face::config::ExperimentConfig>("age", "age_mini", &[]);
}

#[test]
fn what_is_accepted_of_the_toy_trains() {
    let dataset = Dataset::of_problem(Problem::Dataset1, 16);
    for mut settings in hostile_settings::<Experiment>("figure2") {
        settings["schedule"]["epochs"] = Value::Integer(1);
        let experiment = Experiment::parse("hostile", &toml::to_string(&settings).unwrap()).unwrap();
        for method in experiment.methods(Problem::Dataset1).filter(|method| method.name.contains("uniform")) {
            let (row, _) = experiment.run(method, &dataset, 0).unwrap();
            assert!(row.final_loss.is_finite() && row.kl.is_some_and(f64::is_finite), "{row:?}");
        }
    }
}
