//! Table 5's form on Pointing'04: every person's photographs are the results of networks that have not seen
//! that person.

use std::path::Path;
use std::sync::Arc;

use ebm_data::faces::Tolerance;
use ebm_data::faces::pointing04::{SCALE, load};
use ebm_data::faces::split::folder_of;
use ebm_train::Progress;

use super::data::{Data, TEST, TRAIN, VALIDATION, report_defects, whole};
use super::on_features::frozen;
use super::{Options, Outcome};
use crate::Result;
use crate::config::ExperimentConfig;
use crate::features::Depth;

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

/// Heads on the features of the backbone in the file `weights`, trained, chosen and measured in each fold
/// apart, with the runs of each in a folder of its own.
///
/// # Errors
/// As [`frozen`]; [`Error::Data`](crate::Error::Data) where a fold's folder can not be made.
pub fn cross_validated(
    config: &ExperimentConfig,
    folds: &[Data],
    weights: &Path,
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<Outcome> {
    let mut all = Outcome::default();
    for (fold, data) in folds.iter().enumerate() {
        progress.message(&format!("fold {} of {}", fold + 1, folds.len()));
        let run = options.run.join(format!("fold-{fold}"));
        ebm_data::files::create_dir(&run)?;
        data.record(&run)?;
        let options = Options { run, ..options.clone() };
        let mut found = frozen(config, data, weights, Depth::Features, &options, progress)?;
        found.rows.iter_mut().for_each(|row| row.fold = Some(fold));
        found.calibration.iter_mut().for_each(|row| row.fold = Some(fold));
        found.paired.iter_mut().for_each(|row| row.fold = Some(fold));
        found.by_step_length.iter_mut().for_each(|row| row.fold = Some(fold));
        if fold == 0 {
            (all.examples, all.part) = (found.examples, found.part);
        }
        all.rows.extend(found.rows);
        all.calibration.extend(found.calibration);
        all.paired.extend(found.paired);
        all.by_step_length.extend(found.by_step_length);
        all.step_lengths.extend(found.step_lengths);
        all.images += found.images;
    }
    Ok(all)
}
