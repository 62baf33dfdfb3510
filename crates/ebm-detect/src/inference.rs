//! Detections of a batch by each method.

use candle_core::Tensor;
use ebm_core::{EnergyModel, GradientAscent, refine};
use ebm_nn::boxes::{BBox, BoxConvention};

use crate::{
    box_head::Candidate,
    config::DetectorConfig,
    energy_head::{BoxFeatures, Coordinates},
    error::Result,
    guided_nms::iou_guided_nms,
};

/// How boxes climb f.
#[derive(Clone, Debug, PartialEq)]
pub struct BoxAscent {
    /// Algorithm S1 with its step lengths.
    pub ascent: GradientAscent,
    /// In these coordinates.
    pub coordinates: Coordinates,
}

impl BoxAscent {
    /// The same with all step lengths multiplied by `factor`.
    pub fn scaled(&self, factor: f64) -> Self {
        let step_length = self.ascent.step_length.iter().map(|length| length * factor).collect();
        Self { ascent: GradientAscent { step_length, ..self.ascent.clone() }, ..*self }
    }

    /// The same with T = `steps`.
    pub fn with_steps(&self, steps: usize) -> Self {
        Self { ascent: GradientAscent { steps, ..self.ascent.clone() }, ..*self }
    }
}

/// Boxes of one image before and after refinement; entry i of both is the same detection.
#[derive(Clone, Debug, Default)]
pub struct RefinedCandidates {
    /// The survivors of guided suppression, best score first.
    pub before: Vec<Candidate>,
    /// The same with refined boxes.
    pub after: Vec<Candidate>,
}

/// f of boxes, as an [`EnergyHead`](crate::EnergyHead) is.
pub type Head = dyn EnergyModel<Features = BoxFeatures>;

/// Guided suppression by f and gradient ascent on f from the survivors, all boxes of the batch together.
///
/// `candidates[i]` lie in image i of the pyramid. Neither clipping nor a second suppression nor rescoring
/// follows.
pub fn refine_candidates(
    head: &Head,
    pyramid: &[Tensor],
    candidates: &[Vec<Candidate>],
    ascent: &BoxAscent,
    config: &DetectorConfig,
) -> Result<Vec<RefinedCandidates>> {
    let convention = config.convention.into();
    // In the layout that pooling reads, once for both passes over the candidates.
    let pyramid = &BoxFeatures::readable(pyramid)?;
    let scores = confidences(head, pyramid, candidates, convention)?;
    let mut survivors = Vec::with_capacity(candidates.len());
    for (candidates, scores) in candidates.iter().zip(&scores) {
        survivors.push(suppress(candidates, scores, config)?);
    }
    let refined = refined_boxes(head, pyramid, &survivors, ascent, convention)?;
    let pair = |(before, boxes): (Vec<Candidate>, Vec<BBox>)| {
        let after =
            before.iter().zip(boxes).map(|(candidate, bbox)| Candidate { bbox, ..*candidate }).collect();
        RefinedCandidates { before, after }
    };
    Ok(survivors.into_iter().zip(refined).map(pair).collect())
}

/// f of every candidate in its own class.
fn confidences(
    head: &Head,
    pyramid: &[Tensor],
    candidates: &[Vec<Candidate>],
    convention: BoxConvention,
) -> Result<Vec<Vec<f32>>> {
    let Some(features) = features(pyramid, candidates, convention)? else {
        return Ok(vec![Vec::new(); candidates.len()]);
    };
    let scores = head.score(&features, &features.targets()?)?.flatten_all()?.to_vec1::<f32>()?;
    Ok(split(&scores, candidates))
}

fn refined_boxes(
    head: &Head,
    pyramid: &[Tensor],
    survivors: &[Vec<Candidate>],
    ascent: &BoxAscent,
    convention: BoxConvention,
) -> Result<Vec<Vec<BBox>>> {
    let Some(features) = features(pyramid, survivors, convention)? else {
        return Ok(vec![Vec::new(); survivors.len()]);
    };
    Ok(split(&climb(head, features, ascent)?.boxes, survivors))
}

/// Boxes at the end of their ascent.
pub(crate) struct Climbed {
    /// The boxes, in the convention's form.
    pub boxes: Vec<BBox>,
    /// f where they began.
    pub f_before: Vec<f32>,
    /// f where they are.
    pub f: Vec<f32>,
}

/// The boxes of `features` climb f.
pub(crate) fn climb(head: &Head, features: BoxFeatures, ascent: &BoxAscent) -> Result<Climbed> {
    let features = features.in_coordinates(ascent.coordinates)?;
    let refined = refine(&head, &features, &features.targets()?, &ascent.ascent)?;
    let boxes = features.corners(&refined.y)?.squeeze(1)?.to_vec2::<f32>()?;
    Ok(Climbed {
        boxes: boxes.iter().map(|b| [b[0], b[1], b[2], b[3]]).collect(),
        f_before: refined.f_init.flatten_all()?.to_vec1()?,
        f: refined.f.flatten_all()?.to_vec1()?,
    })
}

/// What f needs of the candidates, each with its own size as reference.
fn features(
    pyramid: &[Tensor],
    candidates: &[Vec<Candidate>],
    convention: BoxConvention,
) -> Result<Option<BoxFeatures>> {
    let (mut images, mut labels, mut boxes) = (vec![], vec![], vec![]);
    for (image, candidate) in
        (0u32..).zip(candidates).flat_map(|(image, c)| c.iter().map(move |c| (image, c)))
    {
        images.push(image);
        labels.push(candidate.label as u32);
        boxes.push(candidate.bbox);
    }
    if boxes.is_empty() {
        return Ok(None);
    }
    BoxFeatures::new(pyramid, images, labels, &boxes, convention).map(Some)
}

fn split<T: Clone, U>(flat: &[T], like: &[Vec<U>]) -> Vec<Vec<T>> {
    let mut rest = flat;
    like.iter()
        .map(|group| {
            let (head, tail) = rest.split_at(group.len());
            rest = tail;
            head.to_vec()
        })
        .collect()
}

/// Guided suppression class by class; the best by inherited classification score, at most so many as
/// configured.
fn suppress(candidates: &[Candidate], guide: &[f32], config: &DetectorConfig) -> Result<Vec<Candidate>> {
    let mut survivors = Vec::new();
    for label in 1..config.num_classes {
        let members: Vec<usize> = (0..candidates.len()).filter(|&i| candidates[i].label == label).collect();
        let of = |pick: &dyn Fn(usize) -> f32| members.iter().map(|&i| pick(i)).collect::<Vec<f32>>();
        let boxes: Vec<BBox> = members.iter().map(|&i| candidates[i].bbox).collect();
        let (scores, guide) = (of(&|i| candidates[i].score), of(&|i| guide[i]));
        for kept in iou_guided_nms(&boxes, &scores, &guide, config.roi.nms, config.convention.into())? {
            survivors.push(Candidate { score: kept.score, ..candidates[members[kept.index]] });
        }
    }
    survivors.sort_by(|a, b| b.score.total_cmp(&a.score));
    survivors.truncate(config.roi.max_detections);
    Ok(survivors)
}
