//! Object detection: Faster-RCNN with FPN and an energy-based box head (Section 4.1).
//!
//! [`Detector`] runs a trained detector from another program. [`BoxRefiner`] refines the boxes of any other detector.
//!
//! | step of the paper | item |
//! |---|---|
//! | features g_x, once per image | [`FasterRcnn::features`] |
//! | f(x, y), class by class | [`EnergyHead`] |
//! | training of the new layers with Eq. 4 | [`training::BranchTask`] |
//! | training of a detector on your images | [`training::DetectorTraining`] |
//! | the densities that f is compared with | [`ParametricHead`] |
//! | guided suppression, Algorithm S1 | [`refine_candidates`] |
//! | the rows of Table 2 | [`config::MethodConfig`] |
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod anchors;
mod body;
mod box_coder;
mod box_energy;
mod box_head;
mod branch;
pub mod config;
mod corner_density;
mod detector;
mod energy_head;
pub mod evaluation;
mod faster_rcnn;
mod fastest_det;
mod feature_cache;
mod inference;
pub mod input;
mod layers;
mod matcher;
mod packed_head;
mod parametric_head;
mod pooler;
mod refiner;
pub mod reproduce;
mod rpn;
pub mod training;
pub mod weights;

pub use anchors::{AnchorGenerator, Grid};
pub use box_coder::BoxCoder;
pub use box_energy::{BoxEnergy, ImageFeatures, PathPoint};
pub use box_head::{BoxHead, Candidate, Pair, ScoredProposals};
pub use branch::Branch;
pub use corner_density::{BoxDensity, Corner};
pub use detector::{BUNDLED_REFINER, DensityOptions, Detection, Detector, DetectorOptions, Scene};
pub use ebm_experiment::{Error, Result};
pub use energy_head::{BoxFeatures, Coordinates, EnergyHead, HeadSizes};
pub use evaluation::{Annotated, STEP_FACTORS};
pub use faster_rcnn::{FasterRcnn, ImageBatch, Objects};
pub use fastest_det::FastestDet;
pub use feature_cache::CachedBatch;
pub use inference::{BoxAscent, Head, RefinedCandidates, Survivor, iou_guided_nms, refine_candidates};
pub use matcher::{BalancedSampler, Match, Matcher};
pub use parametric_head::{Foreground, ForegroundPool, ParametricHead};
pub use pooler::{Pooled, Pooler, Pooling};
pub use refiner::{
    BoxRefiner, Calibration, CalibrationOptions, LabelledBox, RefinedBox, RefinedResults, RefinerFit,
    RefinerNetwork, RefinerOptions, Rescoring, jittered,
};
pub use rpn::{Proposal, Rpn, RpnOutput};

/// Page of the book on detection, whose examples are tested.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/detection_commands.md")]
struct Book;
