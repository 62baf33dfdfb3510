//! Table 2, the ten ways to place a box; and the energy model with every objective.

use std::collections::BTreeMap;

use ebm_train::Progress;
use serde::{Deserialize, Serialize};

use super::{
    Precision, Split,
    workplace::{Trained, Wanted, Workplace, contenders},
};
use crate::{
    branch::Predictor,
    config::{ExperimentConfig, MethodConfig},
    error::Result,
};

/// A line of results: one method, one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The method's key.
    pub method: String,
    /// Seed of the branch and its training; Direct's detector is the same for all.
    pub seed: u64,
    /// Of its detections.
    #[serde(flatten)]
    pub precision: Precision,
    /// AP before its boxes climbed, where they do.
    pub ap_before: Option<f64>,
    /// Images per second with everything: backbone, proposals, boxes.
    pub frames_per_second: f64,
    /// Boxes refined per second, confidences and suppression included; none where nothing is refined.
    pub boxes_per_second: Option<f64>,
    /// The factor of the configured step lengths that the validation images chose.
    pub step_factor: Option<f64>,
}

/// Trains each of `methods`, the rows of a table, with seeds 0 … `seeds` − 1 and compares them on the test images.
///
/// # Errors
/// When a training fails, or data can not be read.
pub fn table2(
    place: &Workplace,
    methods: &[MethodConfig],
    seeds: u64,
    progress: &mut dyn Progress,
) -> Result<Vec<Row>> {
    let (trained, factors) = place.trained(methods, seeds, progress)?;
    place.compare(&place.test, &trained, &factors, (methods, seeds), progress)
}

impl Workplace {
    /// Every method with every seed; the step lengths that seed 0 of a method chose serve its other seeds too.
    pub(super) fn trained(
        &self,
        methods: &[MethodConfig],
        seeds: u64,
        progress: &mut dyn Progress,
    ) -> Result<(Vec<Trained>, BTreeMap<String, f64>)> {
        let (mut all, mut factors) = (Vec::new(), BTreeMap::new());
        let own = methods.iter().filter(|method| method.is_trained());
        let wanted = own.flat_map(|method| (0..seeds).map(move |seed| Wanted::new(method, seed)));
        let wanted: Vec<Wanted> = wanted.collect();
        self.check_heads(&wanted)?;
        for wanted in &wanted {
            let mut trained = self.train(wanted, progress)?;
            if let Some(ascent) = trained.ascent.clone() {
                let key = &wanted.method.key;
                let factor = match factors.get(key) {
                    Some(&factor) => factor,
                    None => self.step_factor(&trained, progress)?,
                };
                factors.insert(key.clone(), factor);
                trained.ascent = Some(ascent.scaled(factor));
            }
            all.push(trained);
        }
        Ok((all, factors))
    }

    /// Faster-RCNN, if it is among the methods, and every branch on a split; their detections are written to the run.
    pub(super) fn compare(
        &self,
        split: &Split,
        trained: &[Trained],
        factors: &BTreeMap<String, f64>,
        (methods, seeds): (&[MethodConfig], u64),
        progress: &mut dyn Progress,
    ) -> Result<Vec<Row>> {
        let evaluation = self.evaluate(split, &contenders(trained), progress)?;
        let mut rows = Vec::new();
        self.keep(split, "direct", &evaluation.direct.detections)?;
        if methods.iter().any(|method| !method.is_trained()) {
            let precision = split.score(&evaluation.direct.detections)?;
            rows.extend((0..seeds).map(|seed| Row {
                method: ExperimentConfig::DIRECT.to_owned(),
                seed,
                precision,
                ap_before: None,
                frames_per_second: evaluation.frames_per_second(evaluation.direct.duration),
                boxes_per_second: None,
                step_factor: None,
            }));
        }
        let (mut densities, mut confidences) = (evaluation.parametric.iter(), evaluation.refined.iter());
        for Trained { method, seed, predictor, .. } in trained {
            let (method, seed) = (method.key.clone(), *seed);
            let name = format!("{method}-{seed}");
            let row = match predictor {
                Predictor::Density(_) => densities.next().map(|found| -> Result<Row> {
                    self.keep(split, &name, &found.detections)?;
                    Ok(Row {
                        method,
                        seed,
                        precision: split.score(&found.detections)?,
                        ap_before: None,
                        frames_per_second: evaluation.frames_per_second(found.duration),
                        boxes_per_second: None,
                        step_factor: None,
                    })
                }),
                Predictor::Confidence(_) => confidences.next().map(|found| -> Result<Row> {
                    self.keep(split, &format!("{name}-before"), &found.before)?;
                    self.keep(split, &name, &found.after)?;
                    Ok(Row {
                        seed,
                        precision: split.score(&found.after)?,
                        ap_before: Some(split.score(&found.before)?.ap),
                        frames_per_second: evaluation.frames_per_second(found.duration),
                        boxes_per_second: Some(found.boxes_per_second()),
                        step_factor: factors.get(&method).copied(),
                        method,
                    })
                }),
            };
            rows.extend(row.transpose()?);
        }
        Ok(rows)
    }
}
