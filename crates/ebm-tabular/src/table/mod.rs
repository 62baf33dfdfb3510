//! Tables of texts, read from CSV files.

mod date;
mod decode;
mod form;
mod number;

pub use form::{Form, Style};

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use csv::{ByteRecord, ReaderBuilder, StringRecord};
use form::Evidence;
use rayon::prelude::*;

use crate::{Error, Result};

/// Rows of texts under named columns.
///
/// ```
/// use ebm_tabular::Table;
///
/// let table = Table::parse("prices", "size;price\n70,5;1.210,00\n;180\n")?;
/// assert_eq!(table.columns(), ["size", "price"]);
/// assert_eq!(table.values(0, table.form(0, None)?)?, [Some(70.5), None]);
/// assert_eq!(table.values(1, table.form(1, None)?)?, [Some(1210.0), Some(180.0)]);
/// # Ok::<(), ebm_tabular::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Table {
    name: String,
    columns: Vec<String>,
    rows: Vec<StringRecord>,
    delimiter: char,
    encoding: &'static str,
    /// Whether the first column has no name, or counts the rows of the file from 0 or 1.
    pub(crate) has_index: bool,
    seen: Arc<Vec<Evidence>>,
    options: ReadOptions,
}

/// Options of reading a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Sign of ASCII at the beginning of lines that are left out.
    pub comment: Option<char>,
    /// Styles of columns for which the file leaves several open.
    pub preferred: Vec<Style>,
    /// Whether a text in a column of numbers or dates is a gap, and no error.
    pub lenient: bool,
}

/// Texts that mark a missing value, in lower case: those of databases, of statistics programs and of failed formulas.
const MISSING: [&str; 22] = [
    "", "na", "n/a", "n.a.", "nan", "-nan", "nat", "<na>", "null", "none", "\\n", "?", "-", "--", ".",
    "#n/a", "#div/0!", "#value!", "#ref!", "#name?", "#num!", "#null!",
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
        let fail = |reason| Error::input(name, reason);
        let (text, encoding) = decode::decode(bytes, MAX_BYTES).map_err(fail)?;
        let table = Self { encoding, ..parse(name, &text, options)? };
        // All texts of the first row are names if none is a value, and one stands in a column of values.
        let texts = (0..table.columns.len()).filter_map(|column| Some((column, table.text(0, column)?)));
        let is_name = |(_, text)| Style::ALL.iter().all(|style| style.read(text).is_none());
        let is_odd = |(column, _)| table.share(column, 1) >= NUMERIC_SHARE;
        if options.lenient || !texts.clone().all(is_name) || !texts.clone().any(is_odd) {
            return Ok(table);
        }
        let (line, names) = (table.line(0), texts.map(|(_, text)| text).collect::<Vec<_>>().join(", "));
        Err(fail(format!("line {line} looks like a second line of names: {names}; remove it")))
    }

    /// Parses a text as [`read`](Self::read) does, without options.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read).
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        Self::from_bytes(name, text.as_bytes().to_vec(), &ReadOptions::default())
    }

    /// Creates a table of columns in memory, with their names; an empty text is a gap. Errors count its rows as lines, from 1.
    ///
    /// # Errors
    /// [`Error::Input`] for no column, no row, a repeated name, and for columns of unequal length.
    pub fn from_columns(
        name: &str,
        columns: Vec<(String, Vec<String>)>,
        options: &ReadOptions,
    ) -> Result<Self> {
        let (names, cells): (Vec<String>, Vec<Vec<String>>) = columns.into_iter().unzip();
        let columns = names_of(name, names.iter().map(String::as_str))?;
        let count = cells.first().map_or(0, Vec::len);
        if count == 0 || cells.iter().any(|texts| texts.len() != count) {
            let reason = "its columns must have the same number of rows, at least one";
            return Err(Error::input(name, reason));
        }
        let row = |row: usize| {
            let mut record: StringRecord = cells.iter().map(|texts| texts[row].as_str()).collect();
            record.set_position(Some(csv::Position::new().set_line(row as u64 + 1).clone()));
            record
        };
        let rows = (0..count).map(row).collect();
        Ok(Self { encoding: "UTF-8", ..Self::looked_at(name, columns, rows, b',', options) })
    }

    /// Looks for the forms of the columns. None counts as an index.
    fn looked_at(
        name: &str,
        columns: Vec<String>,
        rows: Vec<StringRecord>,
        delimiter: u8,
        options: &ReadOptions,
    ) -> Self {
        let (name, delimiter, options) = (name.to_owned(), char::from(delimiter), options.clone());
        let seen = Arc::default();
        let mut table =
            Self { name, columns, rows, delimiter, encoding: "", has_index: false, seen, options };
        let of = &table;
        let texts = |column| (0..of.rows()).filter_map(move |row| of.text(row, column));
        let seen = (0..of.columns.len()).into_par_iter().map(|column| Evidence::of(texts(column)));
        table.seen = Arc::new(seen.collect());
        table
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

    /// Returns the content of a cell as the file has it, without the quotes about it.
    pub fn cell(&self, row: usize, column: usize) -> &str {
        self.rows[row].get(column).unwrap_or_default()
    }

    /// Returns the text of a cell without the space around it; none for a missing value.
    pub fn text(&self, row: usize, column: usize) -> Option<&str> {
        let text = self.cell(row, column).trim();
        let is_missing = text.len() <= 7 && MISSING.iter().any(|missing| text.eq_ignore_ascii_case(missing));
        (!is_missing).then_some(text)
    }

    /// Creates an error that names a cell.
    pub fn cell_error(&self, row: usize, column: usize, reason: String) -> Error {
        let place = format!("{}, line {}, column {}", self.name, self.line(row), self.columns[column]);
        Error::input(place, format!("{:?} {reason}", self.cell(row, column)))
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
}

/// Largest size of a file in bytes, unpacked. Reading takes about three times as much memory.
pub const MAX_BYTES: u64 = 2 << 30;
/// Possible separators of values.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Share of a column's cells from which numbers or dates make it one of numbers or dates, and other texts errors.
pub const NUMERIC_SHARE: f64 = 0.9;

/// Parses the table in `text`.
fn parse(name: &str, text: &str, options: &ReadOptions) -> Result<Table> {
    let is_comment = text.starts_with('#') && options.comment.is_none();
    let remedy =
        if is_comment { "; give --comment '#' if lines that begin with '#' are comments" } else { "" };
    let fail = |reason: String| Error::input(name, reason + remedy);
    // Excel reads the separator from a first line such as "sep=;".
    let sign =
        DELIMITERS.into_iter().find(|sign| text.as_bytes().starts_with(&[b's', b'e', b'p', b'=', *sign]));
    let body = if sign.is_some() { text.trim_start_matches(|sign| sign != '\n') } else { text };
    let mut builder = ReaderBuilder::new();
    builder.comment(options.comment.and_then(|sign| u8::try_from(sign).ok()));
    let delimiter = sign.unwrap_or_else(|| delimiter(&mut builder, body.as_bytes()));
    let mut reader =
        builder.has_headers(true).flexible(false).delimiter(delimiter).from_reader(body.as_bytes());
    let line = |place: &csv::Position| {
        // csv begins a row before the blank lines and comments above it.
        let is_skipped =
            |line: &&str| line.is_empty() || options.comment.is_some_and(|sign| line.starts_with(sign));
        let rest = body.get(place.byte() as usize..).unwrap_or_default();
        place.line() + rest.lines().take_while(is_skipped).count() as u64
    };
    let problem = |error: csv::Error| fail(row_problem(&error, delimiter, line));
    let headers = reader.headers().map_err(problem)?.clone();
    let columns = names_of(name, headers.iter())?;
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
        row.set_position(place.map(|mut place| place.set_line(line(&place)).clone()));
    }
    let counts = |first| rows.iter().enumerate().all(|(k, row)| row[0].trim().parse() == Ok(k + first));
    let has_index = headers[0].trim().is_empty() || counts(0) || counts(1);
    Ok(Table { has_index, ..Table::looked_at(name, columns, rows, delimiter, options) })
}

/// Returns the names of the columns under these headers; `table` is the table's name in errors.
fn names_of<'a>(table: &str, headers: impl Iterator<Item = &'a str>) -> Result<Vec<String>> {
    let name_of = |(place, header): (usize, &str)| match header.trim() {
        "" => format!("column {}", place + 1),
        name => name.to_owned(),
    };
    let columns: Vec<String> = headers.enumerate().map(name_of).collect();
    let mut known = BTreeSet::new();
    match columns.iter().find(|column| !known.insert(*column)) {
        None => Ok(columns),
        Some(column) => {
            let reason = format!("two columns are called {column:?}; give one of them another name");
            Err(Error::input(table, reason))
        }
    }
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
