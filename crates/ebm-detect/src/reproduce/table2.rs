//! Table 2: the ten ways to place a box.

use std::collections::BTreeMap;

use ebm_train::Progress;
use serde::{Deserialize, Serialize};

use super::{
    Precision, Split,
    workplace::{Trained, Workplace, contenders},
};
use crate::{branch::Branch, error::Result, method::Method};

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
        let own: Vec<Method> =
            methods.iter().copied().filter(|&method| self.config.training(method).is_some()).collect();
        let wanted = |method: Method, seed| (method, seed, format!("{}-{seed}", method.key()));
        let every = own.iter().flat_map(|&method| (0..seeds).map(move |seed| wanted(method, seed)));
        self.check_heads(&every.map(|wanted| (wanted, self.config.clone())).collect::<Vec<_>>())?;
        for method in own {
            for seed in 0..seeds {
                let mut trained = self.train(&self.config, &wanted(method, seed), progress)?;
                if let Some(ascent) = trained.ascent.clone() {
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
        for &Trained { method, seed, ref branch, .. } in trained {
            let name = format!("{}-{seed}", method.key());
            let row = match branch {
                Branch::Density(_) => densities.next().map(|found| -> Result<Row> {
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
                Branch::Confidence(_) => confidences.next().map(|found| -> Result<Row> {
                    self.keep(split, &format!("{name}-before"), &found.before)?;
                    self.keep(split, &name, &found.after)?;
                    Ok(Row {
                        method,
                        seed,
                        precision: split.score(&found.after)?,
                        ap_before: Some(split.score(&found.before)?.ap),
                        frames_per_second: evaluation.frames_per_second(found.duration),
                        boxes_per_second: Some(found.boxes_per_second()),
                        step_factor: factors.get(&method).copied(),
                    })
                }),
            };
            rows.extend(row.transpose()?);
        }
        Ok(rows)
    }
}
