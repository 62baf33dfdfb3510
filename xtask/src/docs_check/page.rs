//! A page: its tables, their markers, and whether they agree with the files.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::expression::{Condition, Record, numbers, same};
use super::marker::{Cell, Marker};

/// What is wrong, and where.
#[derive(Debug)]
pub struct Finding {
    pub page: String,
    pub line: usize,
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.page, self.line, self.what)
    }
}

/// What a page holds.
pub struct Checked {
    pub findings: Vec<Finding>,
    /// Tables that were compared.
    pub tables: usize,
}

const OPENING: &str = "<!-- table:";

/// Compares every table of a page.
pub fn check(root: &Path, path: &Path, name: &str, text: &str) -> Checked {
    let lines: Vec<&str> = text.lines().collect();
    let mut checked = Checked { findings: Vec::new(), tables: 0 };
    let mut marker: Option<(usize, String)> = None;
    let (mut at, mut fenced) = (0, false);
    while at < lines.len() {
        let (line, start) = (lines[at].trim(), at);
        at += 1;
        if line.starts_with("```") {
            fenced = !fenced;
        }
        let mut found = |line: usize, what: String| {
            checked.findings.push(Finding { page: name.to_owned(), line: line + 1, what });
        };
        let is_table = !fenced && line.starts_with('|');
        if let Some((line, _)) = marker.as_ref().filter(|_| !is_table) {
            found(*line, "there is no table directly below this marker".to_owned());
            marker = None;
        }
        if !fenced && line.starts_with(OPENING) {
            while at < lines.len() && !lines[at - 1].contains("-->") {
                at += 1;
            }
            let inner = lines[start..at].join("\n");
            let inner = inner.trim_start().trim_start_matches(OPENING).trim_end().trim_end_matches("-->");
            marker = Some((start, inner.trim().to_owned()));
        } else if is_table {
            while at < lines.len() && lines[at].trim_start().starts_with('|') {
                at += 1;
            }
            let (table, marker) = (&lines[start..at], marker.take());
            for (line, what) in self::table(root, path, start, table, marker, &mut checked.tables) {
                found(line, what);
            }
        }
    }
    if let Some((line, _)) = marker {
        let what = "there is no table directly below this marker".to_owned();
        checked.findings.push(Finding { page: name.to_owned(), line: line + 1, what });
    }
    checked
}

/// What is wrong with a table, given its first line's number and its lines, and the marker above it with its line's number.
fn table(
    root: &Path,
    path: &Path,
    start: usize,
    lines: &[&str],
    marker: Option<(usize, String)>,
    tables: &mut usize,
) -> Vec<(usize, String)> {
    let rows: Vec<(usize, Vec<String>)> =
        lines.iter().enumerate().skip(2).map(|(i, line)| (start + i, cells(line))).collect();
    let Some((place, text)) = marker else {
        let decimal = rows.iter().find(|(_, cells)| cells.iter().any(|cell| has_decimal(cell)));
        let what = "a decimal number in a table without a marker; see xtask/src/docs_check";
        return decimal.map(|(line, _)| (*line, what.to_owned())).into_iter().collect();
    };
    let compared = match Marker::parse(&text) {
        Err(error) => return vec![(place, format!("the marker: {error:#}"))],
        Ok(None) => return Vec::new(),
        Ok(Some(marker)) => compare(root, path, &cells(lines[0]), &rows, &marker),
    };
    *tables += 1;
    compared.unwrap_or_else(|error| vec![(place, format!("{error:#}"))])
}

/// The cells of a row, without the marks of bold and code.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim().trim_start_matches('|').replace("\\|", "\u{1}");
    let line = line.strip_suffix('|').unwrap_or(&line);
    line.split('|').map(|cell| cell.trim().replace('\u{1}', "|").replace("**", "")).collect()
}

/// Whether a cell shows a decimal number outside of code and links.
fn has_decimal(cell: &str) -> bool {
    let words: String = cell.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let mut parts = words.split("](");
    let mut words = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        words += part.split_once(')').map_or("", |(_, behind)| behind);
    }
    words.split_whitespace().any(|word| {
        let bytes = word.as_bytes();
        bytes.windows(3).any(|w| w[0].is_ascii_digit() && w[1] == b'.' && w[2].is_ascii_digit())
    })
}

/// The rows that differ, by line.
fn compare(
    root: &Path,
    page: &Path,
    header: &[String],
    rows: &[(usize, Vec<String>)],
    marker: &Marker,
) -> Result<Vec<(usize, String)>> {
    for word in marker.command.split_whitespace() {
        let script = [".py", ".sh"].iter().any(|ending| word.ends_with(ending)) && !word.contains('$');
        if script && !root.join(word).is_file() {
            bail!("the command names {word}, which does not exist");
        }
    }
    let folder = page.parent().unwrap_or(root);
    let mut records = Vec::new();
    for file in &marker.files {
        records.extend(read(&folder.join(file))?);
    }
    known(marker, &records)?;
    let counted = holding(&records.iter().collect::<Vec<_>>(), &marker.conditions)?;
    if marker.names.as_ref().is_some_and(|names| names.len() != rows.len()) {
        bail!("the marker's `rows` names another number of rows than the table's {}", rows.len());
    }
    let mut differences = Vec::new();
    for (index, (line, cells)) in rows.iter().enumerate() {
        let mut differs = |what: String| differences.push((*line, what));
        if cells.len() != marker.keys.len() + marker.cells.len() {
            let expected = marker.keys.len() + marker.cells.len();
            differs(format!("the row has {} cells, the marker {expected}", cells.len()));
            continue;
        }
        let names = match &marker.names {
            Some(names) => &names[index..=index],
            None => &cells[..marker.keys.len()],
        };
        let of_row: Vec<&Record> = match rows_records(&counted, &marker.keys, names) {
            found if found.is_empty() => {
                differs(format!(
                    "{} has no record with {} = {}",
                    marker.files.join(", "),
                    marker.keys.join(", "),
                    names.join(", ")
                ));
                continue;
            }
            found => found,
        };
        for (position, cell) in marker.cells.iter().enumerate() {
            let position = marker.keys.len() + position;
            let title = header.get(position).map_or("", String::as_str);
            let what = difference(&cells[position], cell, &of_row)
                .with_context(|| format!("line {}, column `{title}`", line + 1))?;
            if let Some(what) = what {
                differs(format!("column `{title}`: {what}"));
            }
        }
    }
    Ok(differences)
}

/// The records of a row: those whose keys are its names, or else round to them.
fn rows_records<'a>(records: &[&'a Record], keys: &[String], names: &[String]) -> Vec<&'a Record> {
    let select = |agrees: &dyn Fn(&str, &str) -> bool| -> Vec<&'a Record> {
        let agree = |record: &&Record| {
            keys.iter().zip(names).all(|(key, name)| record.get(key).is_some_and(|value| agrees(value, name)))
        };
        records.iter().copied().filter(agree).collect()
    };
    let exact = select(&|value, name| same(value, name) || words(value) == words(name));
    if !exact.is_empty() {
        return exact;
    }
    select(&|value, name| match (value.parse(), &numbers(name)[..]) {
        (Ok(value), [shown]) => shown.is(value),
        _ => false,
    })
}

/// The records for which all conditions hold.
fn holding<'a>(records: &[&'a Record], conditions: &[Condition]) -> Result<Vec<&'a Record>> {
    let mut counted = Vec::new();
    for &record in records {
        let all = conditions.iter().map(|c| c.holds(record)).collect::<Result<Vec<_>>>()?;
        if all.into_iter().all(|holds| holds) {
            counted.push(record);
        }
    }
    Ok(counted)
}

/// A list of names or numbers, however it is separated.
fn words(text: &str) -> Vec<&str> {
    text.split([' ', ',', '`']).filter(|word| !word.is_empty()).collect()
}

/// How a cell differs from what the records say.
fn difference(cell: &str, expected: &Cell, records: &[&Record]) -> Result<Option<String>> {
    let (specified, conditions) = match expected {
        Cell::Words if has_decimal(cell) => {
            return Ok(Some(format!("`{cell}` holds a number that nothing accounts for")));
        }
        Cell::Words => return Ok(None),
        Cell::Text(_, conditions) | Cell::Numbers(_, conditions) => (expected, conditions),
    };
    let counted = holding(records, conditions)?;
    let shown = numbers(cell);
    if let Cell::Text(column, _) = specified {
        let found = counted.iter().filter_map(|record| record.get(column)).find(|text| !text.is_empty());
        let found = found.map_or("–", String::as_str);
        let agrees = same(found, cell) || words(found) == words(cell);
        return Ok((!agrees).then(|| format!("`{cell}` is in the table, `{found}` in the file")));
    }
    let Cell::Numbers(expressions, _) = specified else { return Ok(None) };
    let values = expressions.iter().map(|e| e.of(&counted)).collect::<Result<Vec<_>>>()?;
    // The spread of one value, or of equal ones, may be left out.
    let optional = |index: usize| {
        index >= shown.len() && expressions[index].is_spread() && values[index].is_none_or(|sd| sd < 1e-12)
    };
    let values: Vec<Option<f64>> =
        (0..values.len()).filter(|&index| !optional(index)).map(|index| values[index]).collect();
    let values: Vec<f64> = values.into_iter().flatten().collect();
    let agree =
        values.len() == shown.len() && shown.iter().zip(&values).all(|(shown, value)| shown.is(*value));
    let listed = || values.iter().map(|value| format!("{value:.6}")).collect::<Vec<_>>().join(", ");
    Ok((!agree).then(|| match values.is_empty() {
        true => format!("`{cell}` is in the table, nothing in the file"),
        false => format!("`{cell}` is in the table, {} in the file", listed()),
    }))
}

/// Every column that a marker names is in one of its files.
fn known(marker: &Marker, records: &[Record]) -> Result<()> {
    let mut columns: Vec<&str> = marker.keys.iter().map(String::as_str).collect();
    columns.extend(marker.conditions.iter().flat_map(|c| c.columns()));
    for cell in &marker.cells {
        let conditions = match cell {
            Cell::Words => continue,
            Cell::Text(column, conditions) => {
                columns.push(column);
                conditions
            }
            Cell::Numbers(expressions, conditions) => {
                columns.extend(expressions.iter().flat_map(|e| e.columns()));
                conditions
            }
        };
        columns.extend(conditions.iter().flat_map(|c| c.columns()));
    }
    match columns.iter().find(|column| !records.iter().any(|record| record.contains_key(**column))) {
        Some(column) => bail!("{} has no column `{column}`", marker.files.join(", ")),
        None => Ok(()),
    }
}

fn read(path: &Path) -> Result<Vec<Record>> {
    let context = || format!("cannot read {}", path.display());
    let mut reader = csv::Reader::from_path(path).with_context(context)?;
    reader.deserialize().collect::<std::result::Result<_, _>>().with_context(context)
}
