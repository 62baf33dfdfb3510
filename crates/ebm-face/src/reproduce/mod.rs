//! Tables 4 and 5: every baseline before and after refinement by f(x, y).
//!
//! | scale | data | networks |
//! |---|---|---|
//! | mini | generated faces | a small backbone is trained, then heads on its fixed features |
//! | frozen | UTKFace or BIWI | heads on the fixed features of a pretrained ResNet-50 |
//! | finetuned | UTKFace or BIWI | the last blocks of a pretrained MobileFaceNet are trained with each head |
//! | pointing | Pointing'04 | heads on the fixed features of a pretrained MobileFaceNet, in five folds over people |
//! | paper | UTKFace or BIWI | a ResNet-50 is trained with each head, end to end |

mod ablation;
mod again;
mod data;
mod densities;
mod effect;
mod end_to_end;
mod examples;
mod folds;
mod heads;
mod on_features;
mod results;

pub use ablation::Ablation;
pub use again::{choose_refinement, evaluate, runs};
pub use data::{Data, Task, report_repeated};
pub use end_to_end::paper;
pub use folds::cross_validated;
pub use on_features::{frozen, mini};
pub use results::{AblationRow, BandRow, DensityRow, Example, Outcome, PairedRow, Row, StepLengthRow};

use std::path::PathBuf;

/// What to run and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seeds 0 … `seeds` − 1 of each head.
    pub seeds: u64,
    /// Studies of the energy model to make as well.
    pub ablations: Vec<Ablation>,
    /// Features are kept here.
    pub cache: PathBuf,
    /// Checkpoints, metrics, parameters.
    pub run: PathBuf,
    /// Whether what an earlier process began in `run` goes on.
    pub resume: bool,
}
