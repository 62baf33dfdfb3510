//! Evaluation of trackers: success and precision as the published toolkits compute them.
//!
//! A tracker gets the first box of a video and returns a box for each later frame ("one-pass evaluation"). The
//! *success curve* is the share of frames whose overlap (IoU) with the annotation is above a threshold. AUC is its
//! mean, and OP_H its value at H. The *precision curve* is the share of frames whose centre is within a distance of
//! the annotated one. The toolkits differ in details that change these figures by up to a few points; the fields of
//! [`Convention`] name them.
//!
//! | Question | Item |
//! |---|---|
//! | By which rules does a toolkit score? | [`Convention`] |
//! | How good are boxes in memory? | [`evaluate`], [`score_sequence`] |
//! | How good are the result files in a folder? | [`Annotations`], [`evaluate_runs`] |
//! | What are the mean figures of several runs? | [`merge`] |
//! | How are result files written? | [`ResultFormat`], [`write_result`], [`write_times`] |
//! | Which sequences has a benchmark, and what does its server expect? | [`TestSet`] |

mod annotations;
mod convention;
mod curves;
mod diagnosis;
mod directory;
mod figures;
mod matching;
mod merge;
mod prediction;
mod report;
mod results;
mod sequence;

pub use crate::error::TrackingProblem;
pub use annotations::Annotations;
pub use convention::{Convention, HIT, MISS};
pub use diagnosis::Diagnosis;
pub use directory::evaluate_runs;
pub use ebm_data::rect::overlap;
pub use figures::TrackingFigures;
pub use merge::{RunsReport, merge};
pub use report::{FailedSequence, TrackingReport, evaluate};
pub use results::{ResultFormat, RunResult, TestSet, read_times, write_result, write_times};
pub use sequence::{SequenceScores, TrackingGroundTruth, score_sequence};
