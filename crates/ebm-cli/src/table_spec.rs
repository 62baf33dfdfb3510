//! Tables of results. Each column's title and value are defined once, for Markdown tables and CSV files.

use std::path::Path;

use anyhow::Result;
use ebm_data::files::write_atomic;
use ebm_eval::{Spread, Summary};
use serde::Serialize;

use crate::machine::{Machine, today};

/// Content of a cell.
#[derive(Serialize)]
#[serde(untagged)]
enum Cell {
    Text(String),
    /// Number that is written without rounding.
    Number(f64),
    None,
}

type Column<'a, R> = Box<dyn Fn(&R) -> Result<Cell> + 'a>;

/// Columns of a table whose rows are made from values of type `R`.
pub struct TableSpec<'a, R> {
    titles: Vec<String>,
    columns: Vec<Column<'a, R>>,
}

impl<'a, R> TableSpec<'a, R> {
    /// Returns a table without columns.
    pub fn new() -> Self {
        Self { titles: Vec::new(), columns: Vec::new() }
    }

    /// Returns a table with the first columns of a CSV file of measurements: the date and the machine.
    pub fn measured() -> Self {
        let (date, device) = (today(), Machine::here().short());
        Self::new().text("date", move |_| date.clone()).text("device", move |_| device.clone())
    }

    fn with(mut self, title: &str, cell: impl Fn(&R) -> Result<Cell> + 'a) -> Self {
        self.titles.push(title.to_owned());
        self.columns.push(Box::new(cell));
        self
    }

    /// Adds a column of texts or whole numbers.
    pub fn text<V: ToString>(self, title: &str, value: impl Fn(&R) -> V + 'a) -> Self {
        self.optional(title, move |row| Some(value(row)))
    }

    /// Adds a column of texts or whole numbers, which may be missing in a row.
    pub fn optional<V: ToString>(self, title: &str, value: impl Fn(&R) -> Option<V> + 'a) -> Self {
        self.with(title, move |row| Ok(value(row).map_or(Cell::None, |value| Cell::Text(value.to_string()))))
    }

    /// Adds a column of numbers without rounding.
    pub fn exact<V: Into<Option<f64>>>(self, title: &str, value: impl Fn(&R) -> V + 'a) -> Self {
        self.with(title, move |row| Ok(value(row).into().map_or(Cell::None, Cell::Number)))
    }

    /// Adds a column of numbers with `decimals` decimals; a smaller number than these can show has an exponent.
    pub fn number<V: Into<Option<f64>>>(
        self,
        title: &str,
        decimals: usize,
        value: impl Fn(&R) -> V + 'a,
    ) -> Self {
        let text = move |value: f64| {
            Cell::Text(if is_small(value, decimals) {
                format!("{value:.2e}")
            } else {
                format!("{value:.decimals$}")
            })
        };
        self.with(title, move |row| Ok(value(row).into().map_or(Cell::None, text)))
    }

    /// Adds a column of numbers with `decimals` decimals for each title. `value` takes the row and the column's index.
    pub fn numbers<T: AsRef<str>, V: Into<Option<f64>>>(
        self,
        titles: impl IntoIterator<Item = T>,
        decimals: usize,
        value: impl Fn(&R, usize) -> V + Clone + 'a,
    ) -> Self {
        titles.into_iter().enumerate().fold(self, |table, (place, title)| {
            let value = value.clone();
            table.number(title.as_ref(), decimals, move |row| value(row, place))
        })
    }

    /// Adds a column of means ± sample standard deviations.
    pub fn spread(self, title: &str, decimals: usize, values: impl Fn(&R) -> Vec<f64> + 'a) -> Self {
        self.with(title, move |row| {
            let values = values(row);
            if values.is_empty() {
                return Ok(Cell::None);
            }
            let found = Summary::new(&values)?;
            Ok(Cell::Text(match found.standard_deviation {
                Some(spread) if is_small(found.mean, decimals) => {
                    format!("{:.2e} ± {spread:.2e}", found.mean)
                }
                _ => found.cell(Spread::StandardDeviation, decimals),
            }))
        })
    }

    /// Renders the table of these rows as Markdown that reads well as plain text, ending in a newline. The first column
    /// is aligned to the left, the others, which hold numbers, to the right. A dash stands for a missing value. A `|`
    /// in a cell is escaped and a line break becomes a space, so that no cell can break the table.
    ///
    /// # Errors
    /// If a value in a column of means is not finite.
    pub fn render(&self, rows: impl IntoIterator<Item = R>) -> Result<String> {
        let plain = |text: &str| text.replace('|', "\\|").replace(['\n', '\r'], " ");
        let text = |cell| match cell {
            Cell::Text(text) => plain(&text),
            Cell::Number(number) => number.to_string(),
            Cell::None => "–".to_owned(),
        };
        let mut lines = vec![self.titles.iter().map(|title| plain(title)).collect::<Vec<_>>()];
        for row in rows {
            lines.push(self.columns.iter().map(|column| column(&row).map(text)).collect::<Result<_>>()?);
        }
        // A markdown rule needs at least three characters per column.
        let width =
            |column: usize| lines.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).max(3);
        let widths: Vec<usize> = (0..self.titles.len()).map(width).collect();
        let rule = widths.iter().enumerate();
        let rule = rule
            .map(|(place, width)| if place == 0 { "-".repeat(*width) } else { "-".repeat(width - 1) + ":" });
        lines.insert(1, rule.collect());
        let line = |row: Vec<String>| {
            let cells = row.iter().zip(&widths).enumerate().map(|(place, (cell, &width))| match place {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
            format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
        };
        Ok(lines.into_iter().map(line).collect())
    }

    /// Writes the table of these rows as a CSV file.
    ///
    /// # Errors
    /// As for [`render`](Self::render), and if the file cannot be written.
    pub fn write_csv<'r>(&self, path: &Path, rows: impl IntoIterator<Item = &'r R>) -> Result<()>
    where
        R: 'r,
    {
        let mut file = csv::Writer::from_writer(Vec::new());
        file.write_record(&self.titles)?;
        for row in rows {
            file.serialize(self.columns.iter().map(|column| column(row)).collect::<Result<Vec<_>>>()?)?;
        }
        Ok(write_atomic(path, &file.into_inner()?)?)
    }
}

/// Returns whether `decimals` decimals show nothing of a number but 0.
fn is_small(value: f64, decimals: usize) -> bool {
    value != 0.0 && value.abs() < 10f64.powi(-(decimals as i32))
}

/// Joins numbers to a text.
pub fn joined(numbers: &[f64], separator: &str) -> String {
    numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(separator)
}

/// Rows that share a key.
pub struct Group<'a, K, R> {
    /// Key of the rows.
    pub key: K,
    /// Rows with this key.
    pub rows: Vec<&'a R>,
}

impl<K, R> Group<'_, K, R> {
    /// Returns the values of the rows that have one.
    pub fn each<V: Into<Option<f64>>>(&self, value: impl Fn(&R) -> V) -> Vec<f64> {
        self.rows.iter().filter_map(|row| value(row).into()).collect()
    }
}

/// Returns the rows that belong to each key. Keys without rows are left out.
pub fn group_by_key<'a, K, R>(
    keys: impl IntoIterator<Item = K>,
    rows: impl IntoIterator<Item = &'a R> + Clone,
    belongs: impl Fn(&K, &R) -> bool,
) -> Vec<Group<'a, K, R>> {
    let group = |key| {
        let rows = rows.clone().into_iter().filter(|row| belongs(&key, row)).collect();
        Group { key, rows }
    };
    keys.into_iter().map(group).filter(|group| !group.rows.is_empty()).collect()
}

/// Groups rows by `key`, in the order in which keys appear first.
pub fn grouped<'a, K: PartialEq, R>(
    rows: impl IntoIterator<Item = &'a R>,
    key: impl Fn(&'a R) -> K,
) -> Vec<Group<'a, K, R>> {
    let mut groups: Vec<Group<'a, K, R>> = Vec::new();
    for row in rows {
        let key = key(row);
        match groups.iter_mut().find(|group| group.key == key) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group { key, rows: vec![row] }),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_aligned_markdown_that_no_cell_can_break() {
        type Row = (&'static str, Vec<f64>, Option<f64>);
        let rows: [Row; 2] =
            [("Faster-RCNN", vec![37.2], Some(58.9)), ("Ours | EBM\nx", vec![39.3, 39.4, 39.5], None)];
        let table = TableSpec::new()
            .text("Method", |row: &Row| row.0)
            .spread("AP", 2, |row| row.1.clone())
            .number("AP50", 1, |row| row.2);
        let expected = "\
| Method        |           AP | AP50 |
| ------------- | -----------: | ---: |
| Faster-RCNN   |        37.20 | 58.9 |
| Ours \\| EBM x | 39.40 ± 0.10 |    – |
";
        assert_eq!(table.render(rows.clone()).unwrap(), expected);
        let small = table.render([("", vec![1e-5, 3e-5], None)]).unwrap();
        assert!(small.contains("| 2.00e-5 ± 1.41e-5 |"), "{small}");
        assert!(table.render([("", vec![f64::NAN], None)]).is_err());
    }

    #[test]
    fn a_csv_file_has_numbers_in_full_and_nothing_where_there_is_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        let table = TableSpec::new()
            .text("name", |row: &(&str, Option<f64>)| row.0.to_owned())
            .exact("full", |row| row.1)
            .numbers(["one", "two"], 1, |row, k| row.1.map(|value| value + k as f64));
        table.write_csv(&path, &[("a,b", Some(1.0)), ("c", Some(1e-7)), ("d", None)]).unwrap();
        let expected = "name,full,one,two\n\"a,b\",1.0,1.0,2.0\nc,1e-7,1.00e-7,1.0\nd,,,\n";
        assert_eq!(std::fs::read_to_string(path).unwrap(), expected);
    }

    #[test]
    fn rows_come_in_the_order_of_their_first_or_of_the_keys() {
        let rows = [("b", 1.0), ("a", 2.0), ("b", 3.0)];
        let found: Vec<(&str, Vec<f64>)> =
            grouped(&rows, |row| row.0).iter().map(|group| (group.key, group.each(|row| row.1))).collect();
        assert_eq!(found, [("b", vec![1.0, 3.0]), ("a", vec![2.0])]);
        let keys = group_by_key(["a", "c", "b"], &rows, |key, row| row.0 == *key);
        assert_eq!(
            keys.iter().map(|group| (group.key, group.rows.len())).collect::<Vec<_>>(),
            [("a", 1), ("b", 2)]
        );
    }
}
