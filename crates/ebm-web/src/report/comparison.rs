//! Differences between settings or environments.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The values of one file, or of several files with equal values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// Names of the files' trainings or runs.
    pub names: Vec<String>,
    /// Values by dotted key.
    pub values: BTreeMap<String, String>,
}

/// Several sources side by side; sources with equal values are merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    /// Sources to compare.
    pub sources: Vec<Source>,
}

impl Source {
    /// Collects every value of `value` by its dotted key. Tables in a list are named by their `key` or `name`.
    pub fn new(name: &str, value: &Value) -> Self {
        let mut found = BTreeMap::new();
        flatten("", value, &mut found);
        let values = found.into_iter().map(|(key, value)| (key, text(value))).collect();
        Self { names: vec![name.to_owned()], values }
    }
}

impl Comparison {
    /// Merges equal sources.
    pub fn new(sources: impl IntoIterator<Item = Source>) -> Self {
        let mut grouped: Vec<Source> = Vec::new();
        for source in sources {
            match grouped.iter_mut().find(|other| other.values == source.values) {
                Some(other) => other.names.extend(source.names),
                None => grouped.push(source),
            }
        }
        Self { sources: grouped }
    }

    /// Returns every key of any source.
    pub fn keys(&self) -> BTreeSet<&str> {
        self.sources.iter().flat_map(|source| source.values.keys().map(String::as_str)).collect()
    }

    /// Returns the keys that every source has.
    pub fn shared(&self) -> BTreeSet<&str> {
        let is_shared = |key: &&str| self.sources.iter().all(|source| source.values.contains_key(*key));
        self.keys().into_iter().filter(is_shared).collect()
    }

    /// Returns the keys that every source has with different values.
    pub fn differing(&self) -> BTreeSet<&str> {
        let differs = |key: &&str| {
            self.sources.windows(2).any(|pair| pair[0].values.get(*key) != pair[1].values.get(*key))
        };
        self.shared().into_iter().filter(differs).collect()
    }
}

/// Collects every value below `value`, which has the dotted key `key`, in `found`.
pub(super) fn flatten<'a>(key: &str, value: &'a Value, found: &mut BTreeMap<String, &'a Value>) {
    let below = |part: &str| if key.is_empty() { part.to_owned() } else { format!("{key}.{part}") };
    match value {
        Value::Object(object) if !object.is_empty() => {
            for (part, value) in object {
                flatten(&below(part), value, found);
            }
        }
        Value::Array(items) if !items.is_empty() && items.iter().all(Value::is_object) => {
            let mut taken = BTreeSet::new();
            for (index, item) in items.iter().enumerate() {
                let name = item.get("key").or_else(|| item.get("name")).and_then(Value::as_str);
                let name = name.filter(|name| taken.insert(*name));
                flatten(&below(&name.map_or_else(|| index.to_string(), str::to_owned)), item, found);
            }
        }
        value => {
            found.insert(key.to_owned(), value);
        }
    }
}

/// Formats a value for a cell.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "–".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(text).collect();
            format!("[{}]", items.join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(name: &str, settings: &str) -> Source {
        Source::new(name, &toml::from_str(settings).unwrap())
    }

    #[test]
    fn what_differs_is_found_by_name() {
        let a =
            "steps = 10\nsame = [1, 2]\n[[methods]]\nkey = 'ebm'\nsigmas = [0.1]\n[[methods]]\nkey = 'l2'\n";
        let b = a.replace("0.1", "0.2").replace("steps = 10", "steps = 20") + "extra = true\n";
        let compared = Comparison::new([source("a", a), source("b", &b), source("c", a)]);
        assert_eq!(compared.sources.len(), 2);
        assert_eq!(compared.sources[0].names, ["a", "c"]);
        let differing: Vec<&str> = compared.differing().into_iter().collect();
        assert_eq!(differing, ["methods.ebm.sigmas", "steps"]);
        assert!(
            compared.keys().contains("methods.l2.extra") && !compared.shared().contains("methods.l2.extra")
        );
        assert_eq!(compared.sources[0].values["same"], "[1, 2]");
        assert!(Comparison::new([source("a", a)]).differing().is_empty());
    }
}
