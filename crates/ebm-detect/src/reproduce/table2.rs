//! Table 2: ten methods of placing a box; and the energy model with every objective.

use ebm_eval::Summary;
use ebm_train::Progress;
use serde::{Deserialize, Serialize};

use super::AveragePrecision;
use super::likelihood::log_probs;
use super::setup::{BranchSpec, Setup, Trained, placements};
use crate::Result;
use crate::config::{ExperimentConfig, MethodConfig};
use crate::evaluation::Found;

/// Result of one method with one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Key of the method.
    pub method: String,
    /// Seed of the branch and its training; Direct has the same detector for all seeds.
    pub seed: u64,
    /// Average precision of its detections.
    #[serde(flatten)]
    pub precision: AveragePrecision,
    /// AP before refinement; `None` for a method that does not refine boxes.
    pub ap_before: Option<f64>,
    /// Images per second, including backbone, proposals and boxes.
    pub frames_per_second: f64,
    /// Boxes refined per second, including confidences and suppression; `None` for a method that does not refine boxes.
    pub boxes_per_second: Option<f64>,
    /// Factor of the configured step lengths that was chosen on the validation images.
    pub step_factor: Option<f64>,
    /// Mean log p(y | x) of annotated boxes in test images, in nats; `None` for a method without a density.
    pub log_prob: Option<f64>,
    /// Mean difference of the energy model's log p(y | x) with the same seed to this one's, over the same boxes, and its
    /// standard error.
    pub log_prob_behind: Option<[f64; 2]>,
}

/// Trains each of `methods`, the rows of a table, with seeds 0 … `seeds` − 1, measures them on the test images, and
/// writes their detections to the run.
///
/// # Errors
/// When a training fails, or data cannot be read.
pub fn table2(
    setup: &Setup,
    methods: &[MethodConfig],
    seeds: u64,
    progress: &mut dyn Progress,
) -> Result<Vec<Row>> {
    let trained = setup.trained(&BranchSpec::all(methods, seeds), progress)?;
    let evaluation = setup.evaluate(&setup.images.test, &placements(&trained), progress)?;
    let row = |method: &str, seed: u64, step_factor: Option<f64>, found: &Found| -> Result<Row> {
        let before = found.before.as_ref().map(|before| setup.images.test.score(before)).transpose()?;
        Ok(Row {
            method: method.to_owned(),
            seed,
            precision: setup.images.test.score(&found.detections)?.into(),
            ap_before: before.map(|figures| figures.ap),
            frames_per_second: evaluation.frames_per_second(found),
            boxes_per_second: found.boxes_per_second(),
            step_factor,
            log_prob: None,
            log_prob_behind: None,
        })
    };
    let (mut rows, direct) = (Vec::new(), &evaluation.direct);
    setup.write_detections(ExperimentConfig::DIRECT, direct)?;
    if methods.iter().any(|method| !method.is_trained()) {
        let row = row(ExperimentConfig::DIRECT, 0, None, direct)?;
        rows.extend((0..seeds).map(|seed| Row { seed, ..row.clone() }));
    }
    let log_probs = log_probs(setup, &trained, progress)?;
    for ((one, found), log_prob) in trained.iter().zip(&evaluation.placed).zip(&log_probs) {
        let Trained { method, seed, step_factor, .. } = one;
        setup.write_detections(&format!("{}-{seed}", method.key), found)?;
        let is_energy =
            |other: &Trained| (other.method.key.as_str(), other.seed) == (ExperimentConfig::ENERGY, *seed);
        let energy = trained.iter().zip(&log_probs).find(|(other, _)| is_energy(other));
        let behind = energy.and_then(|(_, energy)| energy.as_ref().zip(log_prob.as_ref())).and_then(
            |(energy, own)| {
                let differences: Vec<f64> =
                    energy.iter().zip(own).map(|(energy, own)| energy - own).collect();
                let found = Summary::new(&differences).ok()?;
                Some([found.mean, found.standard_error()?])
            },
        );
        let mean = log_prob.as_ref().and_then(|own| Summary::new(own).ok()).map(|found| found.mean);
        rows.push(Row {
            log_prob: mean,
            log_prob_behind: behind,
            ..row(&method.key, *seed, *step_factor, found)?
        });
    }
    Ok(rows)
}

impl Setup {
    /// Trains or loads the branches `wanted`. The step lengths chosen for a method's first seed apply to all its seeds.
    pub(super) fn trained(&self, wanted: &[BranchSpec], progress: &mut dyn Progress) -> Result<Vec<Trained>> {
        self.check_heads(wanted)?;
        let count = wanted.len();
        let mut all: Vec<Trained> = Vec::new();
        for (done, wanted) in wanted.iter().enumerate() {
            progress.message(&format!("{} of {count}: {}", done + 1, wanted.name));
            let mut trained = self.train(wanted, progress)?;
            if trained.ascent.is_some() {
                let known = all.iter().find(|other| other.method.key == wanted.method.key);
                let factor = match known.and_then(|other| other.step_factor) {
                    Some(factor) => factor,
                    None => self.step_factor(&trained, progress)?,
                };
                self.scale_step_lengths(factor, &mut trained)?;
            }
            all.push(trained);
        }
        Ok(all)
    }
}
