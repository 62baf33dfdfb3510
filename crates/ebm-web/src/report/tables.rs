//! Tables of results.

use std::collections::{BTreeMap, BTreeSet};

use ebm_eval::{Spread, Summary};
use serde_json::Value;

use super::comparison::{flatten, text};

/// A cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    /// Empty cell.
    Empty,
    /// Number, shown with few digits.
    Number(f64),
    /// Mean with its spread.
    Spread {
        /// Mean as a number.
        mean: f64,
        /// Mean and spread as text.
        shown: String,
    },
    /// Text.
    Text(String),
}

/// A table of results.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Table {
    /// Source of the table.
    pub title: String,
    /// Names of the columns.
    pub header: Vec<String>,
    /// Rows, with one cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

/// Names of columns that number repetitions.
const REPETITIONS: [&str; 4] = ["seed", "split", "repetition", "fold"];

/// Length of a list above which only its length is shown.
const LISTED: usize = 8;

impl Cell {
    /// Parses a cell of a CSV file.
    fn parse(text: &str) -> Self {
        match text.trim().parse::<f64>() {
            _ if text.trim().is_empty() => Self::Empty,
            Ok(number) if number.is_finite() => Self::Number(number),
            _ => Self::Text(text.to_owned()),
        }
    }

    fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Empty,
            Value::Number(number) => number.as_f64().map_or(Self::Empty, Self::Number),
            Value::Array(items) if items.len() > LISTED => Self::Text(format!("{} entries", items.len())),
            other => Self::Text(text(other)),
        }
    }

    fn number(&self) -> Option<f64> {
        if let Self::Number(number) = self { Some(*number) } else { None }
    }

    fn key(&self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Number(number) | Self::Spread { mean: number, .. } => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

impl Table {
    /// Parses a CSV file, whose first line names the columns.
    ///
    /// # Errors
    /// The errors of the CSV reader.
    pub fn from_csv(title: &str, text: &str) -> Result<Self, csv::Error> {
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
        let header: Vec<String> = reader.headers()?.iter().map(str::to_owned).collect();
        let mut rows = Vec::new();
        for record in reader.records() {
            let record = record?;
            let cell = |column| record.get(column).map_or(Cell::Empty, Cell::parse);
            rows.push((0..header.len()).map(cell).collect());
        }
        Ok(Self { title: title.to_owned(), header, rows })
    }

    /// Collects the tables of a JSON document: each list of objects is one.
    pub fn from_json(title: &str, document: &Value) -> Vec<Self> {
        match document {
            Value::Object(object) => {
                let below = |(key, value): (&String, &Value)| {
                    let joint = if title.contains(": ") { "." } else { ": " };
                    Self::from_json(&format!("{title}{joint}{key}"), value)
                };
                object.iter().flat_map(below).collect()
            }
            Value::Array(items) if !items.is_empty() && items.iter().all(Value::is_object) => {
                vec![Self::of_objects(title.to_owned(), items)]
            }
            _ => Vec::new(),
        }
    }

    fn of_objects(title: String, items: &[Value]) -> Self {
        let columns = |item| {
            let mut columns = BTreeMap::new();
            flatten("", item, &mut columns);
            columns
        };
        let rows: Vec<BTreeMap<String, &Value>> = items.iter().map(columns).collect();
        let names: BTreeSet<&String> = rows.iter().flat_map(BTreeMap::keys).collect();
        let is_text =
            |name: &str| rows.iter().any(|row| row.get(name).is_some_and(|value| value.is_string()));
        let rank = |name: &str| if is_text(name) { 0 } else { 2 - usize::from(REPETITIONS.contains(&name)) };
        let mut header: Vec<String> = names.into_iter().cloned().collect();
        header.sort_by_key(|name| rank(name));
        let row = |row: &BTreeMap<String, &Value>| {
            header.iter().map(|name| row.get(name).map_or(Cell::Empty, |value| Cell::of(value))).collect()
        };
        let rows = rows.iter().map(row).collect();
        Self { title, header, rows }
    }

    /// Computes means and sample standard deviations over the repetitions that a column numbers, such as seeds. Rows that
    /// agree in their texts and whole numbers become one row. Returns none if nothing is repeated.
    pub fn spread(&self) -> Option<Self> {
        let repetition = self.header.iter().position(|name| REPETITIONS.contains(&name.as_str()))?;
        let is_key = |column: usize| {
            let cells = || self.rows.iter().map(|row| &row[column]);
            let whole = |cell: &Cell| cell.number().is_none_or(|number| number.fract() == 0.0);
            column != repetition && cells().all(whole) && cells().any(|cell| *cell != Cell::Empty)
        };
        let varies = |column: usize| self.rows.iter().any(|row| row[column] != self.rows[0][column]);
        let keys: Vec<usize> = (0..self.header.len()).filter(|&column| is_key(column)).collect();
        let shown: Vec<usize> = keys.iter().copied().filter(|&column| varies(column)).collect();
        let measured: Vec<usize> =
            (0..self.header.len()).filter(|&c| c != repetition && !keys.contains(&c)).collect();
        let mut groups: Vec<(Vec<String>, Vec<&Vec<Cell>>)> = Vec::new();
        let mut places = BTreeMap::new();
        for row in &self.rows {
            let key: Vec<String> = keys.iter().map(|&column| row[column].key()).collect();
            let place = *places.entry(key.clone()).or_insert_with(|| {
                groups.push((key, Vec::new()));
                groups.len() - 1
            });
            groups[place].1.push(row);
        }
        if measured.is_empty() || groups.iter().all(|(_, rows)| rows.len() < 2) {
            return None;
        }
        let column = &self.header[repetition];
        let names = |columns: &[usize]| columns.iter().map(|&c| self.header[c].clone()).collect::<Vec<_>>();
        let header = [names(&shown), vec![format!("{column}s")], names(&measured)].concat();
        let rows = groups.iter().map(|(_, rows)| {
            let keys = shown.iter().map(|&column| rows[0][column].clone());
            let figures =
                measured.iter().map(|&column| mean(rows.iter().filter_map(|row| row[column].number())));
            keys.chain([Cell::Number(rows.len() as f64)]).chain(figures).collect()
        });
        let title = format!("{}: mean ± sample standard deviation over {column}s", self.title);
        Some(Self { title, header, rows: rows.collect() })
    }
}

/// Computes the mean of the values, with the spread to two digits if there are several values.
fn mean(values: impl Iterator<Item = f64>) -> Cell {
    let values: Vec<f64> = values.collect();
    let Ok(summary) = Summary::new(&values) else { return Cell::Empty };
    match summary.standard_deviation.filter(|deviation| *deviation > 0.0) {
        Some(deviation) => {
            let decimals = (1.0 - deviation.log10().floor()).clamp(0.0, 9.0) as usize;
            Cell::Spread { mean: summary.mean, shown: summary.cell(Spread::StandardDeviation, decimals) }
        }
        None => Cell::Number(summary.mean),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_objects_are_tables_with_their_spread() {
        let row = |method: &str, seed: u32, ap: f64| serde_json::json!({"ap": ap, "seed": seed, "method": method, "n": 4});
        let rows = [row("ebm", 0, 0.5), row("ebm", 1, 0.7), row("l2", 0, 0.25)];
        let document =
            serde_json::json!({"rows": rows, "scale": "mini", "expected": {"figures": [], "missed": 0}});
        let tables = Table::from_json("results.json", &document);
        assert_eq!(tables.len(), 1);
        assert_eq!(tables[0].title, "results.json: rows");
        assert_eq!(tables[0].header, ["method", "seed", "ap", "n"]);
        assert_eq!(tables[0].rows[1][2], Cell::Number(0.7));
        let spread = tables[0].spread().unwrap();
        assert_eq!(spread.header, ["method", "seeds", "ap"]);
        let Cell::Spread { mean, shown } = &spread.rows[0][2] else { panic!("{:?}", spread.rows[0]) };
        // √((0.1² + 0.1²) / 1) = 0.1414
        assert!((mean - 0.6).abs() < 1e-12 && shown == "0.60 ± 0.14", "{mean} {shown}");
        assert_eq!(spread.rows[1], [Cell::Text("l2".into()), Cell::Number(1.0), Cell::Number(0.25)]);
        let nothing = serde_json::json!({"rows": [{"seed": 0, "ap": 0.5}]});
        assert_eq!(Table::from_json("results.json", &nothing)[0].spread(), None);
    }

    #[test]
    fn a_csv_file_is_a_table() {
        let table = Table::from_csv("a.csv", "set,rmse\n\"a,<b>\",0.5\nc\nNaN,x\n").unwrap();
        assert_eq!(table.rows[0], [Cell::Text("a,<b>".into()), Cell::Number(0.5)]);
        assert_eq!(table.rows[1], [Cell::Text("c".into()), Cell::Empty]);
        assert_eq!(table.rows[2], [Cell::Text("NaN".into()), Cell::Text("x".into())]);
    }
}
