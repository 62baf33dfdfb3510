//! Metrics and seed statistics: detection files and their checks, COCO average precision, success and
//! precision of trackers, calibration of predicted densities, and mean and spread over seeds.
//!
//! **Invariants**: depends on no network and no tensor library; prints nothing; scores nothing that it has
//! not checked.
//!
//! | Module | Contents |
//! |---|---|
//! | [`detections`] | [`Detection`], the COCO result file, the checks before scoring |
//! | [`result_entries`] | [`ResultEntry`]: an entry of a result file with its unknown fields |
//! | [`ground_truth`] | [`GroundTruth`]: the part of a COCO annotation file that scoring reads |
//! | [`coco`] | [`evaluate_coco_in_memory`]: the twelve COCO box figures; [`coco_tables`]: the figures of each category |
//! | [`error_breakdown`](mod@error_breakdown) | kinds of detection errors and the cost of each |
//! | [`image_errors`] | correct and wrong detections, the score threshold for drawing, images with the most errors |
//! | [`absolute_error`] | [`AbsoluteError`]: MAE by coordinate |
//! | [`calibration`] | likelihood, CRPS, coverage, calibration curves, and conformal regions of predicted densities |
//! | [`tracking`] | success and precision of trackers by the conventions of the toolkits; annotations and result files |
//! | [`expected`] | [`Expected`]: the expected figures of an experiment, compared with the measured ones |
//! | [`json`] | serde helpers for figures |
//! | [`stats`] | [`Summary`]: mean, standard deviation and standard error over seeds |
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

pub mod absolute_error;
pub mod calibration;
pub mod coco;
pub mod detections;
pub mod edge_coverage;
mod error;
pub mod error_breakdown;
pub mod expected;
pub mod ground_truth;
pub mod image_errors;
pub mod json;
pub mod result_entries;
pub mod stats;
pub mod tracking;

pub use absolute_error::AbsoluteError;
pub use coco::{CategoryFigures, CocoFigures, CocoTables, coco_tables, evaluate_coco_in_memory};
pub use detections::{Detection, read_results, read_results_for, write_results, write_results_for_server};
pub use edge_coverage::{EdgeCoverage, edge_coverage};
pub use error::{BoxProblem, Error, Result};
pub use error_breakdown::{ErrorBreakdown, KindCost, error_breakdown};
pub use expected::{Comparison, Expected, ExpectedRow, Figure};
pub use ground_truth::{GroundTruth, GroundTruthBox};
pub use image_errors::{Diagnosis, ImageErrors, OperatingPoint, Outcome, diagnose, operating_point};
pub use result_entries::{ResultEntry, read_entries, write_entries};
pub use stats::{Spread, Summary};
pub use tracking::{Convention, TrackingGroundTruth, TrackingReport};
