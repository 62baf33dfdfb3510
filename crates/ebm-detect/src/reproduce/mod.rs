//! Studies of detection in the paper: Table 2, Table 1, Figure 3a.
//! Each is a function of a [`Setup`] with generated scenes, a folder of real images, or COCO ([`StudyImages`]).

mod figure3a;
mod images;
mod likelihood;
mod setup;
mod step_lengths;
mod table1;
mod table2;

use ebm_eval::CocoFigures;
use serde::{Deserialize, Serialize};

pub use figure3a::{TradeRow, figure3a};
pub use images::{BaseOptions, StudyImages};
pub use setup::{Setup, StudyOptions, TrainedHeads};
pub use step_lengths::{StepLengthRow, step_lengths};
pub use table1::{AblationRow, table1};
pub use table2::{Row, table2};

/// Average precisions of a set of detections, as the tables show them; fractions, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AveragePrecision {
    /// Average precision over IoU thresholds 0.5 to 0.95.
    #[serde(with = "ebm_eval::json::or_null")]
    pub ap: f64,
    /// Average precision at IoU 0.5.
    #[serde(with = "ebm_eval::json::or_null")]
    pub ap50: f64,
    /// Average precision at IoU 0.75.
    #[serde(with = "ebm_eval::json::or_null")]
    pub ap75: f64,
    /// Average precision at IoU 0.9.
    #[serde(with = "ebm_eval::json::or_null")]
    pub ap90: f64,
}

impl From<CocoFigures> for AveragePrecision {
    fn from(figures: CocoFigures) -> Self {
        Self { ap: figures.ap, ap50: figures.ap50, ap75: figures.ap75, ap90: figures.ap90 }
    }
}
