//! Tables 4 and 5: every baseline before and after refinement by f(x, y).
//!
//! | scale | data | networks |
//! |---|---|---|
//! | mini | generated faces | a small backbone is trained, then heads on its fixed features |
//! | finetuned | UTKFace | the last blocks of a pretrained MobileFaceNet are trained with each head |
//! | pointing | Pointing'04 | heads on the fixed features of a pretrained MobileFaceNet, in five folds over people |
//! | paper | UTKFace or BIWI | a ResNet-50 is trained with each head, end to end |

mod ablation;
mod again;
mod data;
mod densities;
mod networks;
mod results;
mod table;

pub use again::{choose_refinement, evaluate, runs};
pub use data::{Data, Task, report_repeated};
pub use networks::{mini, on_features, paper};
pub use results::{AblationRow, DensityRow, Example, Outcome, PairedRow, Row};

use std::path::PathBuf;

/// What to run and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seeds 0 … `seeds` − 1 of each head.
    pub seeds: u64,
    /// Whether the energy models of the settings' `ablation` and `objectives` are trained as well.
    pub ablation: bool,
    /// Checkpoints, metrics, parameters.
    pub run: PathBuf,
    /// Whether what an earlier process began in `run` goes on.
    pub resume: bool,
}
