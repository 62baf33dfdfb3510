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

/// How many letters have to be put in, taken out or exchanged, two neighbours for each other at once
/// (Damerau's distance).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for (i, from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let exchanged = rows[i][j] + usize::from(from != to);
            let mut least = exchanged.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i - 1] == *to && *from == b[j - 1] {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

/// What serde says of `table`, with the place of an unknown key and the nearest name that it would have
/// known.
pub(super) fn explain(message: &str, table: &Table) -> String {
    // Further lines say in which table, which is found below as well.
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
