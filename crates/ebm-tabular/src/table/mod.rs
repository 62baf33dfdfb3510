//! Tables of texts, read from CSV files.

mod date;
mod decode;
mod form;
mod number;

pub use date::Order;
pub use form::{Form, NUMERIC_SHARE};

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use csv::{ByteRecord, ReaderBuilder, StringRecord};
use form::Evidence;
use number::number;
use rayon::prelude::*;

use crate::{Error, Result};

/// Rows of texts under named columns.
///
/// ```
/// use ebm_tabular::Table;
///
/// let table = Table::parse("prices", "size;price\n70,5;1.210,00\n;180\n")?;
/// assert_eq!(table.columns(), ["size", "price"]);
/// assert_eq!(table.numbers(0)?, [Some(70.5), None]);
/// assert_eq!(table.numbers(1)?, [Some(1210.0), Some(180.0)]);
/// # Ok::<(), ebm_tabular::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Table {
    name: String,
    columns: Vec<String>,
    rows: Vec<StringRecord>,
    delimiter: char,
    encoding: &'static str,
    has_index: bool,
    seen: Arc<Vec<Evidence>>,
    options: ReadOptions,
}

/// Options of reading a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Sign at the beginning of lines that are left out.
    pub comment: Option<u8>,
    /// Order of dates that the file leaves open.
    pub dates: Option<Order>,
    /// Decimal sign of numbers that the file leaves open.
    pub decimal: Option<char>,
    /// Whether a text in a column of numbers or dates is a gap, and no error.
    pub lenient: bool,
}

/// Texts that mark a missing value, in lower case: those of databases, of statistics programs and of failed formulas.
const MISSING: [&str; 23] = [
    "", "na", "n/a", "n.a.", "nan", "-nan", "nat", "<na>", "null", "none", "\\n", "?", "-", "--", ".",
    "#n/a", "#na", "#div/0!", "#value!", "#ref!", "#name?", "#num!", "#null!",
];

impl Table {
    /// Reads a file of comma-, semicolon-, tab- or bar-separated values with a line of names. The file may be packed by
    /// gzip. Its encoding, its separator and the form of each column are found from the file.
    ///
    /// # Errors
    /// [`Error::Input`] for a file without rows, with rows of unequal length, with a repeated name or with a second line
    /// of names; an error for a file that cannot be read or has more than [`MAX_BYTES`].
    pub fn read(path: &Path, options: &ReadOptions) -> Result<Self> {
        let bytes = ebm_data::files::read_limited(path, MAX_BYTES)?;
        Self::from_bytes(&path.display().to_string(), bytes, options)
    }

    /// Parses the bytes of a file as [`read`](Self::read) does; `name` names it in errors.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read).
    pub fn from_bytes(name: &str, bytes: Vec<u8>, options: &ReadOptions) -> Result<Self> {
        let decoded = decode::decode(bytes, MAX_BYTES);
        let (text, encoding) = decoded.map_err(|reason| Error::input(name, reason))?;
        Ok(Self { encoding, ..parse(name, &text, options)? })
    }

    /// Parses a text as [`read`](Self::read) does, without options.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read).
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        Self::from_bytes(name, text.as_bytes().to_vec(), &ReadOptions::default())
    }

    /// Returns the table's name in errors: for a file, its path.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the names of the columns. A column without a name is called by its place, such as `column 4`.
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

    /// Returns the name of the file's encoding.
    pub fn encoding(&self) -> &'static str {
        self.encoding
    }

    /// Returns whether the first column is an index: it has no name, or counts the rows of the file from 0 or 1.
    pub fn has_index(&self) -> bool {
        self.has_index
    }

    /// Returns the position of the column `name`.
    ///
    /// # Errors
    /// [`Error::Input`] for an unknown name, with the nearest name and all names.
    pub fn column(&self, name: &str) -> Result<usize> {
        self.columns.iter().position(|column| column == name).ok_or_else(|| {
            let near = ebm_experiment::config::suggestion(name, self.columns.iter().map(String::as_str));
            let known = self.columns.join(", ");
            let has_values = self.columns.iter().any(|column| number(column, '.').is_some());
            let remedy =
                if has_values { "; if these are values, put a line of names above them" } else { "" };
            Error::input(&self.name, format!("there is no column {name:?}{near}; there are {known}{remedy}"))
        })
    }

    /// Returns the text of a cell without the space around it; none for a missing value.
    pub fn text(&self, row: usize, column: usize) -> Option<&str> {
        text(&self.rows[row], column)
    }

    /// Returns the numbers of a column, none for missing values.
    ///
    /// # Errors
    /// [`Error::Input`] with the first three texts that are no numbers, and if the file does not tell which numbers they
    /// are.
    pub fn numbers(&self, column: usize) -> Result<Vec<Option<f64>>> {
        self.values(column, self.number_form(column, None)?)
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
        let rows = rows.iter().map(|&row| self.rows[row].clone()).collect();
        let (name, columns, seen) = (self.name.clone(), self.columns.clone(), self.seen.clone());
        Self { name, columns, rows, seen, options: self.options.clone(), ..*self }
    }

    /// Returns the texts of the first row if they are names: none is a value, and one stands in a column of values.
    fn second_names(&self) -> Option<String> {
        let texts: Vec<(usize, &str)> =
            (0..self.columns.len()).filter_map(|column| Some((column, self.text(0, column)?))).collect();
        let is_name = |(_, text): &(usize, &str)| Evidence::of(std::iter::once(*text)).is_text(0);
        let found =
            texts.iter().all(is_name) && texts.iter().any(|(column, _)| !self.seen[*column].is_text(1));
        found.then(|| texts.iter().map(|(_, text)| *text).collect::<Vec<_>>().join(", "))
    }
}

/// Returns the text of a cell without the space around it; none for a missing value.
fn text(row: &StringRecord, column: usize) -> Option<&str> {
    let text = row.get(column).unwrap_or_default().trim();
    let is_missing = text.len() <= 7 && MISSING.iter().any(|missing| text.eq_ignore_ascii_case(missing));
    (!is_missing).then_some(text)
}

/// Largest size of a file in bytes, unpacked. Reading takes about three times as much memory.
pub const MAX_BYTES: u64 = 2 << 30;
/// Possible separators of values.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Parses the table in `text`.
fn parse(name: &str, text: &str, options: &ReadOptions) -> Result<Table> {
    // Excel reads the separator from a first line such as "sep=;".
    let sign = text.strip_prefix("sep=").and_then(|rest| rest.bytes().next());
    let body = if sign.is_some() { &text[text.find(['\r', '\n']).unwrap_or(text.len())..] } else { text };
    let remedy = match (text.starts_with('#'), options.comment) {
        (true, None) => "; lines begin with '#': if they are comments, give --comment '#'",
        _ => "",
    };
    let fail = |reason: String| Error::input(name, reason + remedy);
    let mut builder = ReaderBuilder::new();
    builder.comment(options.comment);
    let delimiter = sign.unwrap_or_else(|| delimiter(&mut builder, body.as_bytes()));
    let mut reader =
        builder.has_headers(true).flexible(false).delimiter(delimiter).from_reader(body.as_bytes());
    let before = text.len() - body.len();
    let start =
        |place: &csv::Position| start(text.as_bytes(), before + place.byte() as usize, options.comment);
    let problem = |error: csv::Error| {
        fail(row_problem(&error, delimiter, |place| 1 + ends(&text.as_bytes()[..start(place)])))
    };
    let columns = names(reader.headers().map_err(problem)?).map_err(fail)?;
    let rows = reader.records().collect::<csv::Result<Vec<StringRecord>>>();
    let mut rows = rows.map_err(problem)?;
    if rows.is_empty() {
        return Err(fail("it has a line of names, but no rows below it; add rows".to_owned()));
    }
    let (mut at, mut line) = (0, 1);
    for row in &mut rows {
        if let Some(mut place) = row.position().cloned() {
            let from = std::mem::replace(&mut at, start(&place));
            line += ends(&text.as_bytes()[from..at]);
            row.set_position(Some(place.set_line(line).clone()));
        }
    }
    let seen = (0..columns.len()).into_par_iter();
    let seen =
        seen.map(|column| Evidence::of(rows.iter().filter_map(move |row| self::text(row, column)))).collect();
    let counts = |first: usize| {
        let is_next = |(k, row): (usize, &StringRecord)| row[0].trim().parse() == Ok(k + first);
        rows.iter().enumerate().all(is_next)
    };
    let has_index = reader.headers().is_ok_and(|names| names[0].trim().is_empty()) || counts(0) || counts(1);
    let (name, delimiter, options) = (name.to_owned(), char::from(delimiter), options.clone());
    let seen = Arc::new(seen);
    let table = Table { name, columns, rows, delimiter, encoding: "UTF-8", has_index, seen, options };
    match table.second_names().filter(|_| !table.options.lenient) {
        Some(names) => {
            let (line, name) = (table.line(0), &table.name);
            Err(Error::input(
                name,
                format!("line {line} looks like a second line of names: {names}; remove it"),
            ))
        }
        None => Ok(table),
    }
}

/// Returns the names of the columns, or why they cannot be used.
fn names(headers: &StringRecord) -> Result<Vec<String>, String> {
    let name = |(place, header): (usize, &str)| match header.trim() {
        "" => format!("column {}", place + 1),
        name => name.to_owned(),
    };
    let columns: Vec<String> = headers.iter().enumerate().map(name).collect();
    let mut seen = BTreeSet::new();
    if let Some(column) = columns.iter().find(|column| !seen.insert(*column)) {
        return Err(format!("two columns are called {column:?}; give one of them another name"));
    }
    if columns.len() < 2 {
        let reason = "it has a single column, but a target and a column to predict it from are needed; \
                      separate values by commas, semicolons, tabs or bars";
        return Err(reason.to_owned());
    }
    Ok(columns)
}

/// Returns the one of [`DELIMITERS`] that divides the first line into most parts.
fn delimiter(builder: &mut ReaderBuilder, bytes: &[u8]) -> u8 {
    let parts = |delimiter: &u8| {
        let mut reader = builder.has_headers(false).flexible(true).delimiter(*delimiter).from_reader(bytes);
        let mut record = ByteRecord::new();
        reader.read_byte_record(&mut record).map_or(0, |_| record.len())
    };
    // `max_by_key` takes the last of equals; reversing makes it the first.
    DELIMITERS.into_iter().rev().max_by_key(parts).unwrap_or(b',')
}

/// Returns where the row at `at` begins: csv leaves the second byte of a line end, blank lines and comments to it.
fn start(bytes: &[u8], mut at: usize, comment: Option<u8>) -> usize {
    loop {
        match bytes.get(at) {
            Some(b'\r' | b'\n') => at += 1,
            Some(sign) if Some(*sign) == comment => {
                let rest = bytes[at..].iter();
                at += rest.take_while(|byte| !matches!(byte, b'\r' | b'\n')).count();
            }
            _ => return at,
        }
    }
}

/// Counts the line ends of one or two bytes.
fn ends(bytes: &[u8]) -> u64 {
    let is_end = |(place, byte): (usize, &u8)| match byte {
        b'\r' => bytes.get(place + 1) != Some(&b'\n'),
        byte => *byte == b'\n',
    };
    bytes.iter().enumerate().filter(|found| is_end(*found)).count() as u64
}

/// Returns the message for a malformed row.
fn row_problem(error: &csv::Error, delimiter: u8, line: impl Fn(&csv::Position) -> u64) -> String {
    let place = error.position().map_or_else(String::new, |place| format!("line {}: ", line(place)));
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            let sign = char::from(delimiter);
            format!(
                "{place}{len} values where the names are {expected_len}, separated by {sign:?}; \
                 put quotes about a value that holds that sign"
            )
        }
        _ => format!("{place}{error}"),
    }
}
