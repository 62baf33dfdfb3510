//! Where refinement helps: the gain over Faster-RCNN by what makes an object's box uncertain, on generated
//! scenes.

use std::{collections::BTreeMap, path::Path};

use ebm_eval::{Detection, Error as EvalError, GroundTruth, GroundTruthBox, Matching, Summary};
use ebm_seed::Key;
use ebm_synth::scenes::{ObjectAttributes, read_attributes};
use rand::Rng as _;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::Result;

/// The objects of one bin of one attribute, detected by Faster-RCNN (Direct) and with refinement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StratumRow {
    /// What the objects are divided by; "everything" for all of them.
    pub attribute: String,
    /// The bin, as the attribute's values with their unit.
    pub bin: String,
    /// How many objects.
    pub objects: usize,
    /// Average precision of Direct in this stratum, 0 to 1; see [`ebm_eval::stratified`].
    pub ap_direct: f64,
    /// The same after refinement, over the seeds.
    pub ap_refined: Summary,
    /// Mean of the refined APs less Direct's.
    pub ap_gain: f64,
    /// Its standard error over samples of the images, with the heads as they are.
    pub ap_gain_error: Option<f64>,
    /// The objects that Direct and every seed found at IoU 0.5.
    pub found: usize,
    /// How their boxes overlap; none where none was found.
    pub overlap: Option<OverlapGain>,
}

/// Mean IoU with the annotated boxes, on the same objects before and after: the gain in localisation alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverlapGain {
    /// Of Direct's boxes.
    #[serde(rename = "iou_direct")]
    pub direct: f64,
    /// Of the refined ones, over the seeds.
    #[serde(rename = "iou_refined")]
    pub refined: Summary,
    /// Mean of the refined ones less Direct's.
    pub gain: f64,
    /// Its standard error over samples of the images.
    pub gain_error: Option<f64>,
}

/// One bin of an attribute.
struct Stratum {
    attribute: &'static str,
    bin: &'static str,
    contains: fn(&Described) -> bool,
}

/// An object with its attributes.
struct Described {
    attributes: ObjectAttributes,
    /// √area in pixels.
    size: f64,
}

const fn stratum(attribute: &'static str, bin: &'static str, contains: fn(&Described) -> bool) -> Stratum {
    Stratum { attribute, bin, contains }
}

/// An opacity below which a handle or antenna is called faint.
const FAINT: f32 = 0.5;

/// Round numbers; over the test scenes of mini scale every bin has objects.
const STRATA: [Stratum; 26] = [
    stratum("everything", "all", |_| true),
    stratum("edges", "all clear", |d| !d.is_uncertain()),
    stratum("edges", "one uncertain", Described::is_uncertain),
    stratum("occlusion", "0", |d| d.attributes.occlusion <= 0.0),
    stratum("occlusion", "0–0.25", |d| within(d.attributes.occlusion, 0.0, 0.25)),
    stratum("occlusion", "0.25–0.5", |d| within(d.attributes.occlusion, 0.25, 0.5)),
    stratum("occlusion", "> 0.5", |d| d.attributes.occlusion > 0.5),
    stratum("blur (px)", "0–0.25", |d| d.attributes.blur <= 0.25),
    stratum("blur (px)", "0.25–0.5", |d| within(d.attributes.blur, 0.25, 0.5)),
    stratum("blur (px)", "0.5–1", |d| within(d.attributes.blur, 0.5, 1.0)),
    stratum("blur (px)", "1–1.5", |d| within(d.attributes.blur, 1.0, 1.5)),
    stratum("blur (px)", "1.5–2", |d| within(d.attributes.blur, 1.5, 2.0)),
    stratum("blur (px)", "> 2", |d| d.attributes.blur > 2.0),
    stratum("size (px)", "< 16", |d| d.size < 16.0),
    stratum("size (px)", "16–24", |d| (16.0..24.0).contains(&d.size)),
    stratum("size (px)", "24–32", |d| (24.0..32.0).contains(&d.size)),
    stratum("size (px)", "32–40", |d| (32.0..40.0).contains(&d.size)),
    stratum("size (px)", "≥ 40", |d| d.size >= 40.0),
    stratum("truncation", "0", |d| d.attributes.truncation <= 0.0),
    stratum("truncation", "0–0.2", |d| within(d.attributes.truncation, 0.0, 0.2)),
    stratum("truncation", "> 0.2", |d| d.attributes.truncation > 0.2),
    stratum("fading side", "no", |d| !d.attributes.fading_side),
    stratum("fading side", "yes", |d| d.attributes.fading_side),
    stratum("thin part", "none", |d| d.attributes.thin_part.is_none()),
    stratum("thin part", "clear", |d| d.attributes.thin_part.is_some_and(|opacity| opacity >= FAINT)),
    stratum("thin part", "faint", |d| d.attributes.thin_part.is_some_and(|opacity| opacity < FAINT)),
];

/// Above `low`, up to `high`.
fn within(value: f32, low: f32, high: f32) -> bool {
    value > low && value <= high
}

impl Described {
    /// Occluded by a twentieth, blurred by a pixel, truncated, fading, or with a faint part.
    fn is_uncertain(&self) -> bool {
        let ObjectAttributes { occlusion, truncation, blur, fading_side, thin_part } = self.attributes;
        occlusion > 0.05
            || truncation > 0.0
            || blur > 1.0
            || fading_side
            || thin_part.is_some_and(|opacity| opacity < FAINT)
    }
}

/// Scores `direct` and each seed's `refined` detections of the scenes whose `annotations` these are, stratum
/// by stratum; strata without objects are left out. `replicates` samples of the images, drawn with
/// replacement and the same for all detections, give the standard errors; below two there are none.
///
/// # Errors
/// When the annotations are not those of generated scenes, when a detection's ids are not theirs, or when no
/// refined detections are given.
pub fn strata(
    annotations: &Path,
    direct: &[Detection],
    refined: &[Vec<Detection>],
    replicates: usize,
    key: Key,
) -> Result<Vec<StratumRow>> {
    let truth = GroundTruth::read(annotations)?;
    let attributes = read_attributes(annotations)?;
    if refined.is_empty() {
        return Err(EvalError::Empty { what: "refined detections" }.into());
    }
    // Both readers keep the order of the file.
    let describe = |(object, &(_, attributes)): (&GroundTruthBox, &(u64, ObjectAttributes))| Described {
        attributes,
        size: object.area.sqrt(),
    };
    let objects: Vec<Described> = truth.boxes.iter().zip(&attributes).map(describe).collect();
    let direct = Matching::new(&truth, direct)?;
    let refined = refined.iter().map(|found| Matching::new(&truth, found));
    let refined = refined.collect::<ebm_eval::Result<Vec<_>>>()?;
    let places: BTreeMap<u64, usize> = truth.images.iter().copied().zip(0..).collect();
    let images = truth.boxes.iter().filter_map(|object| places.get(&object.image_id).copied()).collect();
    let comparison = Comparison { images, direct, refined };
    let samples: Vec<Vec<usize>> =
        (0..replicates as u64).map(|i| resample(truth.images.len(), key.index(i))).collect();

    let mut rows = Vec::new();
    for Stratum { attribute, bin, contains } in &STRATA {
        let members: Vec<bool> =
            truth.boxes.iter().zip(&objects).map(|(b, object)| !b.is_crowd && contains(object)).collect();
        rows.extend(comparison.row(attribute, bin, &members, &samples)?);
    }
    Ok(rows)
}

/// How often each of `count` images is drawn in `count` draws.
fn resample(count: usize, key: Key) -> Vec<usize> {
    let mut rng = key.rng();
    let mut times = vec![0; count];
    for _ in 0..count {
        times[rng.random_range(0..count)] += 1;
    }
    times
}

struct Comparison {
    /// The place of each object's image among the images.
    images: Vec<usize>,
    direct: Matching,
    refined: Vec<Matching>,
}

impl Comparison {
    fn row(
        &self,
        attribute: &str,
        bin: &str,
        members: &[bool],
        samples: &[Vec<usize>],
    ) -> Result<Option<StratumRow>> {
        let Some(ap_direct) = self.direct.average_precision(members)? else { return Ok(None) };
        let refined = self.refined.iter().map(|matching| Ok(matching.average_precision(members)?));
        let refined: Vec<f64> = refined.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
        let ap_refined = Summary::new(&refined)?;
        let gains = samples.par_iter().map(|times| self.ap_gain(members, times));
        let gains: Vec<f64> = gains.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();

        let pairs = self.pairs(members);
        let overlap = match pairs.is_empty() {
            true => None,
            false => Some(self.overlap_gain(&pairs, samples)?),
        };
        Ok(Some(StratumRow {
            attribute: attribute.to_owned(),
            bin: bin.to_owned(),
            objects: members.iter().filter(|member| **member).count(),
            ap_direct,
            ap_refined,
            ap_gain: ap_refined.mean - ap_direct,
            ap_gain_error: spread(&gains)?,
            found: pairs.len(),
            overlap,
        }))
    }

    /// None where the sampled images have no object of the stratum.
    fn ap_gain(&self, members: &[bool], times: &[usize]) -> Result<Option<f64>> {
        let Some(direct) = self.direct.average_precision_of(members, times)? else { return Ok(None) };
        let mut sum = 0.0;
        for matching in &self.refined {
            sum += matching.average_precision_of(members, times)?.unwrap_or(0.0);
        }
        Ok(Some(sum / self.refined.len() as f64 - direct))
    }

    /// The objects that all found: their places, and the overlaps of Direct and of each seed.
    fn pairs(&self, members: &[bool]) -> Vec<(usize, f64, Vec<f64>)> {
        let of = |object: usize| {
            let direct = self.direct.overlaps()[object]?;
            let refined = self.refined.iter().map(|matching| matching.overlaps()[object]);
            Some((object, direct, refined.collect::<Option<Vec<_>>>()?))
        };
        (0..members.len()).filter(|&object| members[object]).filter_map(of).collect()
    }

    fn overlap_gain(&self, pairs: &[(usize, f64, Vec<f64>)], samples: &[Vec<usize>]) -> Result<OverlapGain> {
        let count = pairs.len() as f64;
        let direct = pairs.iter().map(|(_, direct, _)| direct).sum::<f64>() / count;
        let of_seed = |seed: usize| pairs.iter().map(|(_, _, refined)| refined[seed]).sum::<f64>() / count;
        let refined = Summary::new(&(0..self.refined.len()).map(of_seed).collect::<Vec<_>>())?;
        let gain = |times: &Vec<usize>| {
            let (mut total, mut sum) = (0, 0.0);
            for (object, direct, refined) in pairs {
                let times = times[self.images[*object]];
                total += times;
                sum += times as f64 * (refined.iter().sum::<f64>() / refined.len() as f64 - direct);
            }
            (total > 0).then(|| sum / total as f64)
        };
        let gains: Vec<f64> = samples.iter().filter_map(gain).collect();
        Ok(OverlapGain { direct, refined, gain: refined.mean - direct, gain_error: spread(&gains)? })
    }
}

/// The standard deviation, where there are two values or more.
fn spread(values: &[f64]) -> Result<Option<f64>> {
    if values.is_empty() { Ok(None) } else { Ok(Summary::new(values)?.standard_deviation) }
}
