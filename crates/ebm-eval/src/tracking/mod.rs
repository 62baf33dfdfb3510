//! How well a tracker follows its target: success and precision as the published toolkits compute them.
//!
//! A tracker is given the first box of a video and says one for each later frame ("one-pass evaluation"). The
//! *success curve* is the share of frames whose overlap (IoU) with the annotation is above a threshold, AUC its mean, OP_H
//! its value at H; the *precision curve* is the share of frames whose centre is within a distance of the annotated
//! one. The toolkits differ in details that move these figures by up to a few points: a [`Convention`] names each.
//!
//! | Question | Here |
//! |---|---|
//! | What does a toolkit do? | [`Convention`] |
//! | How good are boxes in memory? | [`evaluate`], [`score_sequence`] |
//! | How good are the result files in a folder? | [`Annotations`], [`evaluate_runs`] |
//! | How much do runs of one tracker differ? | [`merge`] |
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
