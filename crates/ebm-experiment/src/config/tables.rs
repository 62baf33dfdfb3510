//! One table of settings on top of another.

use toml::{Table, Value};

/// Puts `over` on top of `base`: tables key by key, rows of a list of tables by their `key` where `over` has
/// a table of them. Any other value, lists included, replaces the one below.
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

/// Whether `above` is another of several kinds of a thing, which have other settings.
fn is_other_kind(below: &Table, above: &Table) -> bool {
    above.get("kind").is_some_and(|kind| below.get("kind").is_some_and(|known| known != kind))
}

fn all_have_keys(rows: &[Value]) -> bool {
    rows.iter().all(|row| row.get("key").is_some())
}

/// Each table of `over` on top of the row of that `key`, or as a new last row.
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
