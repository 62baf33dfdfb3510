//! Encoding of a table's columns as the network's input x.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use candle_core::{Device, Tensor};
use serde::{Deserialize, Serialize};

use crate::model::Bin;
use crate::table::{Form, NUMERIC_SHARE};
use crate::{Error, Result, Table, TargetSpec};

/// Largest number of categories of a column with an input of their own.
const MAX_LEVELS: usize = 64;
/// Share of numbers or dates from which a column is not left out as one of names.
const MIXED_SHARE: f64 = 0.5;
/// Distance from the middle values from which on a value says nothing of their scale, in spreads of these.
const FAR: f64 = 30.0;
/// Least number of values in a bin.
const MIN_IN_BIN: usize = 10;
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
        /// Form of their texts.
        form: Form,
        /// Mean of the numbers.
        mean: f64,
        /// Standard deviation of the numbers.
        deviation: f64,
        /// Ends of the bins, ascending; none without bins.
        #[serde(default)]
        bins: Vec<f64>,
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
    /// Number of texts in each column that have no input of their own, or are no numbers or dates and count as gaps.
    pub unknown: BTreeMap<String, usize>,
}

impl Features {
    /// Finds the encoding of the columns of `table`, without the `targets`, the columns that `roles` ignore, an index, and
    /// columns without information. Columns of numbers get up to `bins` bins.
    ///
    /// # Errors
    /// [`Error::Input`] for a text among numbers, for a role of an unknown column, and if no column is left.
    pub fn find(table: &Table, targets: &[TargetSpec], roles: &ColumnRoles, bins: usize) -> Result<Self> {
        let given = targets.iter().map(|target| &target.name);
        for name in roles.categories.iter().chain(&roles.ignored).chain(given.clone()) {
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
                    let target = Column::of_form(table, place, table.form(place, target.form)?, 0)?;
                    let described = format!("target: {}", target.described);
                    Ok(Column { kind: Kind::Unused, described, ..target })
                }
                None if roles.ignored.contains(name) => left_out("left out", "as an option says"),
                None if is_index && !is_category => left_out(
                    "index, left out",
                    "it has no name or counts the rows; move it behind another column to use it",
                ),
                None => Column::find(table, place, is_category, bins),
            }
        };
        let columns = table.columns().iter().enumerate().map(find).collect::<Result<Vec<Column>>>()?;
        let found = Self { columns };
        if found.dim() == 0 {
            let unused = found.columns.iter().filter(|column| is_input(&column.name));
            let reasons: String =
                unused.map(|column| format!("; {}: {}", column.name, column.values)).collect();
            return Err(Error::input(table.name(), format!("no column is left to predict from{reasons}")));
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

    /// Leaves out all bins.
    pub fn without_bins(mut self) -> Self {
        for column in &mut self.columns {
            if let Kind::Number { bins, .. } = &mut column.kind {
                bins.clear();
            }
        }
        self
    }

    /// Returns the bins of all columns of numbers, in units of x.
    pub fn bins(&self) -> Vec<Bin> {
        let (mut found, mut input) = (Vec::new(), 0);
        for column in &self.columns {
            if let Kind::Number { mean, deviation, bins: ends, .. } = &column.kind {
                let count = ends.len().saturating_sub(1);
                let bin = |(place, pair): (usize, &[f64])| Bin {
                    input,
                    ends: [pair[0], pair[1]].map(|end| (end - mean) / deviation),
                    is_outer: [place == 0, place + 1 == count],
                    mean: 1.0 - (place as f64 + 0.5) / count as f64,
                };
                found.extend(ends.windows(2).enumerate().map(bin));
            }
            input += column.parts().len();
        }
        found
    }

    /// Encodes every row of `table`.
    ///
    /// # Errors
    /// [`Error::Input`] for a missing column, and for a text in a column of numbers or dates.
    pub fn encode(&self, table: &Table) -> Result<Encoded> {
        let (mut x, mut unknown) = (Vec::new(), BTreeMap::new());
        // A table may have very many columns.
        let places: BTreeMap<&str, usize> = table.columns().iter().map(String::as_str).zip(0..).collect();
        for column in self.columns.iter().filter(|column| column.kind != Kind::Unused) {
            let place =
                places.get(&*column.name).map_or_else(|| table.column(&column.name), |place| Ok(*place))?;
            let (part, lost) = column.encode(table, place)?;
            x.push(Tensor::from_vec(part, (table.rows(), column.parts().len()), &Device::Cpu)?);
            unknown.extend((lost > 0).then(|| (column.name.clone(), lost)));
        }
        Ok(Encoded { x: Tensor::cat(&x, 1)?, unknown })
    }
}

impl Column {
    /// Finds the encoding of the column at `place`.
    fn find(table: &Table, place: usize, is_category: bool, bins: usize) -> Result<Self> {
        let texts: Vec<Option<&str>> = (0..table.rows()).map(|row| table.text(row, place)).collect();
        let unused = |reason: &str| Ok(Self::unused(table, place, "left out", reason));
        if texts.iter().all(Option::is_none) {
            return unused("it has no value");
        }
        let share = if is_category { 0.0 } else { table.share(place, 0) };
        if share < NUMERIC_SHARE {
            match levels(&texts, is_category) {
                Ok(levels) => {
                    let shown: String = levels.iter().take(3).map(|level| format!(" {level:.40},")).collect();
                    let values = format!("{}:{}", levels.len(), shown.trim_end_matches(','));
                    let column = Self::unused(table, place, "category", &values);
                    return Ok(Self { kind: Kind::Category { levels }, ..column });
                }
                Err(reason) if share < MIXED_SHARE => return unused(&reason),
                // What is mostly numbers is not left out as names.
                Err(_) => {}
            }
        }
        let column = Self::of_form(table, place, table.form(place, None)?, bins)?;
        match column.kind {
            Kind::Number { deviation, .. } if deviation > 0.0 => Ok(column),
            // The indicator of missing values may still carry information.
            Kind::Number { form, mean, .. } if column.gaps > 0 => {
                Ok(Self { kind: Kind::Number { form, mean, deviation: 1.0, bins: vec![] }, ..column })
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

    /// Reads a column of numbers or dates in this form, with up to `bins` bins.
    fn of_form(table: &Table, place: usize, form: Form, bins: usize) -> Result<Self> {
        let values = table.values(place, form)?;
        let there: Vec<f64> = values.iter().flatten().copied().collect();
        let (mean, deviation) = scale(&there, ends(&there));
        let mut rows: Vec<usize> = (0..values.len()).filter(|&row| values[row].is_some()).collect();
        rows.sort_by(|&a, &b| values[a].partial_cmp(&values[b]).unwrap_or(Ordering::Equal));
        let end = |row: Option<&usize>| row.and_then(|&row| table.text(row, place)).unwrap_or_default();
        let (low, high) = (end(rows.first()), end(rows.last()));
        let (described, range) = (form.describe(high), format!("{low} to {high}"));
        let column = Self::unused(table, place, &described, &range);
        let gaps = values.len() - there.len();
        let bins = bin_ends(there, bins);
        Ok(Self { kind: Kind::Number { form, mean, deviation, bins }, gaps, ..column })
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

    /// Encodes the rows of the table's column at `place`, and counts the texts without an input or a value.
    fn encode(&self, table: &Table, place: usize) -> Result<(Vec<f32>, usize)> {
        let values = match self.kind {
            Kind::Number { form, .. } => table.values(place, table.form(place, Some(form))?)?,
            _ => vec![None; table.rows()],
        };
        let (mut x, mut lost) = (Vec::new(), 0);
        for (row, value) in values.into_iter().enumerate() {
            let text = table.text(row, place);
            let is_known = match &self.kind {
                Kind::Number { mean, deviation, .. } => {
                    let z = value.map_or(0.0, |value| (value - mean) / deviation);
                    x.push(z.clamp(-MAX_DEVIATIONS, MAX_DEVIATIONS) as f32);
                    value.is_some()
                }
                Kind::Category { levels } => {
                    x.extend(levels.iter().map(|level| f32::from(text == Some(level))));
                    text.is_some_and(|text| levels.iter().any(|level| level == text))
                }
                Kind::Unused => false,
            };
            lost += usize::from(text.is_some() && !is_known);
            if self.gaps > 0 {
                let is_gap = text.is_none() || !is_known && matches!(self.kind, Kind::Number { .. });
                x.push(f32::from(is_gap));
            }
        }
        Ok((x, lost))
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

/// Returns the ends of up to `count` bins with the same number of values in each and at least [`MIN_IN_BIN`]; none for fewer
/// than two bins.
fn bin_ends(mut values: Vec<f64>, count: usize) -> Vec<f64> {
    let count = count.min(values.len() / MIN_IN_BIN);
    values.sort_by(f64::total_cmp);
    let end = |k: usize| values[k * (values.len() - 1) / count];
    let mut ends: Vec<f64> = if count == 0 { vec![] } else { (0..=count).map(end).collect() };
    ends.dedup();
    if ends.len() < 3 { vec![] } else { ends }
}

/// Returns the smallest and the largest value of those within [`FAR`] spreads of the middle ones. The spread is the distance
/// of the quartiles, or, where these are equal, of quantiles further out.
pub fn ends(values: &[f64]) -> [f64; 2] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    let quantile =
        |share: f64| sorted.get((share * last as f64).round() as usize).copied().unwrap_or(f64::NAN);
    let pairs = [0.25, 0.05, 0.01, 0.0].map(|share| [quantile(share), quantile(1.0 - share)]);
    let [low, high] = pairs.into_iter().find(|[low, high]| high > low).unwrap_or(pairs[3]);
    let margin = FAR * (high - low);
    let mut near = sorted.iter().copied().filter(|value| (low - margin..=high + margin).contains(value));
    let least = near.next().unwrap_or(f64::NAN);
    [least, near.next_back().unwrap_or(least)]
}

/// Computes the mean and the standard deviation of the values, moved to their [`ends`].
pub fn scale(values: &[f64], [low, high]: [f64; 2]) -> (f64, f64) {
    let near: Vec<f64> = values.iter().map(|value| value.max(low).min(high)).collect();
    mean_and_deviation(&near)
}

/// Computes the mean and the standard deviation, both divided by n.
fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    // The mean of equal values may be off by rounding.
    let same = values.windows(2).all(|pair| pair[0] == pair[1]);
    (mean, if same { 0.0 } else { variance.sqrt() })
}
