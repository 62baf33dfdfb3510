//! From the columns of a table to the numbers x that a network sees.

use std::collections::BTreeMap;

use candle_core::{Device, Tensor};
use serde::{Deserialize, Serialize};

use crate::table::{days, number};
use crate::{Error, Result, Table};

/// The most texts of a column that have a place of their own; the rest share one.
const MAX_LEVELS: usize = 64;
/// A column of more numbers than this share is one of numbers, and what is none in it a mistake.
const MOSTLY: f64 = 0.9;
/// Standard deviations beyond which a number counts as this far.
const REACH: f64 = 10.0;

/// What is known of the columns before they are looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnRoles {
    /// Columns of categories, though they look like numbers.
    pub categories: Vec<String>,
    /// Columns that are left out.
    pub ignored: Vec<String>,
}

/// How each column becomes numbers: found in the rows that are learnt from, and applied to all others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Features {
    columns: Vec<Column>,
}

/// A column of x.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
    /// Whether it has an indicator for rows without a value: where there were such rows.
    pub gaps: bool,
}

/// What a column holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Kind {
    /// Numbers, standardised.
    Number {
        /// Their mean.
        mean: f64,
        /// Their standard deviation.
        deviation: f64,
    },
    /// Dates, as standardised days since 1970-01-01.
    Date {
        /// Their mean.
        mean: f64,
        /// Their standard deviation.
        deviation: f64,
    },
    /// Texts, a place for each.
    Category {
        /// Those with a place of their own; all others have none.
        levels: Vec<String>,
    },
}

/// Numbers x of some rows, and what was found while they were made.
pub struct Encoded {
    /// Shape (B, F).
    pub x: Tensor,
    /// By column, how many texts there were that were not there when the features were found.
    pub unknown: BTreeMap<String, usize>,
}

impl Features {
    /// Finds how the columns of `table` become numbers: all but the `targets` and those that `roles` leave out, and but
    /// those that say nothing, of which `say` is told.
    ///
    /// # Errors
    /// [`Error::Input`] for a text among numbers, for a role of a column that is not there, and where
    /// no column is left.
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

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// F, the length of x.
    pub fn dim(&self) -> usize {
        self.columns.iter().map(|column| column.parts().len()).sum()
    }

    /// The numbers of every row of `table`.
    ///
    /// # Errors
    /// [`Error::Input`] for a column that is missing and for a text in a column of numbers or dates.
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
    /// The column at `place`, or why it is left out.
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
        if !is_category && numbers as f64 > MOSTLY * there as f64 {
            if numbers < there {
                let wrong =
                    texts.iter().position(|text| text.is_some_and(|text| number(text, comma).is_none()));
                let remedy = "is no number, as most of the column are; mend it, leave the cell empty, or \
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

    /// What the numbers that it becomes are called.
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

    /// Appends the numbers of a row to `x`; false for a text without a place.
    fn encode(&self, table: &Table, row: usize, place: usize, x: &mut Vec<f32>) -> Result<bool> {
        let text = table.text(row, place);
        let mut known = true;
        let standard = |value: Option<f64>, mean: f64, deviation: f64| {
            let z = value.map_or(0.0, |value| (value - mean) / deviation);
            z.clamp(-REACH, REACH) as f32
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

/// The deviation of a column that says something.
fn constant(deviation: f64, gaps: bool) -> std::result::Result<f64, String> {
    match deviation > 0.0 {
        true => Ok(deviation),
        // Whether there is a value may still say something.
        false if gaps => Ok(1.0),
        false => Err("all its values are the same".to_owned()),
    }
}

/// The texts of a column of categories that have a place of their own, the most frequent first.
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
            "{} different texts in {there} rows are names rather than categories; say that it holds categories if it does",
            counts.len()
        ));
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    Ok(counts.into_iter().take(MAX_LEVELS).map(|(text, _)| text.to_owned()).collect())
}

/// Mean and standard deviation over n.
pub fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    // Of equal values the mean may be off by rounding.
    let same = values.windows(2).all(|pair| pair[0] == pair[1]);
    (mean, if same { 0.0 } else { variance.sqrt() })
}
