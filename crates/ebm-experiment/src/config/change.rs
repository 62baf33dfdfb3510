//! Changes of settings from the command line, and merging of tables of settings.

use std::str::FromStr;

use toml::{Table, Value};

/// Setting `KEY=VALUE`, a dotted key and a value in TOML, which replaces the value in the configuration. A row of
/// a list of tables is named by its `key`: `methods.ebm.samples=16`.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    table: Table,
}

impl Change {
    /// Returns the changed setting in its nested tables.
    pub(super) fn table(&self) -> &Table {
        &self.table
    }
}

impl FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example = "write KEY=VALUE, such as training.steps=100";
        let (key, value) = text.split_once('=').ok_or_else(|| format!("{text:?} has no `=`; {example}"))?;
        // A word needs no quotes, and a whole number beyond 64 bits is read as a float.
        let word = || {
            let word = value.trim();
            let value = word.parse().map_or_else(|_| Value::String(word.to_owned()), Value::Float);
            Table::from_iter([("value".to_owned(), value)])
        };
        let plain = !value.trim().is_empty() && !value.contains(['"', '\'', '[', ']', '{', '}', '\n']);
        let value = match format!("value = {value}").parse::<Table>() {
            Err(_) if plain => word(),
            other => other.map_err(|error| format!("{value:?} is no value of TOML: {}", error.message()))?,
        };
        let names: Vec<&str> = key.split('.').map(str::trim).collect();
        if names.iter().any(|name| name.is_empty()) || value.len() != 1 {
            return Err(format!("{text:?} is not one setting; {example}"));
        }
        let mut value = value.into_iter().map(|(_, value)| value).next();
        for name in names.into_iter().rev() {
            value = value.map(|value| Value::Table(Table::from_iter([(name.to_owned(), value)])));
        }
        match value {
            Some(Value::Table(table)) => Ok(Self { table }),
            _ => Err(example.to_owned()),
        }
    }
}

/// Merges `over` into `base`: tables key by key, and rows of a list of tables by their `key` if `over` has a
/// table of them. Any other value, including a list, replaces the value in `base`.
pub(super) fn merge(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) if !is_other_kind(below, &above) => {
                merge(below, above);
            }
            (Some(Value::Array(rows)), Value::Table(above)) if !rows.is_empty() && all_have_keys(rows) => {
                merge_rows(rows, above);
            }
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// Returns whether the two tables have different values of `kind`. Their settings are then unrelated.
fn is_other_kind(below: &Table, above: &Table) -> bool {
    above.get("kind").is_some_and(|kind| below.get("kind").is_some_and(|known| known != kind))
}

fn all_have_keys(rows: &[Value]) -> bool {
    rows.iter().all(|row| row.get("key").is_some())
}

/// Merges each table of `over` into the row with its key, or appends it as a new row.
fn merge_rows(rows: &mut Vec<Value>, over: Table) {
    for (key, value) in over {
        let Value::Table(mut above) = value else { continue };
        let mut known = rows.iter_mut().filter_map(Value::as_table_mut);
        let known = known.find(|row| row.get("key").and_then(Value::as_str) == Some(&key));
        match known {
            Some(row) => merge(row, above),
            None => {
                above.insert("key".to_owned(), Value::String(key));
                rows.push(Value::Table(above));
            }
        }
    }
}
