//! Table 2: the ten ways to place a box.

use std::collections::BTreeMap;

use ebm_train::Progress;
use serde::{Deserialize, Serialize};

use super::{
    Precision, Split,
    workplace::{Trained, Workplace, contenders},
};
use crate::{branch::Predictor, error::Result, method::Method};

/// A line of results: one method, one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The method.
    pub method: Method,
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

/// Trains each of `methods` with seeds 0 … `seeds` − 1 and compares them on the test images.
///
/// # Errors
/// When a training fails, or data can not be read.
pub fn table2(
    place: &Workplace,
    methods: &[Method],
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
        methods: &[Method],
        seeds: u64,
        progress: &mut dyn Progress,
    ) -> Result<(Vec<Trained>, BTreeMap<Method, f64>)> {
        let (mut all, mut factors) = (Vec::new(), BTreeMap::new());
        for &method in methods.iter().filter(|&&method| self.config.training(method).is_some()) {
            for seed in 0..seeds {
                let name = format!("{}-{seed}", method.key());
                let mut trained = self.train(&self.config, (method, seed), &name, progress)?;
                if let Some(ascent) = trained.ascent.take() {
                    trained.ascent = Some(ascent.clone());
                    let factor = match factors.get(&method) {
                        Some(&factor) => factor,
                        None => self.step_factor(&trained, progress)?,
                    };
                    factors.insert(method, factor);
                    trained.ascent = Some(ascent.scaled(factor));
                }
                all.push(trained);
            }
        }
        Ok((all, factors))
    }

    /// Faster-RCNN, if it is among the methods, and every branch on a split; their detections are written to the run.
    pub(super) fn compare(
        &self,
        split: &Split,
        trained: &[Trained],
        factors: &BTreeMap<Method, f64>,
        (methods, seeds): (&[Method], u64),
        progress: &mut dyn Progress,
    ) -> Result<Vec<Row>> {
        let evaluation = self.evaluate(split, &contenders(trained), progress)?;
        let mut rows = Vec::new();
        self.keep(split, "direct", &evaluation.direct.detections)?;
        if methods.contains(&Method::Direct) {
            let precision = split.score(&evaluation.direct.detections)?;
            rows.extend((0..seeds).map(|seed| Row {
                method: Method::Direct,
                seed,
                precision,
                ap_before: None,
                frames_per_second: evaluation.frames_per_second(evaluation.direct.duration),
                boxes_per_second: None,
                step_factor: None,
            }));
        }
        let (mut densities, mut confidences) = (evaluation.parametric.iter(), evaluation.refined.iter());
        for one in trained {
            let name = format!("{}-{}", one.method.key(), one.seed);
            let row = match one.predictor {
                Predictor::Density(_) => densities.next().map(|found| {
                    self.keep(split, &name, &found.detections)?;
                    let rate = evaluation.frames_per_second(found.duration);
                    Ok((split.score(&found.detections)?, None, rate, None))
                }),
                Predictor::Confidence(_) => confidences.next().map(|found| {
                    self.keep(split, &format!("{name}-before"), &found.before)?;
                    self.keep(split, &name, &found.after)?;
                    let rate = evaluation.frames_per_second(found.duration);
                    let before = split.score(&found.before)?.ap;
                    Ok((split.score(&found.after)?, Some(before), rate, Some(found.boxes_per_second())))
                }),
            };
            let Some(row) = row else { continue };
            let row: Result<_> = row;
            let (precision, ap_before, frames_per_second, boxes_per_second) = row?;
            let (method, seed) = (one.method, one.seed);
            let step_factor = factors.get(&method).copied();
            rows.push(Row {
                method,
                seed,
                precision,
                ap_before,
                frames_per_second,
                boxes_per_second,
                step_factor,
            });
        }
        Ok(rows)
    }
}
