//! The data that the script of charts draws.

use serde::Serialize;

/// The id of the element that holds [`Charts`].
pub const CHARTS_ID: &str = "charts";

/// All charts of a page, which share their axis of steps.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Charts {
    /// What the x of every chart counts.
    pub x: String,
    /// What the curves are of, such as trainings; a curve's `of` is an index into it, and has one colour on the
    /// whole page.
    pub names: Vec<String>,
    /// Each is drawn into the element whose attribute `data-chart` is its index here.
    pub charts: Vec<Chart>,
}

/// A chart: one quantity of several trainings.
#[derive(Clone, Debug, Serialize)]
pub struct Chart {
    /// The quantity's name.
    pub title: String,
    /// A curve each.
    pub curves: Vec<Curve>,
}

/// A curve as points in order of x. A point may stand for several values: then y is their mean, and `low` and
/// `high` are their bounds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Curve {
    /// Index of the name.
    pub of: usize,
    /// Where the points are, ascending.
    pub x: Vec<f64>,
    /// Their values; none where there is no finite one, which interrupts the line.
    pub y: Vec<Option<f64>>,
    /// The least values; empty where every point is one value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub low: Vec<Option<f64>>,
    /// The greatest values; empty where every point is one value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub high: Vec<Option<f64>>,
    /// Whether the points themselves are marked, as few measurements are.
    pub marked: bool,
}
