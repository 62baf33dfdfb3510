//! A setting that the command line changes.

use std::str::FromStr;

use toml::{Table, Value};

/// `KEY=VALUE`: a dotted key and a value in TOML, over what the configuration has there. A row of a list of
/// tables is named by its `key`: `methods.ebm.samples=16`.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    table: Table,
}

impl Change {
    /// The setting alone, in the tables that it is in.
    pub(super) fn table(&self) -> &Table {
        &self.table
    }
}

impl FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example = "write KEY=VALUE, such as training.steps=100";
        let (key, value) = text.split_once('=').ok_or_else(|| format!("{text:?} has no `=`; {example}"))?;
        // A word needs no quotes, and a whole number beyond 64 bits is a number.
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
