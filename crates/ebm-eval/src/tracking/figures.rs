//! Figures of a tracker.

use serde::{Deserialize, Serialize};

/// The figures of a tracker in percent: on a sequence, on a dataset, or the means of several runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrackingFigures {
    /// Area under `curve` (AUC).
    #[serde(with = "crate::json::per_cent")]
    pub auc: f64,
    /// Percentage of frames with an overlap above 0.5: OP₀.₅, or SR₀.₅.
    #[serde(with = "crate::json::per_cent")]
    pub op50: f64,
    /// Percentage of frames with an overlap above 0.75.
    #[serde(with = "crate::json::per_cent")]
    pub op75: f64,
    /// Percentage of frames with a centre error of at most 20 pixels.
    #[serde(with = "crate::json::per_cent")]
    pub precision: f64,
    /// Percentage of frames with a normalised centre error of at most 0.2.
    #[serde(with = "crate::json::per_cent")]
    pub norm_precision: f64,
    /// Mean overlap (AO), with 0 in frames without a valid box.
    #[serde(with = "crate::json::per_cent")]
    pub average_overlap: f64,
    /// Success curve: frames with an overlap above each of the evenly spaced thresholds from 0 to 1.
    #[serde(with = "crate::json::per_cent", default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<f64>,
    /// Precision curve: frames with a centre error of at most 0, 1, … 50 pixels.
    #[serde(with = "crate::json::per_cent", default, skip_serializing_if = "Vec::is_empty")]
    pub precision_curve: Vec<f64>,
    /// Normalised precision curve: frames with an error of at most each of the evenly spaced thresholds from 0 to 0.5.
    #[serde(with = "crate::json::per_cent", default, skip_serializing_if = "Vec::is_empty")]
    pub norm_precision_curve: Vec<f64>,
}

impl TrackingFigures {
    /// Returns the figures without their curves.
    #[must_use]
    pub fn without_curves(&self) -> Self {
        Self { curve: Vec::new(), precision_curve: Vec::new(), norm_precision_curve: Vec::new(), ..*self }
    }

    /// Computes the means of several parts, weighted by `weights`. The area is linear in its curve and every other number
    /// is a point of a curve, so the means of the numbers are the numbers of the mean curves.
    pub(super) fn of_parts(parts: &[&Self], weights: &[f64]) -> Self {
        let total: f64 = weights.iter().sum();
        let number = |field: fn(&Self) -> f64| {
            parts.iter().zip(weights).map(|(part, weight)| weight * field(part)).sum::<f64>() / total
        };
        let curve = |field: fn(&Self) -> &Vec<f64>| {
            parts.iter().zip(weights).fold(Vec::new(), |mut sum, (part, weight)| {
                sum.resize(field(part).len(), 0.0);
                sum.iter_mut().zip(field(part)).for_each(|(sum, value)| *sum += weight / total * value);
                sum
            })
        };
        Self {
            auc: number(|part| part.auc),
            op50: number(|part| part.op50),
            op75: number(|part| part.op75),
            precision: number(|part| part.precision),
            norm_precision: number(|part| part.norm_precision),
            average_overlap: number(|part| part.average_overlap),
            curve: curve(|part| &part.curve),
            precision_curve: curve(|part| &part.precision_curve),
            norm_precision_curve: curve(|part| &part.norm_precision_curve),
        }
    }
}
