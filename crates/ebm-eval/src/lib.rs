//! Metrics and seed statistics: detection files and their checks, COCO average precision, success and precision of
//! trackers, calibration of predicted densities, mean and spread over seeds, and tables as text.
//!
//! **Invariants**: knows no network and no tensor library; never prints; scores nothing that it has
//! not checked.
//!
//! | Module | What lives there |
//! |---|---|
//! | [`detections`] | [`Detection`], the COCO result file, the checks before scoring |
//! | [`ground_truth`] | [`GroundTruth`]: what scoring needs of a COCO annotation file |
//! | [`coco`] | [`evaluate_coco`]: the twelve COCO box figures |
//! | [`stratified`] | [`Matching`]: average precision and overlap of a part of the objects |
//! | [`absolute_error`] | [`AbsoluteError`]: MAE by coordinate |
//! | [`calibration`] | likelihood, CRPS, coverage, calibration curves, and conformal regions of predicted densities |
//! | [`tracking`] | success and precision of trackers by the conventions of the toolkits; annotations and result files |
//! | [`stats`] | [`Summary`]: mean, standard deviation and standard error over seeds |
//! | [`table`] | [`Table`]: aligned markdown |

pub mod absolute_error;
pub mod calibration;
pub mod coco;
pub mod detections;
mod error;
pub mod ground_truth;
pub mod stats;
pub mod stratified;
pub mod table;
pub mod tracking;

pub use absolute_error::AbsoluteError;
pub use coco::{CocoFigures, evaluate_coco, evaluate_coco_in_memory};
pub use detections::{Detection, read_results, write_results};
pub use error::{BoxProblem, Error, Result};
pub use ground_truth::{GroundTruth, GroundTruthBox};
pub use stats::{Spread, Summary};
pub use stratified::Matching;
pub use table::Table;
pub use tracking::{Convention, TrackingGroundTruth, TrackingReport};
