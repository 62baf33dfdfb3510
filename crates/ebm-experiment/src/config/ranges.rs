//! Check of the numbers of a configuration against their ranges.

use ebm_base::settings::{Declaration, Field, Range};
use toml::{Table, Value};

use crate::Result;

/// Setting out of its range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("configuration {name}: {key} = {value}; it must be {range}")]
pub struct OutOfRange {
    /// File or embedded name of the configuration.
    pub name: String,
    /// Dotted key.
    pub key: String,
    /// Value, as written.
    pub value: String,
    /// Allowed range.
    pub range: Range,
}

/// Number in a configuration.
struct Number {
    /// Dotted key.
    key: String,
    /// Value, as written.
    value: String,
    /// Allowed range.
    range: Range,
    /// `true` if the number is in its range.
    allowed: bool,
}

/// Refuses the first number in `table`, of the configuration `name`, that is out of its range. A row of a list of
/// tables is named by its `key`. An undeclared number has [`Range::NONE`]. Without `strict` it is left to the
/// parser, which suggests similar names.
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

/// Returns the declaration of the items of a list.
fn item(declaration: &Declaration) -> &Declaration {
    match declaration {
        Declaration::List(item) => item,
        numbers => numbers,
    }
}

/// Returns the declaration of the entry `key` of a `table` with this declaration.
fn named<'a>(declaration: &'a Declaration, table: &Table, key: &str) -> &'a Declaration {
    let find = |fields: &'a [Field], name: &str| fields.iter().find(|field| field.name == name);
    let found = match declaration {
        Declaration::Table(fields) => find(fields, key),
        // Rows by their keys, or numbers with any name.
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
