//! From a file's bytes to a table.

use std::collections::BTreeSet;

use csv::{ByteRecord, ReaderBuilder, StringRecord};

use super::{Table, number};
use crate::{Error, Result};

/// The most bytes that a file may have: all of it is held in memory, about three times over.
pub const MAX_BYTES: u64 = 2 << 30;
/// What may separate values.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// Rows that are looked at for the form of numbers.
const LOOKED_AT: usize = 1000;

/// The table in `bytes`.
pub fn parse(name: &str, bytes: &[u8]) -> Result<Table> {
    let fail = |reason: String| Error::input(name, reason);
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err(fail("it is in UTF-16; save it as UTF-8".to_owned()));
    }
    let delimiter = delimiter(bytes);
    let mut reader = ReaderBuilder::new().delimiter(delimiter).from_reader(bytes);
    let headers = reader.headers().map_err(|error| fail(said(&error, delimiter)))?.clone();
    let columns: Vec<String> = headers.iter().map(|header| header.trim().to_owned()).collect();
    let mut seen = BTreeSet::new();
    for (place, column) in columns.iter().enumerate() {
        if !seen.insert(column) {
            let reason = if column.is_empty() {
                format!("column {} has no name, and neither has another; give them names", place + 1)
            } else {
                format!("two columns are called {column:?}; give one of them another name")
            };
            return Err(fail(reason));
        }
    }
    if columns.len() < 2 {
        let reason = "it has a single column, and a target and something to predict it from are needed; \
                      values are separated by commas, semicolons, tabs or bars";
        return Err(fail(reason.to_owned()));
    }
    let rows = reader.records().collect::<csv::Result<Vec<StringRecord>>>();
    let rows = rows.map_err(|error| fail(said(&error, delimiter)))?;
    if rows.is_empty() {
        return Err(fail("it has names of columns, and no row below them".to_owned()));
    }
    let decimal_comma = delimiter != b',' && has_decimal_commas(&rows);
    Ok(Table { name: name.to_owned(), columns, rows, delimiter: char::from(delimiter), decimal_comma })
}

/// The one of [`DELIMITERS`] that cuts the first line into most parts.
fn delimiter(bytes: &[u8]) -> u8 {
    let parts = |delimiter: &u8| {
        let mut reader =
            ReaderBuilder::new().has_headers(false).flexible(true).delimiter(*delimiter).from_reader(bytes);
        let mut record = ByteRecord::new();
        reader.read_byte_record(&mut record).map_or(0, |_| record.len())
    };
    // The first of equals, which `max_by_key` would not take.
    DELIMITERS.into_iter().rev().max_by_key(parts).unwrap_or(b',')
}

/// Whether more cells are numbers with a comma than with a point.
fn has_decimal_commas(rows: &[StringRecord]) -> bool {
    let cells = || rows.iter().take(LOOKED_AT).flat_map(StringRecord::iter);
    let count = |sign: char, comma: bool| {
        cells().filter(|cell| cell.contains(sign) && number(cell, comma).is_some()).count()
    };
    count(',', true) > count('.', false)
}

/// What is wrong with a row.
fn said(error: &csv::Error, delimiter: u8) -> String {
    let place = error.position().map_or_else(String::new, |place| format!("line {}: ", place.line()));
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            let sign = char::from(delimiter);
            format!(
                "{place}{len} values where the names are {expected_len}, separated by {sign:?}; \
                 put quotes about a value that holds that sign"
            )
        }
        csv::ErrorKind::Utf8 { .. } => format!("{place}it is not in UTF-8; save it as UTF-8"),
        _ => format!("{place}{error}"),
    }
}
