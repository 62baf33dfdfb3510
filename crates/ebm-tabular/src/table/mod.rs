//! Tables of texts, read from CSV files.

mod number;

pub use number::{days, number};

use std::collections::BTreeSet;
use std::path::Path;

use csv::{ByteRecord, ReaderBuilder, StringRecord};

use crate::{Error, Result};

/// Rows of texts under named columns.
///
/// ```
/// use ebm_tabular::Table;
///
/// let table = Table::parse("prices", "size;price\n70,5;210\n;180\n")?;
/// assert_eq!(table.columns(), ["size", "price"]);
/// assert_eq!((table.rows(), table.decimal_comma()), (2, true));
/// assert_eq!(table.number(0, 0)?, Some(70.5));
/// assert_eq!(table.number(1, 0)?, None);
/// # Ok::<(), ebm_tabular::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Table {
    name: String,
    columns: Vec<String>,
    rows: Vec<StringRecord>,
    delimiter: char,
    decimal_comma: bool,
}

/// Texts that mark a missing value, in lower case.
const MISSING: [&str; 8] = ["", "na", "n/a", "nan", "null", "none", "?", "-"];

impl Table {
    /// Reads a file of comma-, semicolon-, tab- or bar-separated values with a line of names, in UTF-8 with or without a
    /// byte order mark. The separator and the decimal sign are detected from the file.
    ///
    /// # Errors
    /// [`Error::Input`] for a file without rows, with rows of unequal length, or with a repeated name; an error for a file
    /// that cannot be read or has more than [`MAX_BYTES`].
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let bytes = ebm_data::files::read_limited(path, MAX_BYTES)?;
        parse(&name, &bytes)
    }

    /// Parses a text as [`read`](Self::read) does; `name` names it in errors.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read).
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        parse(name, text.as_bytes())
    }

    /// Returns the table's name in errors: for a file, its path.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns the number of rows, without the line of names.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Returns the separator of the values.
    pub fn delimiter(&self) -> char {
        self.delimiter
    }

    /// Returns whether decimals are written with a comma.
    pub fn decimal_comma(&self) -> bool {
        self.decimal_comma
    }

    /// Returns the position of the column `name`.
    ///
    /// # Errors
    /// [`Error::Input`] for an unknown name, with the nearest name and all names.
    pub fn column(&self, name: &str) -> Result<usize> {
        self.columns.iter().position(|column| column == name).ok_or_else(|| {
            let near = ebm_experiment::config::suggestion(name, self.columns.iter().map(String::as_str));
            let known = self.columns.join(", ");
            Error::input(&self.name, format!("there is no column {name:?}{near}; there are {known}"))
        })
    }

    /// Returns the text of a cell without the space around it; none for a missing value.
    pub fn text(&self, row: usize, column: usize) -> Option<&str> {
        let text = self.rows[row].get(column).unwrap_or_default().trim();
        (!is_missing(text)).then_some(text)
    }

    /// Returns a cell as a number; none for a missing value.
    ///
    /// # Errors
    /// [`Error::Input`] for any other text.
    pub fn number(&self, row: usize, column: usize) -> Result<Option<f64>> {
        let Some(text) = self.text(row, column) else { return Ok(None) };
        let found = number(text, self.decimal_comma);
        found.map(Some).ok_or_else(|| self.cell_error(row, column, "is no number".to_owned()))
    }

    /// Creates an error that names a cell.
    pub fn cell_error(&self, row: usize, column: usize, reason: String) -> Error {
        let place = format!("{}, line {}, column {}", self.name, self.line(row), self.columns[column]);
        Error::input(place, format!("{:?} {reason}", self.rows[row].get(column).unwrap_or_default()))
    }

    /// Returns the line of the file on which a row begins.
    pub fn line(&self, row: usize) -> u64 {
        self.rows[row].position().map_or(row as u64 + 2, csv::Position::line)
    }

    /// Returns a table of the rows at these positions, in their order.
    #[must_use]
    pub fn select(&self, rows: &[usize]) -> Self {
        let (name, columns) = (self.name.clone(), self.columns.clone());
        Self { name, columns, rows: rows.iter().map(|&row| self.rows[row].clone()).collect(), ..*self }
    }
}

/// Returns whether a text without space around it marks a missing value.
fn is_missing(text: &str) -> bool {
    text.len() <= 4 && MISSING.iter().any(|missing| text.eq_ignore_ascii_case(missing))
}

/// Largest size of a file in bytes. Reading takes about three times as much memory.
pub const MAX_BYTES: u64 = 2 << 30;
/// Possible separators of values.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// Number of rows from which the decimal sign is detected.
const SAMPLED_ROWS: usize = 1000;

/// Parses the table in `bytes`.
fn parse(name: &str, bytes: &[u8]) -> Result<Table> {
    let fail = |reason: String| Error::input(name, reason);
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err(fail("it is in UTF-16; save it as UTF-8".to_owned()));
    }
    let delimiter = delimiter(bytes);
    let mut reader = ReaderBuilder::new().delimiter(delimiter).from_reader(bytes);
    let problem = |error: csv::Error| fail(row_problem(&error, delimiter, bytes));
    let headers = reader.headers().map_err(problem)?.clone();
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
        let reason = "it has a single column, but a target and a column to predict it from are needed; \
                      separate values by commas, semicolons, tabs or bars";
        return Err(fail(reason.to_owned()));
    }
    let rows = reader.records().collect::<csv::Result<Vec<StringRecord>>>();
    let mut rows = rows.map_err(problem)?;
    if rows.is_empty() {
        return Err(fail("it has a line of names, but no rows below it; add rows".to_owned()));
    }
    for row in &mut rows {
        let place = row.position().cloned();
        row.set_position(place.map(|mut place| place.set_line(line(&place, bytes)).clone()));
    }
    let decimal_comma = delimiter != b',' && has_decimal_commas(&rows);
    Ok(Table { name: name.to_owned(), columns, rows, delimiter: char::from(delimiter), decimal_comma })
}

/// Returns the one of [`DELIMITERS`] that divides the first line into most parts.
fn delimiter(bytes: &[u8]) -> u8 {
    let parts = |delimiter: &u8| {
        let mut reader =
            ReaderBuilder::new().has_headers(false).flexible(true).delimiter(*delimiter).from_reader(bytes);
        let mut record = ByteRecord::new();
        reader.read_byte_record(&mut record).map_or(0, |_| record.len())
    };
    // `max_by_key` takes the last of equals; reversing makes it the first.
    DELIMITERS.into_iter().rev().max_by_key(parts).unwrap_or(b',')
}

/// Returns whether more cells are numbers with a comma than with a point.
fn has_decimal_commas(rows: &[StringRecord]) -> bool {
    let cells = || rows.iter().take(SAMPLED_ROWS).flat_map(StringRecord::iter);
    let count = |sign: char, comma: bool| {
        cells().filter(|cell| cell.contains(sign) && number(cell, comma).is_some()).count()
    };
    count(',', true) > count('.', false)
}

/// Returns the line of a row at `place`. Of a line end of two bytes, csv leaves the second to the next row.
fn line(place: &csv::Position, bytes: &[u8]) -> u64 {
    place.line() + u64::from(bytes.get(place.byte() as usize) == Some(&b'\n'))
}

/// Returns the message for a malformed row.
fn row_problem(error: &csv::Error, delimiter: u8, bytes: &[u8]) -> String {
    let place = error.position().map_or_else(String::new, |place| format!("line {}: ", line(place, bytes)));
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
