//! Expected figures of an experiment, as its configuration states them, and their comparison with measured
//! figures.

use std::collections::BTreeMap;
use std::fmt;

use ebm_base::settings_table;
use serde::{Deserialize, Serialize};
use serde_json::Value;

settings_table! {
    /// Expected outcome of an experiment: the table `[expected]` of its configuration file.
    ///
    /// ```
    /// use ebm_eval::Expected;
    /// use serde_json::json;
    ///
    /// let expected: Expected = serde_json::from_value(json!({
    ///     "command": "ebm reproduce detection", "time": "not measured", "source": "results.csv",
    ///     "rows": [{ "of": { "method": "ebm" }, "ap": [0.47, 0.01] }],
    /// }))?;
    /// let measured = json!([{ "method": "ebm", "seed": 0, "ap": 0.466 }, { "method": "ebm", "seed": 1, "ap": 0.468 }]);
    /// let comparison = expected.compare(measured.as_array().unwrap());
    /// assert_eq!(comparison.to_string(), "expected: 1 of 1 figures within their tolerances");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub struct Expected {
        /// Command that runs the experiment.
        pub command: String,
        /// Run time on two cores, or a note that it was not measured.
        pub time: String,
        /// Source of the figures: a file of measured results, a publication, or the reason for having none.
        pub source: String,
        /// Expected figures of groups of rows.
        #[serde(default)]
        pub rows: Vec<ExpectedRow> where -1e9..=1e9,
    }
}

/// Expected figures of a group of rows, each the mean over the group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExpectedRow {
    /// Keys and values that select the rows of the group, such as the method.
    pub of: BTreeMap<String, Value>,
    /// Expected figures by their keys in the rows.
    #[serde(flatten)]
    pub figures: BTreeMap<String, Figure>,
}

/// An expected figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Figure {
    /// The expected value and its tolerance.
    Within([f64; 2]),
    /// The expected value of a figure without a stated spread; it is shown but not checked.
    Alone(f64),
}

/// Comparison of expected with measured figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// [`Expected::source`].
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Reason for having nothing to compare; none if something was compared.
    pub reason: Option<String>,
    /// Number of figures with a tolerance.
    pub compared: usize,
    /// Number of figures outside their tolerance, or not measured.
    pub missed: usize,
    /// Comparison of every figure whose rows are in the run.
    pub figures: Vec<ComparedFigure>,
}

/// An expected figure beside the measured one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedFigure {
    /// Keys and values that select the rows of the figure.
    pub of: BTreeMap<String, Value>,
    /// Key of the figure in the rows.
    pub key: String,
    /// Mean over the rows; none if no row has the figure.
    pub measured: Option<f64>,
    /// Expected value.
    pub reference: f64,
    /// Largest accepted distance from the expected value.
    pub tolerance: Option<f64>,
    /// Whether the measured value is within the tolerance; none without a tolerance.
    pub within: Option<bool>,
}

impl Expected {
    /// Compares the figures of `rows`, JSON objects, with the expected ones. Expected figures without a matching
    /// row are left out.
    pub fn compare(&self, rows: &[Value]) -> Comparison {
        let mut figures = Vec::new();
        for ExpectedRow { of, figures: expected } in &self.rows {
            let own: Vec<&Value> =
                rows.iter().filter(|row| of.iter().all(|(key, value)| row.get(key) == Some(value))).collect();
            if !own.is_empty() {
                figures.extend(expected.iter().map(|(key, figure)| figure.beside(of, key, &own)));
            }
        }
        let with = |within: bool| figures.iter().filter(|figure| figure.within == Some(within)).count();
        let (met, missed) = (with(true), with(false));
        let reason = figures.is_empty().then(|| match self.rows.is_empty() {
            true => format!("there are no figures: {}", self.source),
            false => format!("no row matches the expected rows of {}", self.source),
        });
        Comparison { source: self.source.clone(), reason, compared: met + missed, missed, figures }
    }
}

impl Figure {
    fn beside(self, of: &BTreeMap<String, Value>, key: &str, rows: &[&Value]) -> ComparedFigure {
        let values: Vec<f64> = rows.iter().filter_map(|row| row.get(key)?.as_f64()).collect();
        let measured = (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        let (reference, tolerance) = match self {
            Self::Within([expected, tolerance]) => (expected, Some(tolerance)),
            Self::Alone(expected) => (expected, None),
        };
        // A figure that was not measured is missed.
        let within =
            tolerance.map(|tolerance| measured.is_some_and(|value| (value - reference).abs() <= tolerance));
        ComparedFigure { of: of.clone(), key: key.to_owned(), measured, reference, tolerance, within }
    }
}

impl Comparison {
    /// Returns the comparison of a run that has nothing to compare, with the reason.
    pub fn none(reason: &str) -> Self {
        Self { reason: Some(reason.to_owned()), ..Self::default() }
    }
}

/// Writes one line: the number of figures within their tolerances, and each figure that is not.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, reason, compared, missed, figures } = self;
        if let Some(reason) = reason {
            return write!(f, "expected: nothing was compared: {reason}");
        }
        if *compared == 0 {
            return write!(f, "expected: nothing was compared: {source} states no tolerance");
        }
        write!(f, "expected: {} of {compared} figures within their tolerances", compared - missed)?;
        let mut before = "; missed: ";
        for figure in figures.iter().filter(|figure| figure.within == Some(false)) {
            let ComparedFigure { of, key, measured, reference, tolerance, .. } = figure;
            let of: Vec<String> = of
                .iter()
                .map(|(key, value)| format!("{key} {}", value.to_string().trim_matches('"')))
                .collect();
            write!(f, "{before}{}: {key} ", of.join(", "))?;
            match measured {
                Some(value) => write!(f, "{value:.4}")?,
                None => f.write_str("not measured")?,
            }
            write!(f, ", expected {reference} ± {}", tolerance.unwrap_or(0.0))?;
            before = "; ";
        }
        Ok(())
    }
}

/// A comparison with missed figures is the error of a run that was asked to check them.
impl std::error::Error for Comparison {}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn expected(rows: Value) -> Expected {
        let table = json!({ "command": "c", "time": "not measured", "source": "a.csv", "rows": rows });
        serde_json::from_value(table).unwrap()
    }

    #[test]
    fn means_over_the_rows_that_a_figure_is_of_are_compared() {
        let rows = [
            json!({ "method": "a", "seed": 0, "refined": false, "mae": 6.0 }),
            json!({ "method": "a", "seed": 1, "refined": false, "mae": 7.0 }),
            json!({ "method": "a", "seed": 0, "refined": true, "mae": 1.0 }),
        ];
        // The mean of 6 and 7 is 6.5, which is 0.5 from 6; 7.25 is 0.75 away, and method b was not run.
        let of = |method: &str| json!({ "method": method, "refined": false });
        let table = expected(json!([
            { "of": of("a"), "mae": [6.0, 0.5] },
            { "of": of("a"), "mae": [7.25, 0.5], "nll": [3.0, 1.0] },
            { "of": of("a"), "mae": 9.0 },
            { "of": of("b"), "mae": [1.0, 0.1] },
        ]));
        let found = table.compare(&rows);
        let within: Vec<Option<bool>> = found.figures.iter().map(|figure| figure.within).collect();
        assert_eq!(within, [Some(true), Some(false), Some(false), None]);
        assert_eq!((found.compared, found.missed), (3, 2));
        assert_eq!(
            found.to_string(),
            "expected: 1 of 3 figures within their tolerances; missed: method a, refined false: mae 6.5000, expected \
             7.25 ± 0.5; method a, refined false: nll not measured, expected 3 ± 1"
        );
    }

    #[test]
    fn what_is_no_number_is_missed() {
        let table = expected(json!([{ "of": {}, "ap": [0.5, 1.0] }]));
        assert_eq!(table.compare(&[json!({ "ap": null })]).missed, 1);
        assert_eq!(table.compare(&[json!({ "ap": "0.5" })]).missed, 1);
    }

    #[test]
    fn nothing_to_compare_says_why() {
        let nothing = |table: Expected| table.compare(&[json!({ "method": "a", "ap": 0.4 })]).to_string();
        assert_eq!(
            nothing(expected(json!([]))),
            "expected: nothing was compared: there are no figures: a.csv"
        );
        let other = expected(json!([{ "of": { "method": "b" }, "ap": [0.4, 0.1] }]));
        assert_eq!(
            nothing(other),
            "expected: nothing was compared: no row matches the expected rows of a.csv"
        );
        let alone = expected(json!([{ "of": { "method": "a" }, "ap": 0.3 }]));
        assert_eq!(nothing(alone), "expected: nothing was compared: a.csv states no tolerance");
    }
}
