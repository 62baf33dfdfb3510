//! How the gain depends on how hard the scenes are; the paper has no such study.

use ebm_train::Progress;
use serde::{Deserialize, Serialize};

use super::{Row, Setup, Split};
use crate::{config::ExperimentConfig, error::Result};

/// A method, a seed and a level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LevelRow {
    /// The level's name.
    pub level: String,
    /// The result there.
    #[serde(flatten)]
    pub row: Row,
}

/// Direct and the energy model on the splits `levels`, all with the same detector, branches and step lengths.
/// The detections are written to the run, named by level.
///
/// # Errors
/// When a training fails, or data can not be read.
pub fn levels(
    setup: &Setup,
    levels: &[Split],
    seeds: u64,
    progress: &mut dyn Progress,
) -> Result<Vec<LevelRow>> {
    let row = |key| setup.config.method(key).cloned();
    let methods = [row(ExperimentConfig::DIRECT)?, row(ExperimentConfig::ENERGY)?];
    let trained = setup.trained(&methods, seeds, progress)?;
    let mut rows = Vec::new();
    for split in levels {
        let found = setup.compare(split, &trained, &methods, seeds, progress)?;
        rows.extend(found.into_iter().map(|row| LevelRow { level: split.name.clone(), row }));
    }
    Ok(rows)
}
