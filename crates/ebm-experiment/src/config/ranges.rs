//! Whether the numbers of a configuration are in their ranges.

use ebm_base::settings::{Declaration, Field, Range};
use toml::{Table, Value};

use crate::Result;

/// A setting out of its range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("configuration {name}: {key} = {value}; it must be {range}")]
pub struct OutOfRange {
    /// The file or the embedded name of the configuration.
    pub name: String,
    /// The dotted key.
    pub key: String,
    /// As it is written.
    pub value: String,
    /// What is allowed.
    pub range: Range,
}

/// A number of a configuration.
struct Number {
    /// Its dotted key.
    key: String,
    /// As it is written.
    value: String,
    /// What it may be.
    range: Range,
    /// Whether it is that.
    allowed: bool,
}

/// Refuses the first number of the `table` of the configuration `name` that is out of its range. A row of a list of tables
/// is named by its `key`. What is not declared has [`Range::NONE`]; without `strict` it is for the parser to refuse, which
/// knows similar names.
pub(super) fn check(name: &str, declaration: &Declaration, table: &Table, strict: bool) -> Result<()> {
    let mut numbers = Vec::new();
    of_table(declaration, table, "", &mut numbers);
    let refused = |number: &&Number| !number.allowed && (strict || number.range != Range::NONE);
    match numbers.iter().find(refused) {
        None => Ok(()),
        Some(Number { key, value, range, .. }) => {
            let (name, key, value) = (name.to_owned(), key.clone(), value.clone());
            Err(Box::new(OutOfRange { name, key, value, range: *range }).into())
        }
    }
}

fn collect(declaration: &Declaration, value: &Value, key: &str, numbers: &mut Vec<Number>) {
    let number = match value {
        Value::Integer(number) => *number as f64,
        Value::Float(number) => *number,
        Value::Array(items) => {
            let declared = item(declaration);
            for (index, value) in items.iter().enumerate() {
                let row = value.get("key").and_then(Value::as_str);
                let key = row.map_or_else(|| format!("{key}[{index}]"), |row| format!("{key}.{row}"));
                collect(declared, value, &key, numbers);
            }
            return;
        }
        Value::Table(table) => return of_table(declaration, table, &format!("{key}."), numbers),
        Value::String(_) | Value::Boolean(_) | Value::Datetime(_) => return,
    };
    let range = match declaration {
        Declaration::Numbers(range) => *range,
        _ => Range::NONE,
    };
    let allowed = range.contains(number) && !(range.whole && value.is_float());
    numbers.push(Number { key: key.to_owned(), value: value.to_string(), range, allowed });
}

fn of_table(declaration: &Declaration, table: &Table, prefix: &str, numbers: &mut Vec<Number>) {
    for (key, value) in table {
        collect(named(declaration, table, key), value, &format!("{prefix}{key}"), numbers);
    }
}

/// The declaration of the items of a list.
fn item(declaration: &Declaration) -> &Declaration {
    match declaration {
        Declaration::List(item) => item,
        numbers => numbers,
    }
}

/// The declaration of what is called `key` in the `table` that is declared so.
fn named<'a>(declaration: &'a Declaration, table: &Table, key: &str) -> &'a Declaration {
    let find = |fields: &'a [Field], name: &str| fields.iter().find(|field| field.name == name);
    let found = match declaration {
        Declaration::Table(fields) => find(fields, key),
        // Rows by their keys, or numbers of whatever names.
        Declaration::List(row) => return row,
        Declaration::Numbers(_) => return declaration,
        Declaration::Choice { tag: None, kinds } => find(kinds, key),
        Declaration::Choice { tag: Some(tag), kinds } => {
            let kind = table.get(*tag).and_then(Value::as_str).and_then(|kind| find(kinds, kind));
            return kind.map_or(&Declaration::Plain, |kind| named(&kind.declaration, table, key));
        }
        Declaration::Plain => None,
    };
    found.map_or(&Declaration::Plain, |field| &field.declaration)
}
