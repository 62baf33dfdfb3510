//! Encoding of a table's columns as the network's input x.

use std::collections::BTreeMap;

use candle_core::{Device, Tensor};
use serde::{Deserialize, Serialize};

use crate::table::{days, number};
use crate::{Error, Result, Table};

/// Largest number of categories of a column with an input of their own.
const MAX_LEVELS: usize = 64;
/// Fraction of numbers above which a column is numeric, and any other text in it an error.
const NUMERIC_FRACTION: f64 = 0.9;
/// Limit of standardised numbers, in standard deviations.
const MAX_DEVIATIONS: f64 = 10.0;

/// Roles of columns that the user states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnRoles {
    /// Columns of categories, even if they look like numbers.
    pub categories: Vec<String>,
    /// Columns that are left out.
    pub ignored: Vec<String>,
}

/// Encoding of all columns, found from the rows to learn from and applied to any rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Features {
    columns: Vec<Column>,
}

/// Encoding of one column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Name of the column.
    pub name: String,
    /// Kind of its values.
    pub kind: Kind,
    /// Whether it has an indicator of missing values, because some row to learn from has none.
    pub gaps: bool,
}

/// Kind of a column's values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Kind {
    /// Numbers, standardised.
    Number {
        /// Mean of the numbers.
        mean: f64,
        /// Standard deviation of the numbers.
        deviation: f64,
    },
    /// Dates, as standardised days since 1970-01-01.
    Date {
        /// Mean of the days.
        mean: f64,
        /// Standard deviation of the days.
        deviation: f64,
    },
    /// Texts, with one input for each.
    Category {
        /// Texts with an input of their own; all other texts have none.
        levels: Vec<String>,
    },
}

/// Encoded rows.
pub struct Encoded {
    /// Encoded rows, (B, F).
    pub x: Tensor,
    /// Number of texts in each column that have no input of their own.
    pub unknown: BTreeMap<String, usize>,
}

impl Features {
    /// Finds the encoding of the columns of `table`, without the `targets` and the columns that `roles` ignore. Columns
    /// without information are left out, with a message to `say`.
    ///
    /// # Errors
    /// [`Error::Input`] for a text among numbers, for a role of an unknown column, and if no column is left.
    pub fn find(
        table: &Table,
        targets: &[String],
        roles: &ColumnRoles,
        say: &mut dyn FnMut(&str),
    ) -> Result<Self> {
        for name in roles.categories.iter().chain(&roles.ignored).chain(targets) {
            table.column(name)?;
        }
        let mut columns = Vec::new();
        for (place, name) in table.columns().iter().enumerate() {
            if targets.contains(name) || roles.ignored.contains(name) {
                continue;
            }
            match Column::find(table, place, roles.categories.contains(name))? {
                Ok(column) => columns.push(column),
                Err(reason) => say(&format!("column {name:?} is left out: {reason}")),
            }
        }
        if columns.is_empty() {
            return Err(Error::input(table.name(), "no column is left to predict from"));
        }
        Ok(Self { columns })
    }

    /// Returns the encodings of the columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns F, the length of x.
    pub fn dim(&self) -> usize {
        self.columns.iter().map(|column| column.parts().len()).sum()
    }

    /// Encodes every row of `table`.
    ///
    /// # Errors
    /// [`Error::Input`] for a missing column, and for a text in a column of numbers or dates.
    pub fn encode(&self, table: &Table) -> Result<Encoded> {
        let places =
            self.columns.iter().map(|column| table.column(&column.name)).collect::<Result<Vec<_>>>()?;
        let mut x = Vec::with_capacity(table.rows() * self.dim());
        let mut unknown = BTreeMap::new();
        for row in 0..table.rows() {
            for (column, &place) in self.columns.iter().zip(&places) {
                if !column.encode(table, row, place, &mut x)? {
                    *unknown.entry(column.name.clone()).or_insert(0) += 1;
                }
            }
        }
        Ok(Encoded { x: Tensor::from_vec(x, (table.rows(), self.dim()), &Device::Cpu)?, unknown })
    }
}

impl Column {
    /// Finds the encoding of the column at `place`, or the reason for leaving it out.
    fn find(table: &Table, place: usize, is_category: bool) -> Result<std::result::Result<Self, String>> {
        let name = table.columns()[place].clone();
        let texts: Vec<Option<&str>> = (0..table.rows()).map(|row| table.text(row, place)).collect();
        let there = texts.iter().flatten().count();
        let gaps = there < texts.len();
        if there == 0 {
            return Ok(Err("it has no value".to_owned()));
        }
        let comma = table.decimal_comma();
        let numbers = texts.iter().flatten().filter(|text| number(text, comma).is_some()).count();
        let moments = |of: &dyn Fn(&str) -> Option<f64>| {
            let values: Vec<f64> = texts.iter().flatten().filter_map(|text| of(text)).collect();
            mean_and_deviation(&values)
        };
        if !is_category && numbers as f64 > NUMERIC_FRACTION * there as f64 {
            if numbers < there {
                let wrong =
                    texts.iter().position(|text| text.is_some_and(|text| number(text, comma).is_none()));
                let remedy = "is no number, but most values of the column are; mend it, leave the cell empty, or \
                              say that the column holds categories";
                return Err(table.cell_error(wrong.unwrap_or_default(), place, remedy.to_owned()));
            }
            let (mean, deviation) = moments(&|text| number(text, comma));
            return Ok(constant(deviation, gaps).map(|deviation| Self {
                name,
                kind: Kind::Number { mean, deviation },
                gaps,
            }));
        }
        if !is_category && texts.iter().flatten().all(|text| days(text).is_some()) {
            let (mean, deviation) = moments(&days);
            let kind = |deviation| Self { name, kind: Kind::Date { mean, deviation }, gaps };
            return Ok(constant(deviation, gaps).map(kind));
        }
        Ok(levels(&texts, is_category).map(|levels| Self { name, kind: Kind::Category { levels }, gaps }))
    }

    /// Returns the names of the column's inputs.
    pub fn parts(&self) -> Vec<String> {
        let name = &self.name;
        let mut parts = match &self.kind {
            Kind::Number { .. } | Kind::Date { .. } => vec![name.clone()],
            Kind::Category { levels } => levels.iter().map(|level| format!("{name} = {level}")).collect(),
        };
        if self.gaps {
            parts.push(format!("{name} is missing"));
        }
        parts
    }

    /// Appends the encoding of a row to `x`; returns `false` for a text without an input of its own.
    fn encode(&self, table: &Table, row: usize, place: usize, x: &mut Vec<f32>) -> Result<bool> {
        let text = table.text(row, place);
        let mut known = true;
        let standard = |value: Option<f64>, mean: f64, deviation: f64| {
            let z = value.map_or(0.0, |value| (value - mean) / deviation);
            z.clamp(-MAX_DEVIATIONS, MAX_DEVIATIONS) as f32
        };
        match &self.kind {
            Kind::Number { mean, deviation } => {
                x.push(standard(table.number(row, place)?, *mean, *deviation));
            }
            Kind::Date { mean, deviation } => {
                let date =
                    |text| days(text).ok_or_else(|| table.cell_error(row, place, "is no date".to_owned()));
                x.push(standard(text.map(date).transpose()?, *mean, *deviation));
            }
            Kind::Category { levels } => {
                x.extend(levels.iter().map(|level| f32::from(text == Some(level))));
                known = text.is_none_or(|text| levels.iter().any(|level| level == text));
            }
        }
        if self.gaps {
            x.push(f32::from(text.is_none()));
        }
        Ok(known)
    }
}

/// Returns the deviation to divide by, or the reason for leaving out a constant column.
fn constant(deviation: f64, gaps: bool) -> std::result::Result<f64, String> {
    match deviation > 0.0 {
        true => Ok(deviation),
        // The indicator of missing values may still carry information.
        false if gaps => Ok(1.0),
        false => Err("all its values are the same".to_owned()),
    }
}

/// Returns the categories with an input of their own, the most frequent first.
fn levels(texts: &[Option<&str>], is_category: bool) -> std::result::Result<Vec<String>, String> {
    let mut counts = BTreeMap::<&str, usize>::new();
    for text in texts.iter().flatten() {
        *counts.entry(text).or_insert(0) += 1;
    }
    let there: usize = counts.values().sum();
    if counts.len() == 1 && there == texts.len() {
        return Err("all its values are the same".to_owned());
    }
    if !is_category && counts.len() > MAX_LEVELS && 2 * counts.len() > there {
        return Err(format!(
            "{} different texts in {there} rows look like names; say that the column holds categories if it does",
            counts.len()
        ));
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    Ok(counts.into_iter().take(MAX_LEVELS).map(|(text, _)| text.to_owned()).collect())
}

/// Computes the mean and the standard deviation, both divided by n.
pub fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    // The mean of equal values may be off by rounding.
    let same = values.windows(2).all(|pair| pair[0] == pair[1]);
    (mean, if same { 0.0 } else { variance.sqrt() })
}
