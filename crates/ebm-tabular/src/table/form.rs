//! Forms of the columns of a file.
//!
//! All rows of a file show the form of its columns: it is no property of the values, which a fit learns from its own rows
//! alone. Each file is looked at anew, because it may have other forms than the file of the fit. What a file leaves open
//! is decided by the options, by the other columns, then by the fit, and is else an error.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::date::days;
use super::number::{Number, number};
use crate::{Error, Result, Table};

/// Style of numbers or dates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Style {
    /// Numbers with a decimal point.
    Point,
    /// Numbers with a decimal comma.
    Comma,
    /// Dates of year, month, day, in this order, as days since 1970-01-01.
    Ymd,
    /// Dates of day, month, year.
    Dmy,
    /// Dates of month, day, year.
    Mdy,
    /// Times of day, as parts of a day.
    Time,
}

/// Form of the cells of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Form {
    /// Style of the numbers or dates.
    pub style: Style,
    /// Sign of a currency or of per cent.
    pub unit: Option<char>,
}

impl Style {
    /// All styles.
    pub(super) const ALL: [Self; 6] = [Self::Point, Self::Comma, Self::Ymd, Self::Dmy, Self::Mdy, Self::Time];

    /// Reads a text with any unit.
    pub(super) fn read(self, text: &str) -> Option<Number> {
        match self {
            _ if text.is_ascii() && !text.bytes().any(|byte| byte.is_ascii_digit()) => None,
            Self::Point => number(text, '.'),
            Self::Comma => number(text, ','),
            date => days(text, date).map(|value| Number { value, unit: None, group: None }),
        }
    }
}

impl Form {
    /// Returns the value of a text; none for a text of another form.
    fn read(self, text: &str) -> Option<f64> {
        let found = self.style.read(text)?;
        // A currency may be left out. 12.5 and 12.5 % differ.
        let units = [found.unit, self.unit];
        let fits = units[0] == units[1] || units.contains(&None) && !units.contains(&Some('%'));
        fits.then_some(found.value)
    }

    /// Describes the form of cells such as `text`.
    pub(crate) fn describe(self, text: &str) -> String {
        let unit = self.unit.map_or_else(String::new, |unit| format!(" in {unit}"));
        let group = self.style.read(text).and_then(|number| number.group);
        let group = group.map_or_else(String::new, |group| format!(", thousands {group:?}"));
        match self.style {
            Style::Point => format!("number{unit}{group}"),
            Style::Comma => format!("number{unit}, decimal comma{group}"),
            Style::Time => "time of day".to_owned(),
            date => format!("date ({date:?})").to_lowercase(),
        }
    }
}

/// Evidence for the form of a column.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    /// Number of texts with each unit.
    units: BTreeMap<Option<char>, usize>,
    /// Number of texts that each style reads.
    counts: [usize; Style::ALL.len()],
    /// The first text that a style reads otherwise than these styles before it do (a bit for each), in the order of texts.
    differing: Vec<(Style, u8, String)>,
    /// Styles that read most cells, without those that read the same as one before.
    best: Vec<Style>,
    /// Text that the last of them reads otherwise.
    open: String,
}

impl Evidence {
    /// Looks at a text of the column.
    pub(super) fn see(&mut self, text: &str) {
        let read = Style::ALL.map(|style| style.read(text));
        let unit = read.iter().flatten().find_map(|number| number.unit);
        *self.units.entry(unit).or_default() += 1;
        let values = read.map(|number| number.map(|number| number.value));
        for (style, value) in Style::ALL.into_iter().zip(values) {
            self.counts[style as usize] += usize::from(value.is_some());
            let before = values[..style as usize].iter().enumerate();
            let others = before.map(|(bit, other)| u8::from(*other != value) << bit).sum();
            if !self.differing.iter().any(|(known, mask, _)| (*known, *mask) == (style, others)) {
                self.differing.push((style, others, text.to_owned()));
            }
        }
    }

    /// Finds the best styles, when all texts were seen.
    pub(super) fn found(mut self) -> Self {
        let (most, mut found) = (self.most(), 0);
        for style in Style::ALL.into_iter().filter(|style| most > 0 && self.counts[*style as usize] == most) {
            let differs = |(other, mask, _): &&(Style, u8, String)| *other == style && mask & found == found;
            if let Some((.., text)) = self.differing.iter().find(differs) {
                self.open.clone_from(text);
                self.best.push(style);
                found |= 1 << style as u8;
            }
        }
        self
    }

    fn most(&self) -> usize {
        self.counts.into_iter().max().unwrap_or_default()
    }
}

/// Evidence for the forms of all columns.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    columns: Vec<Evidence>,
    /// Whether a column shows numbers with a decimal point, and whether one shows numbers with a decimal comma.
    shown: [bool; 2],
}

impl Seen {
    /// Looks at what was [found](Evidence::found) in each column.
    pub(super) fn new(columns: Vec<Evidence>) -> Self {
        let shows = |style: usize| columns.iter().any(|seen| seen.counts[style] > seen.counts[1 - style]);
        Self { shown: [0, 1].map(shows), columns }
    }
}

impl Table {
    /// Returns the share of a column's cells in the file, but for `spared` ones, that have the commonest style of numbers
    /// or dates.
    pub(crate) fn share(&self, column: usize, spared: usize) -> f64 {
        let seen = &self.seen.columns[column];
        seen.most() as f64 / seen.units.values().sum::<usize>().saturating_sub(spared).max(1) as f64
    }

    /// Returns the form of a column of numbers or dates: the one that reads most cells. `known` is its form in the file of
    /// a fit.
    ///
    /// # Errors
    /// [`Error::Input`] if neither the file nor the options nor the fit tell which of two forms it is.
    pub fn form(&self, column: usize, known: Option<Form>) -> Result<Form> {
        let seen = &self.seen.columns[column];
        let commonest = || seen.units.iter().max_by_key(|(_, count)| **count).and_then(|(unit, _)| *unit);
        let unit = known.map_or_else(commonest, |known| known.unit);
        let known = known.map(|known| known.style);
        // The first two styles are of numbers.
        let is_alike =
            |style: &&Style| known.is_none_or(|known| (known as usize > 1) == (**style as usize > 1));
        let best: Vec<Style> = seen.best.iter().filter(is_alike).copied().collect();
        let shows = |style: &Style| match (self.delimiter, *style as usize) {
            // Between commas "1,234" is 1234, and between semicolons 1.234, if no column shows the contrary.
            (',', 0) => true,
            (';', 1) if seen.open.contains(',') => true,
            (_, style) => self.seen.shown[style],
        };
        let mut shown = [Style::Point, Style::Comma].into_iter().filter(shows);
        let agreed = shown.next().filter(|_| shown.next().is_none());
        let mut hints = self.options.preferred.iter().copied().chain(agreed).chain(known);
        let style = match best[..] {
            [] => known.unwrap_or(Style::Point),
            [style] => style,
            [a, b, ..] => hints.find(|hint| best.contains(hint)).ok_or_else(|| {
                let [[a, ours], [b, others]] = [a, b].map(|style| {
                    let reading = match style.read(&seen.open) {
                        Some(number) if style as usize <= 1 => number.value.to_string(),
                        _ => format!("a {}", Form { style, unit }.describe("")),
                    };
                    [reading, format!("--read-as {style:?}").to_lowercase()]
                });
                let reason = format!("{:?} may be {a} or {b}, and no other cell tells", seen.open);
                let place = format!("{}, column {}", self.name(), self.columns()[column]);
                Error::input(place, format!("{reason}; give {ours} or {others}"))
            })?,
        };
        Ok(Form { style, unit })
    }

    /// Returns the values of a column in its form, none for gaps. Texts of another form are gaps if the options say so.
    ///
    /// # Errors
    /// [`Error::Input`] with the first three texts of another form.
    pub fn values(&self, column: usize, form: Form) -> Result<Vec<Option<f64>>> {
        let read = |row| self.text(row, column).and_then(|text| form.read(text));
        let values: Vec<Option<f64>> = (0..self.rows()).map(read).collect();
        let text = |row| Some((self.line(row), self.text(row, column).filter(|_| values[row].is_none())?));
        let mut wrong: Vec<(u64, &str)> = (0..self.rows()).filter_map(text).collect();
        wrong.sort_unstable();
        let [(line, text), others @ ..] = &wrong[..] else { return Ok(values) };
        if self.options.lenient {
            return Ok(values);
        }
        let mut reason = format!("{text:?} is no {}", form.describe(""));
        others.iter().take(2).for_each(|(line, text)| reason += &format!(", nor is {text:?} in line {line}"));
        if others.len() > 2 {
            reason += &format!(", nor are {} others", others.len() - 2);
        }
        reason += "; correct or empty these cells, count them as gaps by --lenient, or give --category";
        Err(Error::input(format!("{}, line {line}, column {}", self.name(), self.columns()[column]), reason))
    }

    /// Returns the values of the column `name`, which every row must have.
    ///
    /// # Errors
    /// [`Error::Input`] for a cell without a value of this style that `fits`; `reason` says why it is none.
    pub(crate) fn all_values(
        &self,
        name: &str,
        fits: fn(Style, f64) -> bool,
        reason: &str,
    ) -> Result<Vec<f64>> {
        let column = self.column(name)?;
        let form = self.form(column, None)?;
        let read = |row| {
            let value = self.text(row, column).and_then(|text| form.read(text));
            let value = value.filter(|value| fits(form.style, *value));
            value.ok_or_else(|| self.cell_error(row, column, reason.to_owned()))
        };
        (0..self.rows()).map(read).collect()
    }
}
