//! The crate's tests as one program.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod blocks;
mod fits;
mod head;
mod importance;
mod kinds;
mod more_kinds;
mod tables;

use ebm_tabular::{Table, TabularConfig};

/// Settings for a training of a few seconds: one network, so small that it needs neither bins nor dropout.
fn small() -> TabularConfig {
    let mut config = TabularConfig::new().unwrap();
    (config.members, config.network.bins, config.training.dropout) = (1, 0, 0.0);
    config.training.steps = 400;
    config.training.batch = 64;
    config
}

/// Creates a table of the columns `names` with these rows.
fn table<const N: usize>(names: &str, rows: impl IntoIterator<Item = [f64; N]>) -> Table {
    let mut text = names.to_owned();
    for row in rows {
        text += "\n";
        text += &row.map(|number| number.to_string()).join(",");
    }
    Table::parse("generated", &text).unwrap()
}
