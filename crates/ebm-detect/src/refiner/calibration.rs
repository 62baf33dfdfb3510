//! What validation images teach about a trained refiner beside its step length: by how much the intervals of
//! edges are too narrow, and how much f says of what a detection is worth.

use std::collections::BTreeMap;

use ebm_core::Region;
use ebm_data::decode::read_image;
use ebm_eval::{
    Detection, GroundTruth, Outcome,
    calibration::{SplitConformal, interval_score},
    diagnose, evaluate_coco_in_memory,
};
use ebm_experiment::best;
use ebm_seed::Key;
use ebm_train::Progress;
use serde::{Deserialize, Serialize};

use super::{BoxRefiner, Draw, RefinedBox, RefinedResults};
use crate::{
    corner_density::BoxDensity,
    error::{Error, Result},
};

/// What a refiner's file says of its intervals and scores.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// p(y | x) is taken to the power of one over this, normalised anew ([`Tempered`](ebm_core::Tempered)).
    pub temperature: f64,
    /// What the [intervals](BoxDensity::edge_intervals) of the left, top, right and bottom edge are widened by at both ends, in widths or heights of the refined box, to hold the edge that often on the
    /// validation images ([`SplitConformal`]). Negative where they were too wide.
    pub margins: [f64; 4],
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
    ///
    /// # Errors
    /// When an image cannot be read, or the network fails.
    pub fn of(
        refiner: &BoxRefiner,
        results: &RefinedResults<'_>,
        options: &CalibrationOptions,
        progress: &mut dyn Progress,
    ) -> Result<Option<Self>> {
        if refiner.check_density().is_err() {
            return Ok(None);
        }
        let refined = results.refined(refiner, std::slice::from_ref(&refiner.ascent), progress)?;
        let refined = refined.into_iter().next().unwrap_or_default();
        let right = right(results.truth, &results.with(&refined, None))?;
        if right.len() < Self::FEWEST {
            return Ok(None);
        }
        let f = right.keys().filter_map(|index| refined.get(index)).map(|refined| f64::from(refined.f));
        let rescoring = Self::rescoring(results, &refined, f.collect())?;
        let (temperature, margins) = Self::intervals(refiner, results, &right, options, progress)?;
        Ok(Some(Self { temperature, margins, rescoring }))
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
            Ok(evaluate_coco_in_memory(results.truth, &found)?.ap)
        };
        let scores = Rescoring::POWERS.iter().map(ap).collect::<Result<Vec<_>>>()?;
        let (power, _) = best(&Rescoring::POWERS, scores).unwrap_or((0.0, f64::NAN));
        Ok(with(power))
    }

    /// The temperature whose corrected intervals are the narrowest, with their margins.
    fn intervals(
        refiner: &BoxRefiner,
        results: &RefinedResults<'_>,
        right: &BTreeMap<usize, [f64; 4]>,
        options: &CalibrationOptions,
        progress: &mut dyn Progress,
    ) -> Result<(f64, [f64; 4])> {
        let mut found: [Intervals; Self::TEMPERATURES.len()] = Default::default();
        let of_image = results.of_images(refiner, |index| right.contains_key(&index));
        progress.begin("densities", of_image.len());
        let images =
            results.dataset.images.iter().filter_map(|image| Some((image, of_image.get(&image.id)?)));
        for (done, (image, (indices, boxes))) in (1..).zip(images) {
            let seen = refiner.look(&read_image(&image.path)?)?;
            let (refined, corners) = refiner.refined(&seen, boxes, &refiner.ascent)?;
            for (found, temperature) in found.iter_mut().zip(Self::TEMPERATURES) {
                let draw = Draw { samples: options.samples, temperature };
                let mut rng = options.key.index(image.id).rng();
                let densities = refiner.densities(&seen, boxes, &corners, draw, &mut rng)?;
                for ((index, refined), density) in indices.iter().zip(&refined).zip(densities) {
                    found.push(&density, refined.bbox, right[index])?;
                }
            }
            progress.advance(done, "");
        }
        progress.end();
        let corrected = found.iter().map(Intervals::corrected).collect::<Result<Vec<_>>>()?;
        let tempered = Self::TEMPERATURES.into_iter().zip(corrected);
        let narrowest = tempered.min_by(|(_, (_, a)), (_, (_, b))| a.total_cmp(b));
        Ok(narrowest.map_or((1.0, [0.0; 4]), |(temperature, (margins, _))| (temperature, margins)))
    }

    /// The margins of a refined box `[x, y, width, height]`, in pixels.
    pub fn margins_of(&self, [_, _, width, height]: [f64; 4]) -> [f64; 4] {
        let [left, top, right, bottom] = self.margins;
        [left * width, top * height, right * width, bottom * height]
    }
}

/// The intervals of right detections at one temperature, in sides of their refined boxes.
#[derive(Default)]
struct Intervals {
    /// Of each edge how far it is outside of them, or, negative, inside.
    distances: [Vec<f64>; 4],
    /// The sum of the widths of all.
    width: f64,
}

impl Intervals {
    /// Those of a density about the refined box `bbox`, of an object annotated as `truth`. One without spread
    /// has none.
    fn push(&mut self, density: &BoxDensity, bbox: [f64; 4], truth: [f64; 4]) -> Result<()> {
        let regions = match density.edge_regions(BoxDensity::LEVEL) {
            Err(Error::NonFinite { .. }) => return Ok(()),
            regions => regions?,
        };
        for (place, (region, edge)) in regions.iter().zip(edges(truth)).enumerate() {
            let side = bbox[2 + place % 2];
            self.distances[place].push(distance(region, edge) / side);
            self.width += region.width() / side;
        }
        Ok(())
    }

    /// The conformal margins, and the mean width with them.
    fn corrected(&self) -> Result<([f64; 4], f64)> {
        let mut margins = [0.0; 4];
        for (margin, distances) in margins.iter_mut().zip(&self.distances) {
            *margin = SplitConformal::calibrate(distances, 1.0 - BoxDensity::LEVEL)?.threshold;
        }
        let count = self.distances.iter().map(Vec::len).sum::<usize>() as f64;
        Ok((margins, self.width / count + 2.0 * margins.iter().sum::<f64>() / 4.0))
    }
}

/// How far y is outside of all intervals, or, negative, inside of one.
fn distance(region: &Region, y: f64) -> f64 {
    region.intervals.iter().map(|interval| interval_score(*interval, y)).fold(f64::INFINITY, f64::min)
}

/// Left, top, right and bottom of `[x, y, width, height]`.
fn edges([x, y, width, height]: [f64; 4]) -> [f64; 4] {
    [x, y, x + width, y + height]
}

/// The object of each right detection, by the detection's place.
fn right(truth: &GroundTruth, found: &[Detection]) -> Result<BTreeMap<usize, [f64; 4]>> {
    let outcomes = diagnose(truth, found)?.detections.into_iter().enumerate();
    let object = |(index, outcome)| match outcome {
        Outcome::Correct(object) => Some((index, truth.boxes[object].bbox)),
        Outcome::Wrong(..) | Outcome::Ignored => None,
    };
    Ok(outcomes.filter_map(object).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALIBRATION: Calibration = Calibration {
        temperature: 2.0,
        margins: [0.1, -0.2, 0.0, -5.0],
        rescoring: Rescoring { center: 4.0, scale: 2.0, power: 2.0 },
    };

    #[test]
    fn margins_are_fractions_of_the_box() {
        assert_eq!(CALIBRATION.margins_of([3.0, 4.0, 20.0, 50.0]), [2.0, -10.0, 0.0, -250.0]);
    }

    #[test]
    fn a_distance_is_negative_inside_of_an_interval() {
        let region = Region { intervals: vec![[8.0, 17.0], [88.0, 93.0]], log_level: 0.0, mass: 0.9 };
        assert_eq!([20.0, 9.0, 95.0].map(|y| distance(&region, y)), [3.0, -1.0, 2.0]);
    }

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
