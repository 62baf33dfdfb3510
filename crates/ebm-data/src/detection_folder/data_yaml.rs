//! Parser for the subset of YAML in the `data.yaml` of Ultralytics and Roboflow.
//!
//! ```yaml
//! path: .              # optional; the folder that the others are in
//! train: images/train  # a folder of images
//! val: images/val      # optional, as is `test`
//! nc: 2                # optional; the number of names
//! names: [cat, dog]    # or a list with dashes, or a map from 0, 1, …
//! ```

use std::collections::BTreeMap;

/// Values of the keys, each with the lines below it, and the names of the classes by index.
pub(super) struct DataYaml {
    values: BTreeMap<String, String>,
    pub(super) names: Vec<String>,
}

impl DataYaml {
    /// Parses a text. The error says what to write instead.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for line in text.lines().map(|line| line.split(" #").next().unwrap_or(line).trim_end()) {
            let is_below = line.starts_with([' ', '\t', '-', ']', '}']);
            match line.split_once(':') {
                _ if line.starts_with('#') || line.is_empty() || line == "---" => {}
                Some((key, value)) if !is_below => pairs.push((key.to_owned(), value.trim().to_owned())),
                _ => pairs.last_mut().into_iter().for_each(|(_, value)| {
                    value.push('\n');
                    value.push_str(line.trim());
                }),
            }
        }
        let values: BTreeMap<String, String> = pairs.into_iter().collect();
        let names = names(values.get("names").map_or("", |names| names.trim()))?;
        let count = values.get("nc").map_or(Ok(names.len()), |count| count.parse());
        if count != Ok(names.len()) {
            return Err(format!("`nc` is not {}, the number of `names`", names.len()));
        }
        Ok(Self { values, names })
    }

    /// Returns the text of a key, if the file has the key.
    pub(super) fn text(&self, key: &str) -> Result<Option<String>, String> {
        self.values.get(key).filter(|text| !text.is_empty()).map(|text| scalar(text)).transpose()
    }
}

/// Parses the names of the classes: `[a, b]`, `{0: a, 1: b}`, or one line for each.
fn names(text: &str) -> Result<Vec<String>, String> {
    let inner = |open: char, close: char| text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
    let (list, map) = (inner('[', ']'), inner('{', '}'));
    let entries = list.or(map).map_or_else(|| text.lines().collect(), items);
    let mut names = Vec::with_capacity(entries.len());
    for entry in entries.into_iter().map(str::trim) {
        let name = match entry.split_once(':') {
            _ if list.is_some() => entry,
            _ if map.is_none() && entry.starts_with("- ") => &entry[2..],
            Some((index, name)) if index.trim().parse() == Ok(names.len()) => name,
            _ => return Err(format!("`names`: {entry:?} is neither `- name` nor `{}: name`", names.len())),
        };
        let name = scalar(name.trim())?;
        if names.contains(&name) {
            return Err(format!("`names`: {name:?} occurs twice"));
        }
        names.push(name);
    }
    if names.is_empty() { Err("no `names`; give those of the classes".to_owned()) } else { Ok(names) }
}

/// Splits a list or map in brackets into its entries. Commas in quotes belong to names.
fn items(list: &str) -> Vec<&str> {
    let (mut quote, mut begins) = (None, true);
    let parts = list.split(|c: char| {
        match quote {
            Some(open) if c == open => quote = None,
            // An apostrophe within a word opens no quotation.
            None if begins && (c == '"' || c == '\'') => quote = Some(c),
            _ => {}
        }
        let ends = c == ',' && quote.is_none();
        begins = ends || (begins && c.is_whitespace()) || c == ':';
        ends
    });
    let mut items: Vec<&str> = parts.collect();
    // A comma may follow the last entry.
    items.pop_if(|last| last.trim().is_empty());
    items
}

/// Parses a plain or quoted text of one line.
fn scalar(text: &str) -> Result<String, String> {
    let inner = |quote: char| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    match (inner('\''), inner('"')) {
        (Some(inner), _) => Ok(inner.replace("''", "'")),
        (_, Some(inner)) if !inner.contains('\\') => Ok(inner.to_owned()),
        _ if text.is_empty() || text.starts_with(|c| "&*!|>%@`[{\"'-".contains(c)) || text.contains('\n') => {
            Err(format!("{text:?} is not read; write one plain or quoted text"))
        }
        _ => Ok(text.to_owned()),
    }
}
