//! One configuration on top of another.

use toml::{Table, Value};

use super::EMBEDDED;
use crate::error::{Error, Result};

/// The text of an embedded configuration.
pub(super) fn embedded(name: &str) -> Result<&'static str> {
    EMBEDDED.iter().find(|(known, _)| *known == name).map(|(_, text)| *text).ok_or_else(|| {
        let known: Vec<&str> = EMBEDDED.iter().map(|(known, _)| *known).collect();
        let reason = format!("there is no such embedded configuration; there are {}", known.join(", "));
        Error::Settings { name: name.to_owned(), reason }
    })
}

/// The settings of `text` over those of what it extends.
pub(super) fn resolve(name: &str, text: &str) -> Result<Table> {
    let fail = |reason: String| Error::Settings { name: name.to_owned(), reason };
    let mut table: Table = text.parse().map_err(|error: toml::de::Error| fail(error.to_string()))?;
    match table.remove("extends") {
        None => Ok(table),
        Some(Value::String(base)) => {
            let mut resolved = resolve(&base, embedded(&base)?)?;
            // Other settings come to other figures.
            resolved.remove("expected");
            merge(&mut resolved, table);
            Ok(resolved)
        }
        Some(other) => Err(fail(format!("extends = {other}: a name is expected"))),
    }
}

/// Tables are merged key by key; any other value, lists included, replaces the one below.
fn merge(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => merge(below, above),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}
