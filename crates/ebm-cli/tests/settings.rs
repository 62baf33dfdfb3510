//! Every number of every embedded configuration, made hostile: refused with key, value and range, or it is
//! one that a training bears.

use crate::common::program::{command, texts};

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::Path;

use ebm_experiment::Error;
use ebm_experiment::config::{Configured, Overrides, Settings};
use ebm_testing::files::below;
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

/// Makes every number of the configuration `name` hostile whose key is not in `seen`, and adds the keys to it. Returns the accepted ones as keys and
/// values.
fn accepted<S: Settings>(name: &str, settings: &Table, seen: &mut BTreeSet<String>) -> Vec<(String, Value)> {
    let mut settings = Value::Table(settings.clone());
    let (mut all, mut accepted) = (Vec::new(), Vec::new());
    keys(&settings, "", &mut all);
    assert!(all.len() > 10, "{name}: {all:?}");
    all.retain(|key| seen.insert(key.clone()));
    for key in all {
        for hostile in HOSTILE {
            match with::<S>(&mut settings, &key, &hostile) {
                Err(Error::OutOfRange(out)) => {
                    assert_eq!((out.key, out.value), (key.clone(), hostile.to_string()));
                    assert!(out.range.low < out.range.high, "{name}: {key}: {}", out.range);
                }
                // One that contradicts another.
                Err(Error::Config { .. }) if hostile.is_integer() => {}
                Ok(before) if hostile.is_integer() => {
                    *place(&mut settings, &key) = before;
                    accepted.push((key.clone(), hostile));
                }
                other => panic!("{name}: {key} = {hostile}: {other:?}"),
            }
        }
    }
    accepted
}

/// Puts `value` in the place of what has the `key`, where that is accepted; what was there before.
fn with<S: Settings>(settings: &mut Value, key: &str, value: &Value) -> Result<Value, Error> {
    let before = std::mem::replace(place(settings, key), value.clone());
    let parsed = S::parse("hostile", &toml::to_string(settings).unwrap());
    if parsed.is_err() {
        *place(settings, key) = before.clone();
    }
    parsed.map(|_| before)
}

/// The embedded configurations survive a round trip, and their hostile numbers are refused or bearable.
fn check<S: Settings + PartialEq + Debug>() {
    // A key has one range, whatever configuration it is in.
    let mut seen = BTreeSet::new();
    for (name, _) in S::EMBEDDED {
        let config = S::embedded(name).unwrap();
        let text = config.to_toml().unwrap();
        assert_eq!(S::parse(name, &text).unwrap(), config, "{name}");
        accepted::<S>(name, &text.parse().unwrap(), &mut seen);
    }
}

#[test]
fn configurations_survive_a_round_trip_and_hostile_numbers_are_refused_with_key_value_and_range() {
    check::<ebm_detect::config::ExperimentConfig>();
    check::<ebm_detect::config::RefinerConfig>();
    check::<ebm_track::config::ExperimentConfig>();
    check::<ebm_face::config::ExperimentConfig>();
    check::<Experiment>();
}

/// The smallest settings of `name` with the rows of these `methods`, and every number in them hostile that
/// may be.
fn hostile_settings<S: Settings>(name: &str, methods: &[&str]) -> Table {
    let smoke = Overrides { smoke: true, changes: Vec::new() };
    let settings = Configured::<S>::load(name, &smoke).unwrap().settings.to_toml().unwrap();
    let mut settings: Table = settings.parse().unwrap();
    let rows = settings["methods"].as_array_mut().unwrap();
    rows.retain(|row| row.get("key").is_none_or(|key| methods.contains(&key.as_str().unwrap())));
    let accepted = accepted::<S>(name, &settings, &mut BTreeSet::new());
    let mut settings = Value::Table(settings);
    for (key, hostile) in accepted {
        // Whoever asks for a thousand million steps gets them. Two hostile numbers may contradict each other.
        let is_length = [".steps", ".pairs_per_epoch"].iter().any(|name| key.ends_with(name));
        if !is_length || hostile.as_integer() < Some(1 << 20) {
            let _ = with::<S>(&mut settings, &key, &hostile);
        }
    }
    settings.as_table().unwrap().clone()
}

/// Every loss and gradient in the files `metrics.jsonl` below `folder` is a number; how many there are.
fn finite_losses(folder: &Path) -> usize {
    let mut count = 0;
    for (name, bytes) in below(folder).iter().filter(|(name, _)| name.ends_with("metrics.jsonl")) {
        for step in serde_json::Deserializer::from_slice(bytes).into_iter::<serde_json::Value>() {
            let step = step.unwrap();
            assert!(step["loss"].is_f64() && step["grad_norm"].is_f64(), "{name}: {step}");
            count += 1;
        }
    }
    count
}

/// Runs `ebm reproduce TASK --smoke` with the hostile settings that are accepted.
fn reproduces<S: Settings>(task: &str, name: &str, methods: &[&str], more: &[&str]) {
    let settings = toml::to_string(&hostile_settings::<S>(name, methods)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (config, out, data) = (path("hostile.toml"), path("runs"), path("data"));
    std::fs::write(&config, format!("{settings}\n[smoke]\n")).unwrap();
    let mut command = command(&["reproduce", task, "--scale", "mini", "--smoke", "--seeds", "1", "--json"]);
    command.args(["--config", &config, "--out", &out, "--datasets", &data, "--weights", &data]).args(more);
    // Where features are kept by default.
    texts(command.current_dir(dir.path()).output().unwrap());
    assert!(finite_losses(Path::new(&out)) > 0, "{settings}");
}

#[test]
fn what_is_accepted_trains() {
    reproduces::<ebm_face::config::ExperimentConfig>(
        "age",
        "age_mini",
        &["cao", "direct_l2", "softmax_ce_l2_var"],
        &[],
    );
    reproduces::<ebm_track::config::ExperimentConfig>("tracking", "mini", &["ebm"], &[]);
    let methods = ["direct", "ebm", "gaussian"];
    reproduces::<ebm_detect::config::ExperimentConfig>("detection", "mini", &methods, &["--from-scratch"]);

    let mut settings = hostile_settings::<Experiment>("figure2", &[]);
    settings["schedule"]["epochs"] = Value::Integer(1);
    let experiment = Experiment::parse("hostile", &toml::to_string(&settings).unwrap()).unwrap();
    let dataset = Dataset::of_problem(Problem::Dataset1, 16);
    for method in experiment.methods(Problem::Dataset1).filter(|method| method.name.contains("uniform")) {
        let (row, _) = experiment.run(method, &dataset, 0).unwrap();
        assert!(row.final_loss.is_finite() && row.kl.is_some_and(f64::is_finite), "{row:?}");
    }
}
