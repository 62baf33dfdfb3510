//! Tables 4 and 5: every baseline before and after refinement by f(x, y).
//!
//! | scale | data | networks |
//! |---|---|---|
//! | mini | generated faces | a small backbone is trained, then heads on its fixed features |
//! | finetuned | UTKFace | the last blocks of a pretrained MobileFaceNet are trained with each head |
//! | pointing | Pointing'04 | heads are trained on fixed features of a pretrained MobileFaceNet, in five folds over people |
//! | paper | UTKFace or BIWI | a ResNet-50 is trained with each head, end to end |

mod ablation;
mod data;
mod densities;
mod networks;
mod results;
mod saved_runs;
mod table;

pub use data::{Data, Task, report_repeated};
pub use networks::{mini, on_features, paper};
pub use results::{AblationRow, DensityRow, Example, Outcome, PairedRow, Row};
pub use saved_runs::{choose_refinement, evaluate, runs};

use std::path::PathBuf;

/// Options of a reproduction.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of seeds: each head is trained with the seeds 0 to `seeds` − 1.
    pub seeds: u64,
    /// Whether the energy models of the settings' `ablation` and `objectives` are trained as well.
    pub ablation: bool,
    /// Folder of the run: checkpoints, metrics, parameters.
    pub run: PathBuf,
    /// Whether to continue an interrupted run in `run`.
    pub resume: bool,
}
