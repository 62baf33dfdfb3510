//! Every number of every embedded configuration, made hostile: refused with key, value and range, or it is one that a training bears.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use ebm_experiment::Error;
use ebm_experiment::config::Settings;
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

/// Tries every number of every embedded configuration; returns what was accepted.
fn accepted<S: Settings>() -> BTreeSet<String> {
    let (mut seen, mut accepted) = (BTreeSet::new(), BTreeSet::new());
    for (name, _) in S::EMBEDDED {
        let settings: Table = S::embedded(name).unwrap().to_toml().unwrap().parse().unwrap();
        let mut settings = Value::Table(settings);
        let mut all = Vec::new();
        keys(&settings, "", &mut all);
        assert!(all.len() > 10, "{name}: {all:?}");
        for key in all.into_iter().filter(|key| seen.insert(key.clone())) {
            for hostile in HOSTILE {
                let before = std::mem::replace(place(&mut settings, &key), hostile.clone());
                let text = toml::to_string(&settings).unwrap();
                *place(&mut settings, &key) = before;
                match S::parse(name, &text).map(drop) {
                    Err(Error::OutOfRange(out)) => {
                        assert_eq!((out.key, out.value), (key.clone(), hostile.to_string()));
                        assert!(out.range.low < out.range.high, "{key}: {}", out.range);
                    }
                    // Small and large, it may contradict another one.
                    Err(Error::Config { reason, .. }) if hostile.is_integer() => {
                        println!("{key} = {hostile}: {reason}")
                    }
                    Ok(()) if hostile.is_integer() => drop(accepted.insert(format!("{key} = {hostile}"))),
                    other => panic!("{name}: {key} = {hostile}: {other:?}"),
                }
            }
        }
    }
    accepted
}

#[test]
fn hostile_numbers_are_refused_with_key_value_and_range() {
    println!("{:#?}", accepted::<ebm_detect::config::ExperimentConfig>());
    println!("{:#?}", accepted::<ebm_track::config::ExperimentConfig>());
    println!("{:#?}", accepted::<ebm_face::config::ExperimentConfig>());
    println!("{:#?}", accepted::<ebm_toy::Experiment>());
}
