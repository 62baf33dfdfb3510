//! Names that are nearly right.

use toml::{Table, Value};

/// The name among `known` that differs least from `name`; none where all differ by more than a third of it.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = (name.chars().count() / 3).max(1);
    let with_distance = known.into_iter().map(|other| (distance(name, other), other));
    with_distance
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, n)| n)
}

/// `; did you mean …?` of the [`nearest`] name, or nothing.
pub fn suggestion<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

/// How many letters have to be put in, taken out or exchanged (Levenshtein's distance).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let exchanged = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = exchanged.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// What serde says of `table`, with the place of an unknown key and the nearest name that it would have known.
pub(super) fn explain(message: &str, table: &Table) -> String {
    let message = message.trim_end();
    let names =
        |text: &str| -> Vec<String> { text.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let Some((unknown, expected)) = message.split_once(", expected ") else { return message.to_owned() };
    let (Some(name), known) = (names(unknown).pop(), names(expected)) else { return message.to_owned() };
    if !unknown.starts_with("unknown ") {
        return message.to_owned();
    }
    let near = suggestion(&name, known.iter().map(String::as_str));
    let mut places = Vec::new();
    find(&name, "", table, &mut places);
    let place = match places.as_slice() {
        [place] if place.contains('.') => format!("{place}: "),
        _ => String::new(),
    };
    format!("{place}{message}{near}")
}

/// The dotted keys that end in `name` or have it as their value.
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
