//! Suggestions for misspelt names.

use toml::{Table, Value};

/// Returns `; did you mean …?` with the name among `known` that is nearest to `name`. It is empty if all of them
/// differ by more than a third of the length of `name`.
pub fn suggestion<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let most = (name.chars().count() / 3).max(1);
    let with_distance = known.into_iter().map(|other| (strsim::osa_distance(name, other), other));
    let near = with_distance.filter(|(distance, _)| *distance <= most).min_by_key(|(distance, _)| *distance);
    near.map_or_else(String::new, |(_, near)| format!("; did you mean `{near}`?"))
}

/// Returns the error of serde about `table`, with the place of an unknown key and the nearest known name.
pub(super) fn explain(message: &str, table: &Table) -> String {
    // Further lines name the table, which is also found below.
    let first = message.lines().next().unwrap_or_default();
    let names =
        |text: &str| -> Vec<String> { text.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let whole = || message.trim_end().to_owned();
    let Some((unknown, expected)) = first.split_once(", expected ") else { return whole() };
    let (Some(name), known) = (names(unknown).pop(), names(expected)) else { return whole() };
    if !unknown.starts_with("unknown ") {
        return whole();
    }
    let near = suggestion(&name, known.iter().map(String::as_str));
    let mut places = Vec::new();
    find(&name, "", table, &mut places);
    match places.as_slice() {
        [place] if place.contains('.') => format!("{place}: {first}{near}"),
        _ => format!("{}{near}", whole()),
    }
}

/// Finds the dotted keys that end in `name` or have it as their value.
fn find(name: &str, prefix: &str, table: &Table, places: &mut Vec<String>) {
    for (key, value) in table {
        if key == name || value.as_str() == Some(name) {
            places.push(format!("{prefix}{key}"));
        }
        let inner = match value {
            Value::Table(inner) => std::slice::from_ref(inner).iter().collect(),
            Value::Array(rows) => rows.iter().filter_map(Value::as_table).collect::<Vec<_>>(),
            _ => Vec::new(),
        };
        inner.into_iter().for_each(|inner| find(name, &format!("{prefix}{key}."), inner, places));
    }
}
