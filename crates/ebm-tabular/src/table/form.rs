//! How the columns of a file are written.
//!
//! All rows of a file show how its columns are written: that is no property of the values, of which a fit learns from its
//! own rows alone. Each file is looked at anew, because it may be written otherwise than the file of the fit. What a
//! file leaves open is decided by the options, then by the fit, and is else an error.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::date::{Order, days};
use super::number::{DECIMALS, number};
use crate::{Error, Result, Table};

/// Share of a column's cells from which numbers or dates make it one of numbers or dates, and other texts errors.
pub const NUMERIC_SHARE: f64 = 0.9;

/// Form of the cells of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Form {
    /// Numbers.
    Number {
        /// Decimal sign.
        decimal: char,
        /// Sign between thousands, if there is one.
        group: Option<char>,
        /// Sign of a currency or of per cent, if there is one.
        unit: Option<char>,
    },
    /// Dates, as days since 1970-01-01.
    Date(Order),
}

impl Form {
    /// Returns the value of a text; none for a text of another form.
    pub fn read(self, text: &str) -> Option<f64> {
        match self {
            Self::Date(order) => days(text, order),
            Self::Number { decimal, unit, .. } => {
                let found = number(text, decimal)?;
                // A currency may be left out. 12.5 and 12.5 % differ.
                let is_same = found.unit == unit
                    || [found.unit, unit].contains(&None) && ![found.unit, unit].contains(&Some('%'));
                is_same.then_some(found.value)
            }
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Date(Order::Time) => write!(out, "time of day"),
            Self::Date(order) => write!(out, "date ({})", order.name()),
            Self::Number { decimal, group, unit } => {
                write!(out, "number")?;
                unit.map_or(Ok(()), |unit| write!(out, " in {unit}"))?;
                if *decimal == ',' {
                    write!(out, ", decimal comma")?;
                }
                group.map_or(Ok(()), |group| write!(out, ", thousands {group:?}"))
            }
        }
    }
}

/// What the cells of a column show.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    /// Number of cells that are no gaps.
    there: usize,
    /// Number of numbers, with either decimal sign.
    numbers: usize,
    /// Number of numbers with one of [`DECIMALS`] alone.
    decided: [usize; 2],
    /// First text that is another number with the other sign.
    open: Option<String>,
    /// First sign of a currency.
    currency: Option<char>,
    /// Number of numbers in per cent.
    per_cent: usize,
    /// First sign between thousands, with each decimal sign.
    groups: [Option<char>; 2],
    /// Largest number of dates in one order.
    dates: usize,
    /// Orders with that number, of which no two give the same dates.
    orders: Vec<Order>,
    /// Text that has another date in another order.
    open_date: String,
}

impl Evidence {
    /// Looks at the texts of a column.
    pub(super) fn of<'a>(texts: impl Iterator<Item = &'a str> + Clone) -> Self {
        let mut seen = Self::default();
        let mut dates = [0; Order::ALL.len()];
        for text in texts.clone() {
            seen.there += 1;
            let read = DECIMALS.map(|decimal| number(text, decimal));
            match read {
                [None, None] => {
                    for (count, order) in dates.iter_mut().zip(Order::ALL) {
                        *count += usize::from(days(text, order).is_some());
                    }
                    continue;
                }
                [Some(_), None] => seen.decided[0] += 1,
                [None, Some(_)] => seen.decided[1] += 1,
                [Some(point), Some(comma)] if point.value != comma.value => {
                    seen.open.get_or_insert_with(|| text.to_owned());
                }
                _ => {}
            }
            seen.numbers += 1;
            for (group, number) in seen.groups.iter_mut().zip(read) {
                *group = group.or(number.and_then(|number| number.group));
            }
            match read.into_iter().flatten().find_map(|number| number.unit) {
                Some('%') => seen.per_cent += 1,
                unit => seen.currency = seen.currency.or(unit),
            }
        }
        seen.dates = dates.into_iter().max().unwrap_or_default();
        for (order, count) in Order::ALL.into_iter().zip(dates) {
            let differs =
                |text: &&str| seen.orders.iter().all(|other| days(text, *other) != days(text, order));
            if count == seen.dates && count > 0 {
                if let Some(text) = texts.clone().find(differs) {
                    seen.open_date = text.to_owned();
                    seen.orders.push(order);
                }
            }
        }
        seen
    }

    /// Returns whether less than nine tenths of the texts but `spared` are numbers or dates.
    pub(super) fn is_text(&self, spared: usize) -> bool {
        let count = self.numbers.max(self.dates);
        count == 0 || (count as f64) < NUMERIC_SHARE * (self.there - spared) as f64
    }
}

impl Table {
    /// Returns the form of a column of which at least the share `least` is numbers or dates; none for a column of texts.
    ///
    /// # Errors
    /// [`Error::Input`] if the file does not tell which of two forms it is.
    pub(crate) fn form(&self, column: usize, least: f64) -> Result<Option<Form>> {
        let seen = &self.seen[column];
        let is_enough = |count: usize| count > 0 && count as f64 >= least * seen.there as f64;
        if is_enough(seen.numbers) {
            return self.number_form(column, None).map(Some);
        }
        is_enough(seen.dates).then(|| self.date_form(column, None)).transpose()
    }

    /// Returns the form in this file of a column whose form in the file of a fit is `known`.
    ///
    /// # Errors
    /// [`Error::Input`] if neither this file nor the fit tells which of two forms it is.
    pub(crate) fn form_like(&self, column: usize, known: Form) -> Result<Form> {
        match known {
            Form::Number { .. } => self.number_form(column, Some(known)),
            Form::Date(order) => self.date_form(column, Some(order)),
        }
    }

    /// Returns the form of a column as numbers. Cells with a sign that is possible in one form alone decide, then the
    /// other columns and the separator if they agree: "1,234" is 1234 between commas, and 1.234 between semicolons.
    pub(crate) fn number_form(&self, column: usize, known: Option<Form>) -> Result<Form> {
        let seen = &self.seen[column];
        if known.is_none() && 2 * seen.numbers < seen.there && self.options.lenient {
            return Err(self.column_error(column, "it holds texts, and numbers are needed".to_owned()));
        }
        let of_file = [0, 1].map(|sign| self.seen.iter().any(|seen| seen.decided[sign] > 0));
        let of_separator = match (self.delimiter, &seen.open) {
            (',', _) => Some('.'),
            (';', Some(text)) if text.contains(',') => Some(','),
            _ => None,
        };
        let of_file = (of_file[0] != of_file[1]).then(|| DECIMALS[usize::from(of_file[1])]);
        let agreed = if of_file.is_some_and(|file| of_separator.is_some_and(|sign| sign != file)) {
            None
        } else {
            of_file.or(of_separator)
        };
        let of_fit = match known {
            Some(Form::Number { decimal, .. }) => Some(decimal),
            _ => None,
        };
        let decimal = match seen.decided {
            [point, comma] if point != comma => DECIMALS[usize::from(comma > point)],
            _ => match (self.options.decimal.or(agreed).or(of_fit), &seen.open) {
                (Some(decimal), _) => decimal,
                (None, None) => '.',
                (None, Some(text)) => {
                    let [a, b] = DECIMALS.map(|sign| number(text, sign).map_or(0.0, |number| number.value));
                    let reason =
                        format!("{text:?} may be {a} or {b}; give --decimal point or --decimal comma");
                    return Err(self.column_error(column, reason));
                }
            },
        };
        let unit = match known {
            Some(Form::Number { unit, .. }) => unit,
            _ if 2 * seen.per_cent > seen.numbers => Some('%'),
            _ => seen.currency,
        };
        Ok(Form::Number { decimal, group: seen.groups[usize::from(decimal == ',')], unit })
    }

    /// Returns the form of a column as dates: the order in which most cells are dates.
    fn date_form(&self, column: usize, known: Option<Order>) -> Result<Form> {
        let seen = &self.seen[column];
        let wanted =
            [self.options.dates, known].into_iter().flatten().find(|order| seen.orders.contains(order));
        match (wanted, &seen.orders[..]) {
            (Some(order), _) | (None, &[order]) => Ok(Form::Date(order)),
            (None, &[]) => Ok(Form::Date(known.unwrap_or(Order::Ymd))),
            (None, &[a, b, ..]) => {
                let (a, b, text) = (a.name(), b.name(), &seen.open_date);
                let reason = format!(
                    "{text:?} may be {a} or {b}, and no other row tells; give --dates {a} or --dates {b}"
                );
                Err(self.column_error(column, reason))
            }
        }
    }

    /// Returns the values of a column in its form, none for gaps. Texts of another form are gaps if the options say so.
    ///
    /// # Errors
    /// [`Error::Input`] with the first three texts of another form.
    pub fn values(&self, column: usize, form: Form) -> Result<Vec<Option<f64>>> {
        let mut wrong = Vec::new();
        let values = (0..self.rows()).map(|row| {
            let text = self.text(row, column)?;
            let value = form.read(text);
            if value.is_none() {
                wrong.push((self.line(row), text));
            }
            value
        });
        let values = values.collect();
        if wrong.is_empty() || self.options.lenient {
            return Ok(values);
        }
        wrong.sort_unstable();
        let (line, text) = wrong[0];
        let mut reason = format!("{text:?} is no {form}");
        for (line, text) in wrong.iter().skip(1).take(2) {
            reason += &format!(", nor is {text:?} in line {line}");
        }
        if wrong.len() > 3 {
            reason += &format!(", nor are {} others", wrong.len() - 3);
        }
        reason += "; correct or empty such cells, count them as gaps by --lenient, or give --category for a column of names";
        let place = format!("{}, line {line}, column {}", self.name(), self.columns()[column]);
        Err(Error::input(place, reason))
    }

    fn column_error(&self, column: usize, reason: String) -> Error {
        Error::input(format!("{}, column {}", self.name(), self.columns()[column]), reason)
    }
}
