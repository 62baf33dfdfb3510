//! The marker above a table.

use anyhow::{Context, Result, bail};

use super::expression::{Condition, Expression};

/// Programs that a command may begin with.
const PROGRAMS: [&str; 6] = ["cargo", "ebm", "python", "bash", ".ci", "xtask"];

/// What a table is of.
#[derive(Debug, Default)]
pub struct Marker {
    /// From the page's folder.
    pub files: Vec<String>,
    pub command: String,
    pub conditions: Vec<Condition>,
    /// The columns that name a row.
    pub keys: Vec<String>,
    /// What the first of them is in each row, where the cells say it in other words.
    pub names: Option<Vec<String>>,
    /// One for each cell behind the keys.
    pub cells: Vec<Cell>,
}

/// What a cell holds.
#[derive(Debug)]
pub enum Cell {
    /// No number.
    Words,
    /// A column's text.
    Text(String, Vec<Condition>),
    /// A number for each expression.
    Numbers(Vec<Expression>, Vec<Condition>),
}

impl Marker {
    /// Reads what stands between `<!-- table:` and `-->`; none for `none`.
    pub fn parse(text: &str) -> Result<Option<Self>> {
        let (files, rest) = text.split_once('\n').unwrap_or((text, ""));
        if files.trim() == "none" && rest.trim().is_empty() {
            return Ok(None);
        }
        let mut marker = Self { files: list(files), ..Self::default() };
        for line in rest.lines().filter(|line| !line.trim().is_empty()) {
            let (name, value) =
                line.split_once(':').with_context(|| format!("`{line}` is no line `name: value`"))?;
            let value = value.trim();
            match name.trim() {
                "by" => value.clone_into(&mut marker.command),
                "where" => marker.conditions = Condition::parse_all(value)?,
                "rows" => {
                    let (keys, names) = match value.split_once(':') {
                        Some((keys, names)) => (keys, Some(list(names))),
                        None => (value, None),
                    };
                    (marker.keys, marker.names) = (list(keys), names);
                }
                "columns" => marker.cells = value.split('|').map(cell).collect::<Result<_>>()?,
                other => bail!("`{other}` is none of by, where, rows, columns"),
            }
        }
        if !PROGRAMS.iter().any(|program| marker.command.starts_with(program)) {
            bail!(
                "`by` must be the command that makes the file; it begins with one of {}",
                PROGRAMS.join(", ")
            );
        }
        if marker.files.is_empty() || marker.keys.is_empty() || marker.cells.is_empty() {
            bail!("a marker needs a file, `by`, `rows` and `columns`");
        }
        if marker.names.is_some() && marker.keys.len() != 1 {
            bail!("`rows` lists names of one column only");
        }
        Ok(Some(marker))
    }
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

fn cell(text: &str) -> Result<Cell> {
    let (text, conditions) = match text.trim().split_once('[') {
        Some((text, conditions)) => {
            let inner = conditions.trim().strip_suffix(']');
            let inner = inner.with_context(|| format!("`[{conditions}` has no `]` at its end"))?;
            (text.trim(), Condition::parse_all(inner)?)
        }
        None => (text.trim(), Vec::new()),
    };
    Ok(match (text, text.strip_prefix('=')) {
        ("", _) => bail!("a column has no specification; `-` is for words"),
        ("-", _) => Cell::Words,
        (_, Some(column)) => Cell::Text(column.to_owned(), conditions),
        _ => {
            Cell::Numbers(text.split_whitespace().map(Expression::parse).collect::<Result<_>>()?, conditions)
        }
    })
}
