//! Metrics and seed statistics: detection files and their checks, COCO average precision, success and
//! precision of trackers, calibration of predicted densities, and mean and spread over seeds.
//!
//! **Invariants**: knows no network and no tensor library; never prints; scores nothing that it has
//! not checked.
//!
//! | Module | What lives there |
//! |---|---|
//! | [`detections`] | [`Detection`], the COCO result file, the checks before scoring |
//! | [`result_entries`] | [`ResultEntry`]: a result file that keeps what it does not know |
//! | [`ground_truth`] | [`GroundTruth`]: what scoring needs of a COCO annotation file |
//! | [`coco`] | [`evaluate_coco`]: the twelve COCO box figures; [`coco_tables`]: the same by category |
//! | [`error_breakdown`](mod@error_breakdown) | kinds of detection errors and what each costs |
//! | [`image_errors`] | which detections are right, the score to draw boxes from, and the images with the most errors |
//! | [`absolute_error`] | [`AbsoluteError`]: MAE by coordinate |
//! | [`calibration`] | likelihood, CRPS, coverage, calibration curves, and conformal regions of predicted densities |
//! | [`tracking`] | success and precision of trackers by the conventions of the toolkits; annotations and result files |
//! | [`expected`] | [`Expected`]: what an experiment should come to, compared with what it came to |
//! | [`json`] | how figures stand in JSON |
//! | [`stats`] | [`Summary`]: mean, standard deviation and standard error over seeds |

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
pub use coco::{
    CategoryFigures, CocoFigures, CocoTables, coco_tables, evaluate_coco, evaluate_coco_in_memory,
};
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

/// Its examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
