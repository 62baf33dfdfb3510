//! Tables of texts, read from CSV files.

mod blocks;
mod date;
mod decode;
mod form;
mod number;

pub use blocks::Blocks;
pub use decode::Source;
pub use form::{Form, Style};

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use csv::StringRecord;
use form::{Evidence, Seen};
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
    seen: Arc<Seen>,
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
        let mut rows = Vec::new();
        let keep = &mut |block: Self| rows.extend(block.rows);
        let blocks = Blocks::new(name, Source::Bytes(bytes), options, MAX_BYTES, keep)?;
        Ok(Self { rows, ..blocks.table })
    }

    /// Refuses a first row of names: none of its texts is a value, and one stands in a column of values.
    fn check_names(&self) -> Result<()> {
        let texts = (0..self.columns.len()).filter_map(|column| Some((column, self.text(0, column)?)));
        let is_name = |(_, text)| Style::ALL.iter().all(|style| style.read(text).is_none());
        let is_odd = |(column, _)| self.share(column, 1) >= NUMERIC_SHARE;
        if self.options.lenient || !texts.clone().all(is_name) || !texts.clone().any(is_odd) {
            return Ok(());
        }
        let (line, names) = (self.line(0), texts.map(|(_, text)| text).collect::<Vec<_>>().join(", "));
        let reason = format!("line {line} looks like a second line of names: {names}; remove it");
        Err(Error::input(&self.name, reason))
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
        let fail = |reason: String| Error::input(name, reason);
        let columns = names_of(names.iter().map(String::as_str)).map_err(fail)?;
        let count = cells.first().map_or(0, Vec::len);
        if count == 0 || cells.iter().any(|texts| texts.len() != count) {
            return Err(fail("its columns must have the same number of rows, at least one".to_owned()));
        }
        let row = |row: usize| {
            let mut record: StringRecord = cells.iter().map(|texts| texts[row].as_str()).collect();
            record.set_position(Some(csv::Position::new().set_line(row as u64 + 1).clone()));
            record
        };
        let (rows, seen) = ((0..count).map(row).collect(), Arc::default());
        let (name, options) = (name.to_owned(), options.clone());
        let mut table =
            Self { name, columns, rows, delimiter: ',', encoding: "UTF-8", has_index: false, seen, options };
        let find = |column| {
            let mut seen = Evidence::default();
            (0..count).filter_map(|row| table.text(row, column)).for_each(|text| seen.see(text));
            seen.found()
        };
        let seen = (0..cells.len()).into_par_iter().map(find).collect();
        table.seen = Arc::new(Seen::new(seen));
        Ok(table)
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

/// Largest size in bytes, unpacked, of a file that is read at once. It takes about three times as much memory.
pub const MAX_BYTES: u64 = 2 << 30;
/// Share of a column's cells from which numbers or dates make it one of numbers or dates, and other texts errors.
pub const NUMERIC_SHARE: f64 = 0.9;

/// Returns the names of the columns under these headers, or why they cannot be names.
fn names_of<'a>(headers: impl Iterator<Item = &'a str>) -> std::result::Result<Vec<String>, String> {
    let name_of = |(place, header): (usize, &str)| match header.trim() {
        "" => format!("column {}", place + 1),
        name => name.to_owned(),
    };
    let columns: Vec<String> = headers.enumerate().map(name_of).collect();
    let mut known = BTreeSet::new();
    match columns.iter().find(|column| !known.insert(*column)) {
        None => Ok(columns),
        Some(column) => Err(format!("two columns are called {column:?}; give one of them another name")),
    }
}
