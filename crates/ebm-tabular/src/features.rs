//! Encoding of a table's columns as the network's input x.

use std::collections::BTreeMap;

use candle_core::{Device, Tensor};
use serde::{Deserialize, Serialize};

use crate::table::{Form, NUMERIC_SHARE};
use crate::{Error, Result, Table, TargetSpec};

/// Largest number of categories of a column with an input of their own.
const MAX_LEVELS: usize = 64;
/// Share of numbers or dates from which a column is not left out as one of names.
pub(crate) const MIXED_SHARE: f64 = 0.5;
/// Largest number of signs of a category's name in a description.
const MAX_SHOWN: usize = 40;
/// Limit of standardised numbers, in standard deviations.
const MAX_DEVIATIONS: f64 = 10.0;

/// Roles of columns that the user states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnRoles {
    /// Columns of categories, even if they look like numbers.
    pub categories: Vec<String>,
    /// Columns that are left out.
    pub ignored: Vec<String>,
    /// Columns that are used even if they look like an index.
    pub kept: Vec<String>,
}

/// Encoding of all columns, found from the rows to learn from and applied to any rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Features {
    columns: Vec<Column>,
}

/// A column of the table of a fit, and its encoding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Name of the column.
    pub name: String,
    /// Kind of its values.
    pub kind: Kind,
    /// Kind and form of the values, in words.
    pub described: String,
    /// Least and largest value or categories as they are written, or why the column is left out.
    pub values: String,
    /// Number of gaps in the rows to learn from. If there are some, an input marks gaps.
    pub gaps: usize,
}

/// Kind of a column's values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Kind {
    /// Numbers, or dates as days since 1970-01-01; standardised.
    Number {
        /// How they are written.
        form: Form,
        /// Mean of the numbers.
        mean: f64,
        /// Standard deviation of the numbers.
        deviation: f64,
    },
    /// Texts, with one input for each.
    Category {
        /// Texts with an input of their own; all other texts have none.
        levels: Vec<String>,
    },
    /// A target, or a column that is left out; without an input.
    Unused,
}

/// Encoded rows.
pub struct Encoded {
    /// Encoded rows, (B, F).
    pub x: Tensor,
    /// Number of texts in each column of categories that have no input of their own.
    pub unknown: BTreeMap<String, usize>,
    /// Number of texts in each column of numbers or dates that cannot be read and count as gaps.
    pub unreadable: BTreeMap<String, usize>,
}

impl Features {
    /// Finds the encoding of the columns of `table`, without the `targets`, the columns that `roles` ignore, an index, and
    /// columns without information.
    ///
    /// # Errors
    /// [`Error::Input`] for a text among numbers, for a role of an unknown column, and if no column is left.
    pub fn find(table: &Table, targets: &[TargetSpec], roles: &ColumnRoles) -> Result<Self> {
        let given = targets.iter().map(|target| &target.name);
        for name in roles.categories.iter().chain(&roles.ignored).chain(&roles.kept).chain(given.clone()) {
            table.column(name)?;
        }
        let is_input =
            |name: &String| !given.clone().any(|given| given == name) && !roles.ignored.contains(name);
        // A column that counts may still be all there is.
        let is_alone = table.columns().iter().filter(|name| is_input(name)).count() == 1;
        let find = |(place, name): (usize, &String)| {
            let is_category = roles.categories.contains(name);
            let is_index = place == 0 && table.has_index && !is_alone;
            let left_out = |kind: &str, why: &str| Ok(Column::unused(table, place, kind, why));
            match targets.iter().find(|target| target.name == *name) {
                Some(target) => {
                    let target = Column::of_form(table, place, table.form(place, target.form)?)?;
                    let described = format!("target: {}", target.described);
                    Ok(Column { kind: Kind::Unused, described, ..target })
                }
                None if roles.ignored.contains(name) => left_out("left out", "as --ignore says"),
                None if is_index && !is_category && !roles.kept.contains(name) => {
                    left_out("index, left out", "it has no name or counts the rows; --keep uses it")
                }
                None => Column::find(table, place, is_category),
            }
        };
        let columns = table.columns().iter().enumerate().map(find).collect::<Result<Vec<Column>>>()?;
        let found = Self { columns };
        if found.dim() == 0 {
            let unused = found.columns.iter().filter(|column| is_input(&column.name));
            let reasons: Vec<String> =
                unused.map(|column| format!("; {}: {}", column.name, column.values)).collect();
            return Err(Error::input(
                table.name(),
                format!("no column is left to predict from{}", reasons.concat()),
            ));
        }
        Ok(found)
    }

    /// Returns all columns of the table in its order, also those without an input.
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
        let (rows, dim) = (table.rows(), self.dim());
        let mut x = vec![0.0; rows * dim];
        let (mut unknown, mut unreadable) = (BTreeMap::new(), BTreeMap::new());
        let mut offset = 0;
        for column in self.columns.iter().filter(|column| column.kind != Kind::Unused) {
            let place = table.column(&column.name)?;
            let lost = column.encode(table, place, offset, dim, &mut x)?;
            let lost_of =
                if matches!(column.kind, Kind::Category { .. }) { &mut unknown } else { &mut unreadable };
            if lost > 0 {
                lost_of.insert(column.name.clone(), lost);
            }
            offset += column.parts().len();
        }
        Ok(Encoded { x: Tensor::from_vec(x, (rows, dim), &Device::Cpu)?, unknown, unreadable })
    }
}

impl Column {
    /// Finds the encoding of the column at `place`.
    fn find(table: &Table, place: usize, is_category: bool) -> Result<Self> {
        let texts: Vec<Option<&str>> = (0..table.rows()).map(|row| table.text(row, place)).collect();
        let unused = |reason: &str| Ok(Self::unused(table, place, "left out", reason));
        if texts.iter().all(Option::is_none) {
            return unused("it has no value");
        }
        let share = if is_category { 0.0 } else { table.share(place, 0) };
        if share < NUMERIC_SHARE {
            match levels(&texts, is_category) {
                Ok(levels) => {
                    let shown = levels.iter().take(3).map(|level| level.chars().take(MAX_SHOWN).collect());
                    let (shown, more) =
                        (shown.collect::<Vec<String>>(), if levels.len() > 3 { ", …" } else { "" });
                    let values = format!("{}: {}{more}", levels.len(), shown.join(", "));
                    let column = Self::unused(table, place, "category", &values);
                    return Ok(Self { kind: Kind::Category { levels }, ..column });
                }
                Err(reason) if share < MIXED_SHARE => return unused(&reason),
                // What is mostly numbers is not left out as names.
                Err(_) => {}
            }
        }
        let column = Self::of_form(table, place, table.form(place, None)?)?;
        match column.kind {
            Kind::Number { deviation, .. } if deviation > 0.0 => Ok(column),
            // The indicator of missing values may still carry information.
            Kind::Number { form, mean, .. } if column.gaps > 0 => {
                Ok(Self { kind: Kind::Number { form, mean, deviation: 1.0 }, ..column })
            }
            _ => unused("all its values are the same"),
        }
    }

    /// Returns a column without an input.
    fn unused(table: &Table, place: usize, described: &str, values: &str) -> Self {
        let (name, described, values) =
            (table.columns()[place].clone(), described.to_owned(), values.to_owned());
        let gaps = (0..table.rows()).filter(|&row| table.text(row, place).is_none()).count();
        Self { name, kind: Kind::Unused, described, values, gaps }
    }

    /// Reads a column of numbers or dates in this form.
    fn of_form(table: &Table, place: usize, form: Form) -> Result<Self> {
        let values = table.values(place, form)?;
        let there: Vec<(usize, f64)> =
            values.iter().enumerate().filter_map(|(row, value)| Some((row, (*value)?))).collect();
        let ends = [
            there.iter().min_by(|a, b| a.1.total_cmp(&b.1)),
            there.iter().max_by(|a, b| a.1.total_cmp(&b.1)),
        ];
        let [low, high] =
            ends.map(|end| end.and_then(|(row, _)| table.text(*row, place)).unwrap_or_default());
        let (mean, deviation) =
            mean_and_deviation(&there.iter().map(|(_, value)| *value).collect::<Vec<f64>>());
        let (name, kind) = (table.columns()[place].clone(), Kind::Number { form, mean, deviation });
        let (described, values) = (form.describe(high), format!("{low} to {high}"));
        Ok(Self { name, kind, described, values, gaps: table.rows() - there.len() })
    }

    /// Returns the names of the column's inputs.
    pub fn parts(&self) -> Vec<String> {
        let name = &self.name;
        let mut parts = match &self.kind {
            Kind::Unused => return vec![],
            Kind::Number { .. } => vec![name.clone()],
            Kind::Category { levels } => levels.iter().map(|level| format!("{name} = {level}")).collect(),
        };
        if self.gaps > 0 {
            parts.push(format!("{name} is missing"));
        }
        parts
    }

    /// Writes the encoding of the column into `x`, (B, `dim`), from the input `offset` on; returns the number of texts
    /// without an input or a value.
    fn encode(&self, table: &Table, place: usize, offset: usize, dim: usize, x: &mut [f32]) -> Result<usize> {
        let values = match self.kind {
            Kind::Number { form, .. } => table.values(place, table.form(place, Some(form))?)?,
            _ => vec![],
        };
        let mut lost = 0;
        for (row, x) in x.chunks_exact_mut(dim).enumerate() {
            let text = table.text(row, place);
            let (part, mut is_gap) = (&mut x[offset..], text.is_none());
            let width = match &self.kind {
                Kind::Number { mean, deviation, .. } => {
                    let z = values[row].map_or(0.0, |value| (value - mean) / deviation);
                    part[0] = z.clamp(-MAX_DEVIATIONS, MAX_DEVIATIONS) as f32;
                    lost += usize::from(!is_gap && values[row].is_none());
                    is_gap = values[row].is_none();
                    1
                }
                Kind::Category { levels } => {
                    let level = text.and_then(|text| levels.iter().position(|level| level == text));
                    level.iter().for_each(|&level| part[level] = 1.0);
                    lost += usize::from(!is_gap && level.is_none());
                    levels.len()
                }
                Kind::Unused => 0,
            };
            if self.gaps > 0 {
                part[width] = f32::from(is_gap);
            }
        }
        Ok(lost)
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
            "{} different texts in {there} rows look like names; --category uses the most frequent",
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
