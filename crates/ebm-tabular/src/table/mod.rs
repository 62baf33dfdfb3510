//! A table of texts, as it stands in a file.

mod number;
mod read;

pub use number::{days, number};
pub use read::MAX_BYTES;

use std::path::Path;

use csv::StringRecord;

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

/// Texts that say that a value is missing, in small letters.
const MISSING: [&str; 8] = ["", "na", "n/a", "nan", "null", "none", "?", "-"];

impl Table {
    /// A file of comma-, semicolon-, tab- or bar-separated values with a line of names, in UTF-8 with or without a
    /// byte order mark. Which of the four separate, and whether decimals have a comma, is found in the file.
    ///
    /// # Errors
    /// [`Error::Input`] for a file without rows, with rows of unequal length, with a name that stands twice, or of more
    /// than [`MAX_BYTES`]; when it cannot be read.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let bytes = ebm_data::files::read_limited(path, MAX_BYTES)?;
        read::parse(&name, &bytes)
    }

    /// The same of a text; `name` is what errors call it.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        read::parse(name, text.as_bytes())
    }

    /// What errors call it: for a file, its path.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// How many rows there are, the names not counted.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// What separates the values.
    pub fn delimiter(&self) -> char {
        self.delimiter
    }

    /// Whether decimals are written with a comma.
    pub fn decimal_comma(&self) -> bool {
        self.decimal_comma
    }

    /// The place of the column of that name.
    ///
    /// # Errors
    /// [`Error::Input`], naming the nearest one and all that there are.
    pub fn column(&self, name: &str) -> Result<usize> {
        self.columns.iter().position(|column| column == name).ok_or_else(|| {
            let near = ebm_experiment::config::suggestion(name, self.columns.iter().map(String::as_str));
            let known = self.columns.join(", ");
            Error::input(&self.name, format!("there is no column {name:?}{near}; there are {known}"))
        })
    }

    /// The text of a cell without the space around it, or none where it says that the value is missing.
    pub fn text(&self, row: usize, column: usize) -> Option<&str> {
        let text = self.rows[row].get(column).unwrap_or_default().trim();
        (!is_missing(text)).then_some(text)
    }

    /// A cell as a number.
    ///
    /// # Errors
    /// [`Error::Input`] where it is something else.
    pub fn number(&self, row: usize, column: usize) -> Result<Option<f64>> {
        let Some(text) = self.text(row, column) else { return Ok(None) };
        let found = number(text, self.decimal_comma);
        found.map(Some).ok_or_else(|| self.cell_error(row, column, "is no number".to_owned()))
    }

    /// An error at a cell.
    pub fn cell_error(&self, row: usize, column: usize, reason: String) -> Error {
        let place = format!("{}, line {}, column {}", self.name, self.line(row), self.columns[column]);
        Error::input(place, format!("{:?} {reason}", self.rows[row].get(column).unwrap_or_default()))
    }

    /// The line of the file that a row begins at.
    pub fn line(&self, row: usize) -> u64 {
        self.rows[row].position().map_or(row as u64 + 2, csv::Position::line)
    }

    /// The rows at these places, in that order, as a table.
    #[must_use]
    pub fn select(&self, rows: &[usize]) -> Self {
        Self { rows: rows.iter().map(|&row| self.rows[row].clone()).collect(), ..self.without_rows() }
    }

    /// The columns alone.
    fn without_rows(&self) -> Self {
        let Self { name, columns, delimiter, decimal_comma, .. } = self;
        let (name, columns) = (name.clone(), columns.clone());
        Self { name, columns, rows: vec![], delimiter: *delimiter, decimal_comma: *decimal_comma }
    }
}

/// Whether a text without space around it says that there is no value.
fn is_missing(text: &str) -> bool {
    text.len() <= 4 && MISSING.iter().any(|missing| text.eq_ignore_ascii_case(missing))
}
