//! Metrics of one set of detections, as JSON and as text.

use std::fmt::Write;

use anyhow::{Context, Result};
use ebm_data::coco::CocoDataset;
use ebm_eval::{
    CategoryFigures, CocoFigures, CocoTables, Detection, EdgeCoverage, ErrorBreakdown, GroundTruth,
    coco_tables, diagnose, error_breakdown, operating_point,
};
use serde_json::{Value, json};

use crate::table_spec::TableSpec;

/// Parts of a report beside the twelve COCO metrics.
pub struct ReportOptions {
    pub categories: bool,
    pub errors: bool,
}

/// Metrics of one set of detections.
pub struct Report {
    pub name: String,
    figures: CocoFigures,
    categories: Option<Vec<CategoryFigures>>,
    errors: Option<ErrorBreakdown>,
    /// Coverage of the intervals in a result file.
    pub edges: Option<EdgeCoverage>,
}

impl Report {
    /// Computes the metrics of the detections.
    pub fn new(
        name: &str,
        truth: &GroundTruth,
        detections: &[Detection],
        options: &ReportOptions,
    ) -> Result<Self> {
        let CocoTables { figures, categories } = coco_tables(truth, detections)?;
        let categories = options.categories.then_some(categories);
        let errors = options.errors.then(|| error_breakdown(truth, detections)).transpose()?;
        Ok(Self { name: name.to_owned(), figures, categories, errors, edges: None })
    }

    /// Returns the metrics and tables as a JSON object.
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

    /// Returns the metrics and tables as a text.
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
    let EdgeCoverage { detections, coverage, .. } = edges;
    let values = edges.edges.iter().zip(edges.mean_width);
    let table = TableSpec::new()
        .text("edge", |(name, _): &(&str, (&f64, f64))| (*name).to_owned())
        .number("in its interval", 4, |(_, (share, _))| known(**share))
        .number("mean width / side", 4, |(_, (_, width))| known(*width))
        .render(["left", "top", "right", "bottom"].into_iter().zip(values))?;
    let coverage = known(*coverage).map_or_else(|| "–".into(), |coverage| format!("{coverage:.4}"));
    Ok(format!("\n{coverage} of the edges of {detections} right detections lie in their interval\n\n{table}"))
}

fn by_category(categories: &[CategoryFigures]) -> Result<String> {
    let table = TableSpec::new()
        .text("category", |row: &&CategoryFigures| row.name.clone())
        .text("objects", |row| row.objects)
        .numbers(["AP", "AP50", "AP75"], 4, |row, k| known([row.ap, row.ap50, row.ap75][k]));
    table.render(categories)
}

fn by_kind(errors: &ErrorBreakdown) -> Result<String> {
    let wrong: u64 = errors.kinds.iter().take(5).map(|cost| cost.count).sum();
    let kinds = errors.kinds.iter().map(|cost| (cost.kind, cost.count.to_string(), cost.delta_ap50));
    let all = [
        ("all wrong detections", wrong.to_string(), errors.delta_false_positives),
        ("all objects not found", String::new(), errors.delta_false_negatives),
    ];
    let table = TableSpec::new()
        .text("error", |(kind, ..): &(&str, String, f64)| (*kind).to_owned())
        .text("count", |(_, count, _)| count.clone())
        .text("gain in AP50 if fixed", |(.., gain)| format!("{:+.4}", gain.max(0.0)));
    table.render(kinds.chain(all))
}

/// Returns the value, or `None` if it is undefined, which a negative number marks.
fn known(value: f64) -> Option<f64> {
    (value >= 0.0).then_some(value)
}

/// Returns the operating point and the `count` images with the most errors at it, both as JSON, and a text with both.
pub fn worst(
    truth: &GroundTruth,
    detections: &[Detection],
    dataset: &CocoDataset,
    count: usize,
) -> Result<(Value, Value, String)> {
    let point = operating_point(detections, &diagnose(truth, detections)?);
    let kept: Vec<Detection> = detections.iter().filter(|found| point.keeps(found.score)).copied().collect();
    let which = match point.threshold {
        Some(threshold) => format!("detections from score {threshold:.3} on, where F1 is best"),
        None => "all detections, since none is right".into(),
    };
    let mut text = format!("\nerrors of {which} ({:.3})\n", point.f1);
    let mut images = Vec::new();
    for errors in diagnose(truth, &kept)?.images.iter().take(count) {
        let image = dataset.images.iter().find(|image| image.id == errors.image_id);
        let image = image.with_context(|| format!("image {} is not in the annotations", errors.image_id))?;
        let (name, correct, wrong) = (&image.file_name, errors.correct, errors.wrong);
        let objects = correct + errors.missed;
        writeln!(text, "{:6}  {name}: {correct} of {objects} found, {wrong} wrong", wrong + errors.missed)?;
        images.push(json!({
            "image_id": errors.image_id,
            "file_name": name,
            "objects": objects,
            "correct": correct,
            "errors": { "wrong": wrong, "missed": errors.missed },
            "f1": errors.f1,
        }));
    }
    Ok((json!(point), json!(images), text))
}
