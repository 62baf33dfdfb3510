//! Comparison of configurations, setting by setting.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

/// Returns every setting of a TOML document by its dotted name.
///
/// # Errors
/// If `text` is no TOML.
pub fn flat(text: &str) -> Result<BTreeMap<String, String>, toml::de::Error> {
    let mut found = BTreeMap::new();
    walk("", &text.parse::<Table>()?, &mut found);
    Ok(found)
}

fn walk(prefix: &str, table: &Table, found: &mut BTreeMap<String, String>) {
    for (key, value) in table {
        let name = format!("{prefix}{key}");
        match value {
            Value::Table(table) => walk(&format!("{name}."), table, found),
            value => {
                found.insert(name, value.to_string());
            }
        }
    }
}

/// Returns `name = ours (here: theirs)` for each setting that differs and `matters`, sorted by name.
pub fn differences(
    ours: &BTreeMap<String, String>,
    theirs: &BTreeMap<String, String>,
    matters: impl Fn(&str) -> bool,
) -> Vec<String> {
    let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let word = |value: Option<&String>| value.map_or("none", String::as_str).to_owned();
    (names.into_iter())
        .filter(|name| ours.get(*name) != theirs.get(*name) && matters(name))
        .map(|name| format!("{name} = {} (here: {})", word(ours.get(name)), word(theirs.get(name))))
        .collect()
}

/// Returns whether the last part of a dotted name is one of `names`.
pub(crate) fn ends_in(setting: &str, names: &[&str]) -> bool {
    names.contains(&setting.rsplit('.').next().unwrap_or_default())
}
