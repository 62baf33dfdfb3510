//! What validation images teach about a trained refiner beside its step length: how wide the intervals of
//! edges have to be, and how much f says of what a detection is worth.

use std::collections::BTreeMap;
use std::fmt;

use ebm_base::Key;
use ebm_data::decode::read_image;
use ebm_eval::{Detection, GroundTruth, Outcome, diagnose};
use ebm_experiment::{CalibratedEdge, EdgeIntervals, best};
use ebm_train::Progress;
use serde::{Deserialize, Serialize};

use super::{BoxRefiner, RefinedBox, RefinedResults};
use crate::{Error, Result, corner_density::BoxDensity};

/// What a refiner's file says of its intervals and scores.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// p(y | x) is taken to the power of one over this, normalised anew ([`Tempered`](ebm_core::Tempered)).
    pub temperature: f64,
    /// Half the width of the [intervals](BoxDensity::edge_intervals) of the left, top, right and bottom edge,
    /// in units of what p(y | x) says of it and [`CalibratedEdge::LEAST`], to hold the edge that often on the
    /// validation images: [`EdgeIntervals`].
    pub factors: [f64; 4],
    /// How f enters a detection's score.
    pub rescoring: Rescoring,
}

/// A detection's score times σ((f − center) / scale)^power.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rescoring {
    /// The median of f over right detections of the validation images …
    pub center: f64,
    /// … and its interquartile range there.
    pub scale: f64,
    /// 0 keeps the detector's scores.
    pub power: f64,
}

/// How a calibration is made.
#[derive(Clone, Copy, Debug)]
pub struct CalibrationOptions {
    /// Samples for each density.
    pub samples: usize,
    /// Of the samples.
    pub key: Key,
}

impl Rescoring {
    /// Powers among which AP on the validation images chooses.
    pub const POWERS: [f64; 7] = [0.0, 0.03, 0.1, 0.2, 0.3, 0.5, 1.0];

    /// The score of a detection whose refined box has this f; it keeps its range.
    #[must_use]
    pub fn score(&self, score: f64, f: f64) -> f64 {
        score * (1.0 + ((self.center - f) / self.scale).exp()).recip().powf(self.power)
    }
}

impl Calibration {
    /// A detection is right that has the best score of those that overlap an object by half; so many are
    /// needed for a conformal interval of probability 0.9.
    pub const FEWEST: usize = 9;

    /// Among these the one is chosen whose intervals are the narrowest when they hold nine of ten edges.
    pub const TEMPERATURES: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];

    /// The calibration of `refiner` for the detector whose boxes on annotated images are `results`, with the
    /// step lengths that it has, from what is right after refinement. None where that are fewer than
    /// [`FEWEST`](Self::FEWEST) detections, or the refiner has no density.
    pub(super) fn of(
        refiner: &BoxRefiner,
        results: &RefinedResults<'_>,
        options: &CalibrationOptions,
        progress: &mut dyn Progress,
    ) -> Result<Option<Self>> {
        if refiner.check_density().is_err() {
            return Ok(None);
        }
        let refined = results.refined(refiner, std::slice::from_ref(&refiner.energy.ascent), progress)?;
        let refined = refined.into_iter().next().unwrap_or_default();
        let right = right(&results.images.truth, &results.with(&refined, None))?;
        if right.len() < Self::FEWEST {
            return Ok(None);
        }
        let f = right.keys().filter_map(|index| refined.get(index)).map(|refined| f64::from(refined.f));
        let rescoring = Self::rescoring(results, &refined, f.collect())?;
        let (temperature, factors) = Self::intervals(refiner, results, &right, options, progress)?;
        Ok(Some(Self { temperature, factors, rescoring }))
    }

    /// The power with the best AP.
    fn rescoring(
        results: &RefinedResults<'_>,
        refined: &BTreeMap<usize, RefinedBox>,
        mut f: Vec<f64>,
    ) -> Result<Rescoring> {
        f.sort_by(f64::total_cmp);
        let quantile = |of: usize| f.get((f.len() * of / 4).min(f.len().saturating_sub(1))).copied();
        let [low, center, high] = [1, 2, 3].map(|of| quantile(of).unwrap_or_default());
        let with = |power| Rescoring { center, scale: (high - low).max(1e-6), power };
        let ap = |power: &f64| {
            let found = results.with(refined, Some(&with(*power)));
            Ok(results.images.score(&found)?.ap)
        };
        let scores = Rescoring::POWERS.iter().map(ap).collect::<Result<Vec<_>>>()?;
        let (power, _) = best(&Rescoring::POWERS, scores).unwrap_or((0.0, f64::NAN));
        Ok(with(power))
    }

    /// The temperature whose calibrated intervals are the narrowest, with their factors.
    fn intervals(
        refiner: &BoxRefiner,
        results: &RefinedResults<'_>,
        right: &BTreeMap<usize, [f64; 4]>,
        options: &CalibrationOptions,
        progress: &mut dyn Progress,
    ) -> Result<(f64, [f64; 4])> {
        let mut found: [EdgeIntervals; Self::TEMPERATURES.len()] = Default::default();
        let of_image = results.of_images(refiner, |index| right.contains_key(&index));
        progress.begin("densities", of_image.len());
        let images =
            results.images.dataset.images.iter().filter_map(|image| Some((image, of_image.get(&image.id)?)));
        for (done, (image, (indices, boxes))) in (1..).zip(images) {
            let seen = refiner.look(&read_image(&image.path)?)?;
            let (refined, corners) = refiner.energy.refined(&seen, boxes, &refiner.energy.ascent)?;
            for (found, temperature) in found.iter_mut().zip(Self::TEMPERATURES) {
                let mut rng = options.key.index(image.id).rng();
                let each = indices.iter().zip(boxes).zip(&refined).zip(&corners);
                for (((index, given), refined), &corners) in each {
                    let samples = options.samples;
                    let density =
                        refiner.energy.density_at(&seen, *given, corners, samples, temperature, &mut rng)?;
                    match density.edge_regions(BoxDensity::LEVEL) {
                        // A density without spread has none.
                        Err(Error::Core(ebm_core::Error::NoSpread { .. })) => {}
                        regions => found.push(&regions?, refined.bbox, right[index]),
                    }
                }
            }
            progress.advance(done, "");
        }
        progress.end();
        let calibrated = found.iter().map(|found| found.calibrated(BoxDensity::LEVEL));
        let calibrated = calibrated.collect::<Result<Vec<_>>>()?;
        let tempered = Self::TEMPERATURES.into_iter().zip(calibrated);
        let narrowest = tempered.min_by(|(_, (_, a)), (_, (_, b))| a.total_cmp(b));
        Ok(narrowest.map_or((1.0, [1.0; 4]), |(temperature, (factors, _))| (temperature, factors)))
    }

    /// What is known of the edges of a refined box `[x, y, width, height]`.
    pub fn edges_of(&self, bbox: [f64; 4]) -> [CalibratedEdge; 4] {
        CalibratedEdge::of_box(bbox, self.factors)
    }
}

impl fmt::Display for Calibration {
    /// What was found, in a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { temperature, factors: [left, top, right, bottom], rescoring } = self;
        write!(
            f,
            "temperature {temperature}; intervals are multiplied by {left:.3}, {top:.3}, {right:.3}, {bottom:.3} (left, top, right, bottom); \
             f enters scores with the power {}",
            rescoring.power
        )
    }
}

/// The object of each right detection, by the detection's place.
fn right(truth: &GroundTruth, found: &[Detection]) -> Result<BTreeMap<usize, [f64; 4]>> {
    let outcomes = diagnose(truth, found)?.detections.into_iter().enumerate();
    let object = |(index, outcome)| match outcome {
        Outcome::Correct(object) => Some((index, truth.boxes[object].bbox)),
        Outcome::Wrong | Outcome::Ignored => None,
    };
    Ok(outcomes.filter_map(object).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALIBRATION: Calibration = Calibration {
        temperature: 2.0,
        factors: [0.5, 2.0, 1.0, 4.0],
        rescoring: Rescoring { center: 4.0, scale: 2.0, power: 2.0 },
    };

    #[test]
    fn scores_keep_their_range_and_rise_with_f() {
        let rescoring = CALIBRATION.rescoring;
        assert_eq!(rescoring.score(0.8, 4.0), 0.8 / 4.0);
        assert!((rescoring.score(0.8, 1e6) - 0.8).abs() < 1e-12 && rescoring.score(0.8, -1e6) == 0.0);
        assert_eq!(Rescoring { power: 0.0, ..rescoring }.score(0.3, -50.0), 0.3);
    }

    #[test]
    fn a_file_keeps_it() {
        let text = toml::to_string(&CALIBRATION).unwrap();
        assert_eq!(toml::from_str::<Calibration>(&text).unwrap(), CALIBRATION);
    }
}
