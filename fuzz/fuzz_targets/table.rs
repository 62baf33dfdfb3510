//! Tables for regression.
#![no_main]

use ebm_tabular::Table;

libfuzzer_sys::fuzz_target!(|text: &str| drop(Table::parse("t.csv", text)));
