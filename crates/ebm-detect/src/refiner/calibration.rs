//! Calibration of a trained refiner on validation images: the width of edge intervals, and the weight of f in scores.

use std::collections::BTreeMap;
use std::fmt;

use ebm_base::Key;
use ebm_data::decode::read_image;
use ebm_eval::{Detection, GroundTruth, Outcome, diagnose};
use ebm_experiment::{CalibratedEdge, EdgeIntervals, best};
use ebm_train::Progress;
use serde::{Deserialize, Serialize};

use super::likelihood::Likelihood;
use super::{BoxRefiner, RefinedBox, RefinedResults};
use crate::{Error, Result, corner_density::BoxDensity};

/// Calibration of a refiner's intervals and scores, which its file holds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Temperature T: the density is p(y | x)^(1/T), normalised ([`Tempered`](ebm_core::Tempered)).
    pub temperature: f64,
    /// Factors of the [intervals](BoxDensity::edge_intervals) of the left, top, right and bottom edge. They scale the
    /// half width under p(y | x), plus [`CalibratedEdge::LEAST`], so that intervals hold the edges on validation
    /// images as often as stated: [`EdgeIntervals`].
    pub factors: [f64; 4],
    /// Dependence of a detection's score on f.
    pub rescoring: Rescoring,
}

/// Rescoring of detections: the score is multiplied by σ((f − center) / scale)^power.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rescoring {
    /// Median of f over the correct detections in the validation images.
    pub center: f64,
    /// Interquartile range of f over these detections.
    pub scale: f64,
    /// Exponent; 0 keeps the detector's scores.
    pub power: f64,
}

/// Options of a calibration.
#[derive(Clone, Copy, Debug)]
pub struct CalibrationOptions {
    /// Samples per density.
    pub samples: usize,
    /// Key of the samples.
    pub key: Key,
}

impl Rescoring {
    /// Powers to choose from by AP on the validation images.
    pub const POWERS: [f64; 7] = [0.0, 0.03, 0.1, 0.2, 0.3, 0.5, 1.0];

    /// Returns the score, from 0 to `score`, of a detection whose refined box has this `f`.
    #[must_use]
    pub fn score(&self, score: f64, f: f64) -> f64 {
        score * (1.0 + ((self.center - f) / self.scale).exp()).recip().powf(self.power)
    }
}

impl Calibration {
    /// Least number of correct detections, which a conformal interval of probability 0.9 needs. A detection is correct
    /// if it has the highest score of those with an IoU of at least 0.5 with an object.
    pub const FEWEST: usize = 9;

    /// Temperatures to choose from. The best one gives the narrowest intervals that hold nine of ten edges.
    pub const TEMPERATURES: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];

    /// Calibrates `refiner` for the detector whose boxes on annotated images are `results`, on the detections that are
    /// correct after refinement. Returns it with the likelihood of the annotated boxes. Returns `None` if these are fewer
    /// than [`FEWEST`](Self::FEWEST), or if the refiner has no density.
    pub(super) fn of(
        refiner: &BoxRefiner,
        results: &RefinedResults<'_>,
        options: &CalibrationOptions,
        progress: &mut dyn Progress,
    ) -> Result<Option<(Self, Likelihood)>> {
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
        let (temperature, factors, likelihood) =
            Self::intervals(refiner, results, &right, options, progress)?;
        Ok(Some((Self { temperature, factors, rescoring }, likelihood)))
    }

    /// Chooses the power with the best AP.
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

    /// Chooses the temperature with the narrowest calibrated intervals, and returns it with their factors and the
    /// likelihood.
    fn intervals(
        refiner: &BoxRefiner,
        results: &RefinedResults<'_>,
        right: &BTreeMap<usize, [f64; 4]>,
        options: &CalibrationOptions,
        progress: &mut dyn Progress,
    ) -> Result<(f64, [f64; 4], Likelihood)> {
        let mut found: [(EdgeIntervals, Likelihood); Self::TEMPERATURES.len()] = Default::default();
        let of_image = results.of_images(refiner, |index| right.contains_key(&index));
        progress.begin("densities", of_image.len());
        let images =
            results.images.dataset.images.iter().filter_map(|image| Some((image, of_image.get(&image.id)?)));
        for (done, (image, (indices, boxes))) in (1..).zip(images) {
            let features = refiner.features(&read_image(&image.path)?)?;
            let (refined, corners) = refiner.energy.refined(&features, boxes, &refiner.energy.ascent)?;
            for ((found, likelihood), temperature) in found.iter_mut().zip(Self::TEMPERATURES) {
                let mut rng = options.key.index(image.id).rng();
                let each = indices.iter().zip(boxes).zip(&refined).zip(&corners);
                for (((index, given), refined), &corners) in each {
                    let samples = options.samples;
                    let density = refiner.energy.density_at(
                        &features,
                        *given,
                        corners,
                        samples,
                        temperature,
                        &mut rng,
                    )?;
                    let (error, log_prob) = refiner.energy.log_prob_at(
                        &features,
                        *given,
                        corners,
                        temperature,
                        &density,
                        right[index],
                    )?;
                    likelihood.push(log_prob, error, density.is_reliable());
                    match density.edge_regions(BoxDensity::LEVEL) {
                        // A density without spread has no intervals.
                        Err(Error::Core(ebm_core::Error::NoSpread { .. })) => {}
                        regions => found.push(&regions?, refined.bbox, right[index]),
                    }
                }
            }
            progress.advance(done, "");
        }
        progress.end();
        let calibrated = found.iter().map(|(found, _)| found.calibrated(BoxDensity::LEVEL));
        let calibrated = calibrated.collect::<Result<Vec<_>>>()?;
        let tempered = Self::TEMPERATURES.into_iter().zip(calibrated).zip(found);
        let narrowest = tempered.min_by(|((_, (_, a)), _), ((_, (_, b)), _)| a.total_cmp(b));
        let unchanged = || (1.0, [1.0; 4], Likelihood::default());
        Ok(narrowest.map_or_else(unchanged, |((temperature, (factors, _)), (_, likelihood))| {
            (temperature, factors, likelihood)
        }))
    }

    /// Returns `true` if every number is one that a calibration can choose.
    pub(super) fn is_possible(&self) -> bool {
        let Rescoring { center, scale, power } = self.rescoring;
        let range = 1e-6..=1e6;
        let are_factors = self.factors.iter().all(|factor| factor.is_finite() && *factor >= 0.0);
        let are_powers =
            center.is_finite() && scale.is_finite() && scale > 0.0 && (0.0..=1e6).contains(&power);
        range.contains(&self.temperature) && are_factors && are_powers
    }

    /// Returns the calibration of each edge of a refined box `[x, y, width, height]`.
    pub fn edges_of(&self, bbox: [f64; 4]) -> [CalibratedEdge; 4] {
        CalibratedEdge::of_box(bbox, self.factors)
    }
}

impl fmt::Display for Calibration {
    /// Writes the calibration in one line.
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

/// Returns the object of each correct detection, by the detection's index.
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
        assert!(
            CALIBRATION.is_possible() && !Calibration { temperature: 1e-300, ..CALIBRATION }.is_possible()
        );
    }
}
