//! Table 5's form on Pointing'04: every person's photographs are the results of networks that have not seen
//! that person.

use std::path::Path;
use std::sync::Arc;

use ebm_data::faces::Tolerance;
use ebm_data::faces::pointing04::{SCALE, load};
use ebm_data::faces::split::folder_of;
use ebm_train::Progress;

use super::data::{Data, TEST, TRAIN, VALIDATION, report_defects, whole};
use crate::Result;

/// How many parts the people are divided into.
const FOLDS: usize = 5;
/// People of each fold on whose photographs λ is chosen.
const VALIDATION_PEOPLE: usize = 2;

impl Data {
    /// The five folds of Pointing'04 in the folder `root`: of the fifteen people three are for the results of
    /// a fold, two others for validation, and ten for training.
    ///
    /// # Errors
    /// When the folder is missing, has too many defects, or fewer people than folds.
    pub fn folds(root: &Path, progress: &mut dyn Progress) -> Result<Vec<Self>> {
        let all = Arc::new(load(root, SCALE, &Tolerance::default())?);
        report_defects(&all, progress);
        let mut folds = Vec::new();
        for split in whole(&all)?.folds(TRAIN, TEST, FOLDS, folder_of)? {
            let split = split.draw_groups(TRAIN, VALIDATION, VALIDATION_PEOPLE, folder_of)?;
            let mut drawn = split.apply(&all)?;
            let mut part = |name: &str| Arc::new(drawn.remove(name).unwrap_or_default());
            let (train, validation, test) = (part(TRAIN), part(VALIDATION), Some(part(TEST)));
            let whole = Some(Arc::clone(&all));
            folds.push(Self { train, validation, test, whole, split: Some(split) });
        }
        Ok(folds)
    }
}
