//! Guided suppression (IoU-Net, Algorithm 1, guided by f as in the paper), and gradient ascent of boxes on f.

use candle_core::Tensor;
use ebm_core::{EnergyModel, GradientAscent, refine};
use ebm_ops::boxes::{BBox, BoxConvention, clip, iou};

use crate::box_head::Candidate;
use crate::config::DetectorConfig;
use crate::energy_head::{BoxFeatures, Coordinates};
use crate::{Error, Result};

/// Settings of the gradient ascent of boxes on f.
#[derive(Clone, Debug, PartialEq)]
pub struct BoxAscent {
    /// Settings of Algorithm S1.
    pub ascent: GradientAscent,
    /// Coordinates of the ascent.
    pub coordinates: Coordinates,
}

impl BoxAscent {
    /// Returns the settings with all step lengths multiplied by `factor`.
    pub fn scaled(&self, factor: f64) -> Self {
        let step_length = self.ascent.step_length.iter().map(|length| length * factor).collect();
        Self { ascent: GradientAscent { step_length, ..self.ascent.clone() }, ..*self }
    }

    /// Returns the settings with T = `steps`.
    pub fn with_steps(&self, steps: usize) -> Self {
        Self { ascent: GradientAscent { steps, ..self.ascent.clone() }, ..*self }
    }
}

/// Boxes of one image before and after refinement; entry i of both is the same detection.
#[derive(Clone, Debug, Default)]
pub struct RefinedCandidates {
    /// Survivors of guided suppression by descending score.
    pub before: Vec<Candidate>,
    /// Survivors with refined boxes.
    pub after: Vec<Candidate>,
}

/// Energy model f of boxes, such as an [`EnergyHead`](crate::EnergyHead).
pub type Head = dyn EnergyModel<Features = BoxFeatures>;

/// Suppresses candidates guided by f, and refines the survivors of the whole batch by gradient ascent on f. Without
/// [`DetectorConfig::guided_suppression`], the class score guides the suppression.
///
/// `candidates[i]` lie in image i of the pyramid, which has (height, width) `sizes[i]` in the network's input.
/// With [`DetectorConfig::clip_refined`], refined boxes are clipped to the image; one that has left the image has no
/// extent then. Neither a second suppression nor rescoring follows.
pub fn refine_candidates(
    head: &Head,
    pyramid: &[Tensor],
    candidates: &[Vec<Candidate>],
    sizes: &[(usize, usize)],
    ascent: &BoxAscent,
    config: &DetectorConfig,
) -> Result<Vec<RefinedCandidates>> {
    let convention = config.convention;
    // In the layout that pooling reads, once for both passes over the candidates.
    let pyramid = &BoxFeatures::readable(pyramid)?;
    let guides: Vec<f32> = if config.guided_suppression {
        let of_all = |features: BoxFeatures| -> Result<Vec<f32>> {
            Ok(head.score(&features, &features.targets()?)?.flatten_all()?.to_vec1()?)
        };
        features(pyramid, candidates, convention)?.map_or(Ok(vec![]), of_all)?
    } else {
        candidates.iter().flatten().map(|one| one.score).collect()
    };
    let mut guides = guides.into_iter();
    let mut suppressed =
        |own: &Vec<Candidate>| suppress(own, &guides.by_ref().take(own.len()).collect::<Vec<_>>(), config);
    let survivors = candidates.iter().map(&mut suppressed).collect::<Result<Vec<_>>>()?;
    let features = features(pyramid, &survivors, convention)?;
    let climbed = features.map(|features| climb(head, features, ascent)).transpose()?;
    let mut climbed = climbed.into_iter().flat_map(|climbed| climbed.boxes);
    let refined = survivors.into_iter().zip(sizes).map(|(before, &(height, width))| {
        let place = |bbox: BBox| match config.clip_refined {
            true => clip(&bbox, width as f32, height as f32, convention),
            false => bbox,
        };
        let moved = |(own, bbox): (&Candidate, BBox)| Candidate { bbox: place(bbox), ..*own };
        let after = before.iter().zip(climbed.by_ref()).map(moved).collect();
        RefinedCandidates { before, after }
    });
    Ok(refined.collect())
}

/// Boxes after gradient ascent.
pub(crate) struct AscentResult {
    /// Boxes in the convention's form.
    pub boxes: Vec<BBox>,
    /// f of the boxes before the ascent.
    pub f_before: Vec<f32>,
    /// f of the boxes after the ascent.
    pub f: Vec<f32>,
}

/// Refines the boxes of `features` by gradient ascent on f.
pub(crate) fn climb(head: &Head, features: BoxFeatures, ascent: &BoxAscent) -> Result<AscentResult> {
    let features = features.in_coordinates(ascent.coordinates)?;
    let refined = refine(&head, &features, &features.targets()?, &ascent.ascent)?;
    let boxes = features.corners(&refined.y)?.squeeze(1)?.to_vec2::<f32>()?;
    Ok(AscentResult {
        boxes: boxes.iter().map(|b| [b[0], b[1], b[2], b[3]]).collect(),
        f_before: refined.f_init.flatten_all()?.to_vec1()?,
        f: refined.f.flatten_all()?.to_vec1()?,
    })
}

/// Returns the features of the candidates, each with its own size as reference; `None` without candidates.
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

/// Suppresses candidates class by class, guided by `guide`. Returns the best by inherited classification score, at
/// most the configured number.
fn suppress(candidates: &[Candidate], guide: &[f32], config: &DetectorConfig) -> Result<Vec<Candidate>> {
    let mut survivors = Vec::new();
    for label in 1..config.num_classes {
        let members: Vec<usize> = (0..candidates.len()).filter(|&i| candidates[i].label == label).collect();
        let of = |pick: &dyn Fn(usize) -> f32| members.iter().map(|&i| pick(i)).collect::<Vec<f32>>();
        let boxes: Vec<BBox> = members.iter().map(|&i| candidates[i].bbox).collect();
        let (scores, guide) = (of(&|i| candidates[i].score), of(&|i| guide[i]));
        for kept in iou_guided_nms(&boxes, &scores, &guide, config.roi.nms, config.convention)? {
            survivors.push(Candidate { score: kept.score, ..candidates[members[kept.index]] });
        }
    }
    survivors.sort_by(|a, b| b.score.total_cmp(&a.score));
    survivors.truncate(config.roi.max_detections);
    Ok(survivors)
}

/// Box that survived suppression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Survivor {
    /// Index into the input.
    pub index: usize,
    /// Highest classification score among the box and those that it suppressed.
    pub score: f32,
}

/// Suppresses boxes of one class, ranked by the localisation confidence `guide` (f or a predicted IoU).
///
/// The remaining box with the highest `guide` is kept, and suppresses every box with an IoU above `threshold`. It
/// inherits the highest classification score of them all. Survivors are ordered by descending `guide`, equal values
/// in input order.
///
/// # Errors
/// [`Error::Input`] when a score or guide is not finite.
pub fn iou_guided_nms(
    boxes: &[BBox],
    scores: &[f32],
    guide: &[f32],
    threshold: f32,
    convention: BoxConvention,
) -> Result<Vec<Survivor>> {
    if let Some(i) = (0..boxes.len()).find(|&i| !guide[i].is_finite() || !scores[i].is_finite()) {
        return Err(Error::input(
            "iou_guided_nms",
            format!("box {i} has score {} and localisation confidence {}", scores[i], guide[i]),
        ));
    }
    let mut order: Vec<usize> = (0..boxes.len()).collect();
    order.sort_by(|&a, &b| guide[b].total_cmp(&guide[a]).then(a.cmp(&b)));
    let mut survivors = Vec::new();
    while let Some(&index) = order.first() {
        let mut score = scores[index];
        order.retain(|&other| {
            let absorbed = other == index || iou(&boxes[index], &boxes[other], convention) > threshold;
            if absorbed {
                score = score.max(scores[other]);
            }
            !absorbed
        });
        survivors.push(Survivor { index, score });
    }
    Ok(survivors)
}
