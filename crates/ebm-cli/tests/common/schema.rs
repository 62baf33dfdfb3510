//! Holds what the program prints for machines against docs/json.md.
#![allow(clippy::panic, reason = "a test's failure is its report")]

use std::collections::BTreeMap;

use serde_json::Value;

const PAGE: &str = include_str!("../../../../docs/json.md");

/// Parses standard output, which must be one document of `command` as docs/json.md states it.
#[allow(dead_code, reason = "not every test that includes this file needs it")]
pub fn document(stdout: impl AsRef<[u8]>, command: &str) -> Value {
    let stdout = stdout.as_ref();
    let document: Value = serde_json::from_slice(stdout)
        .unwrap_or_else(|error| panic!("{command}: {error}: {}", String::from_utf8_lossy(stdout)));
    check(&document, command);
    document
}

/// Panics unless `document` is one of `command`, with the version, the keys and the units of docs/json.md.
pub fn check(document: &Value, command: &str) {
    assert_eq!(document["schema"], "ebm/1", "{command}");
    assert_eq!(document["command"], command);
    let rows = table("## Documents");
    let row = rows.iter().find(|row| row[0] == format!("`{command}`"));
    let row = row.unwrap_or_else(|| panic!("docs/json.md has no row for {command}"));
    let [always, sometimes] = [&row[1], &row[2]]
        .map(|cell| cell.split(',').map(str::trim).filter(|key| !key.is_empty()).collect::<Vec<_>>());
    let object = document.as_object().unwrap();
    for key in &always {
        assert!(object.contains_key(*key), "{command}: {key} is missing");
    }
    for key in object.keys() {
        let known = ["schema", "command"].iter().chain(&always).chain(&sometimes).any(|known| known == key);
        assert!(known, "{command}: docs/json.md does not list {key}");
    }
    walk(document, &units(), command);
}

/// The commands that it documents.
#[allow(dead_code, reason = "not every test that includes this file needs it")]
pub fn commands() -> Vec<String> {
    let names = table("## Documents").into_iter().map(|row| row[0].trim_matches('`').to_owned());
    names.collect()
}

/// The units by key.
fn units() -> BTreeMap<String, String> {
    let mut units = BTreeMap::new();
    for row in table("## Keys") {
        for key in row[0].split(", ").map(|key| key.trim_matches('`').to_owned()) {
            assert!(units.insert(key.clone(), row[1].clone()).is_none(), "docs/json.md lists {key} twice");
        }
    }
    units
}

/// The cells of the table below a heading.
fn table(heading: &str) -> Vec<Vec<String>> {
    let (_, section) = PAGE.split_once(&format!("\n{heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let cells =
        |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = rows.map(cells).collect();
    assert!(!rows.is_empty() && rows.iter().all(|row| row.len() == 3), "{heading}");
    rows
}

fn walk(value: &Value, units: &BTreeMap<String, String>, place: &str) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| walk(value, units, place)),
        Value::Object(object) => {
            for (key, value) in object {
                let place = format!("{place}: {key}");
                let unit = units.get(key).unwrap_or_else(|| panic!("{place} is not in docs/json.md"));
                assert!(unit.split(" or ").any(|unit| fits(value, unit)), "{place} is no {unit}: {value}");
                if unit != "map" {
                    walk(value, units, &place);
                }
            }
        }
        _ => {}
    }
}

fn fits(value: &Value, unit: &str) -> bool {
    let number = |low: f64, high: f64| value.as_f64().is_some_and(|number| (low..=high).contains(&number));
    match (value, unit) {
        (Value::Null, _) => true,
        (Value::Object(_), _) => matches!(unit, "object" | "map"),
        // Only what is an object by name may hold objects in a list.
        (Value::Array(values), _) => values.iter().all(|value| fits(value, unit)),
        (Value::Bool(_), _) => unit == "flag",
        (Value::String(_), _) => unit == "text",
        (Value::Number(_), "fraction") => number(0.0, 1.0),
        (Value::Number(_), "difference") => number(-1.0, 1.0),
        (Value::Number(number), "count") => number.is_u64(),
        (Value::Number(_), "text" | "flag" | "object" | "map") => false,
        (Value::Number(_), _) => true,
    }
}
