//! The figures of one set of detections, as JSON and as text.

use std::fmt::Write;

use anyhow::Result;
use ebm_eval::{
    CategoryFigures, CocoFigures, CocoTables, Detection, EdgeCoverage, ErrorBreakdown, GroundTruth, Table,
    coco_tables, error_breakdown,
};
use serde_json::{Value, json};

/// What to report beside the twelve figures.
pub struct Wanted {
    pub categories: bool,
    pub errors: bool,
}

/// The figures of one set of detections.
pub struct Report {
    pub name: String,
    figures: CocoFigures,
    categories: Option<Vec<CategoryFigures>>,
    errors: Option<ErrorBreakdown>,
    /// Of the intervals that a result file has.
    pub edges: Option<EdgeCoverage>,
}

impl Report {
    /// Scores the detections.
    pub fn new(name: &str, truth: &GroundTruth, detections: &[Detection], wanted: &Wanted) -> Result<Self> {
        let CocoTables { figures, categories } = coco_tables(truth, detections)?;
        let categories = wanted.categories.then_some(categories);
        let errors = wanted.errors.then(|| error_breakdown(truth, detections)).transpose()?;
        Ok(Self { name: name.to_owned(), figures, categories, errors, edges: None })
    }

    /// A row: the figures with the tables.
    pub fn object(&self) -> Result<Value> {
        let mut object = serde_json::to_value(self.figures)?;
        if !self.name.is_empty() {
            object["method"] = json!(self.name);
        }
        if let Some(edges) = &self.edges {
            object["edge_coverage"] = serde_json::to_value(edges)?;
        }
        if let Some(categories) = &self.categories {
            object["per_class"] = serde_json::to_value(categories)?;
        }
        if let Some(errors) = &self.errors {
            object["error_breakdown"] = serde_json::to_value(errors)?;
        }
        Ok(object)
    }

    /// The same to read.
    pub fn text(&self) -> Result<String> {
        let mut text = String::new();
        if !self.name.is_empty() {
            writeln!(text, "{}", self.name)?;
        }
        for (figure, value) in self.figures.named() {
            writeln!(text, "{figure:>10} {value:.4}")?;
        }
        if let Some(edges) = &self.edges {
            text.push_str(&by_edge(edges)?);
        }
        if let Some(categories) = &self.categories {
            write!(text, "\n{}", by_category(categories)?)?;
        }
        if let Some(errors) = &self.errors {
            write!(text, "\n{}", by_kind(errors)?)?;
        }
        Ok(text)
    }
}

fn by_edge(edges: &EdgeCoverage) -> Result<String> {
    let mut table = Table::new(["edge", "in its interval", "mean width / side"]);
    let values = edges.edges.iter().zip(edges.mean_width);
    for (name, (share, width)) in ["left", "top", "right", "bottom"].into_iter().zip(values) {
        table.push([name.to_owned(), figure(*share), figure(width)])?;
    }
    let EdgeCoverage { detections, coverage, .. } = edges;
    Ok(format!(
        "\n{} of the edges of {detections} right detections lie in their interval\n\n{}",
        figure(*coverage),
        table.render()
    ))
}

fn by_category(categories: &[CategoryFigures]) -> Result<String> {
    let mut table = Table::new(["category", "objects", "AP", "AP50", "AP75"]);
    for row in categories {
        let values = [row.ap, row.ap50, row.ap75].map(figure);
        table.push([row.name.clone(), row.objects.to_string()].into_iter().chain(values))?;
    }
    Ok(table.render())
}

fn by_kind(errors: &ErrorBreakdown) -> Result<String> {
    let mut table = Table::new(["error", "count", "gain in AP50 if fixed"]);
    for cost in &errors.kinds {
        table.push([cost.kind.to_owned(), cost.count.to_string(), gain(cost.delta_ap50)])?;
    }
    let wrong: u64 = errors.kinds.iter().take(5).map(|cost| cost.count).sum();
    let row = |name: &str, count: String, delta| [name.to_owned(), count, gain(delta)];
    table.push(row("all wrong detections", wrong.to_string(), errors.delta_false_positives))?;
    table.push(row("all objects not found", String::new(), errors.delta_false_negatives))?;
    Ok(table.render())
}

/// A figure, or a dash where there is nothing that it could be of.
fn figure(value: f64) -> String {
    if value < 0.0 { "–".into() } else { format!("{value:.4}") }
}

fn gain(value: f64) -> String {
    format!("{:+.4}", value.max(0.0))
}
