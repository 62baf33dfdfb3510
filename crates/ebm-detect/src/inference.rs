//! Guided suppression (IoU-Net, Algorithm 1, guided by f as in the paper), and gradient ascent of boxes on f.

use candle_core::Tensor;
use ebm_core::{EnergyModel, GradientAscent, refine};
use ebm_ops::boxes::{BBox, BoxConvention, clip, iou};

use crate::{
    Error, Result,
    box_head::Candidate,
    config::DetectorConfig,
    energy_head::{BoxFeatures, Coordinates},
};

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
    let convention = config.convention.into();
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
        for kept in iou_guided_nms(&boxes, &scores, &guide, config.roi.nms, config.convention.into())? {
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

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{DType, Device};
    use ebm_core::StepRule;

    use crate::config::{ExperimentConfig, Settings};

    /// f = c_x/w: a step of length λ moves a box by λ of its own width to the right.
    struct ToTheRight;

    impl EnergyModel for ToTheRight {
        type Features = BoxFeatures;

        fn score(&self, _: &BoxFeatures, y: &Tensor) -> ebm_core::Result<Tensor> {
            Ok(y.narrow(2, 0, 1)?.squeeze(2)?)
        }
    }

    #[test]
    fn refined_boxes_end_where_the_image_does_or_go_on() {
        let mut config = ExperimentConfig::embedded("mini").unwrap().detector;
        let level = |side: usize| Tensor::zeros((2, 4, side, side), DType::F32, &Device::Cpu).unwrap();
        let pyramid: Vec<Tensor> = [16, 8, 4, 2, 1].map(level).into();
        let candidate = |label, bbox| Candidate { bbox, label, score: 0.9 };
        let first = vec![candidate(1, [10., 5., 20., 15.]), candidate(2, [24., 5., 34., 15.])];
        let candidates = [first, vec![candidate(1, [10., 5., 20., 15.])]];
        let rule = StepRule::Backtracking;
        let ascent = GradientAscent { steps: 5, step_length: vec![0.5; 4], decay: 0.5, rule };
        let ascent = BoxAscent { ascent, coordinates: Coordinates::Relative };
        let mut refined = |clip_refined| -> Vec<Vec<BBox>> {
            config.clip_refined = clip_refined;
            // Images with 40 and 64 columns.
            let sizes = [(30, 40), (30, 64)];
            let found =
                refine_candidates(&ToTheRight, &pyramid, &candidates, &sizes, &ascent, &config).unwrap();
            found.iter().map(|image| image.after.iter().map(|c| c.bbox.map(f32::round)).collect()).collect()
        };
        let free = [vec![[35., 5., 45., 15.], [49., 5., 59., 15.]], vec![[35., 5., 45., 15.]]];
        let clipped = [vec![[35., 5., 40., 15.], [40., 5., 40., 15.]], vec![[35., 5., 45., 15.]]];
        assert_eq!((refined(false), refined(true)), (free.into(), clipped.into()));
    }

    #[test]
    fn of_overlapping_boxes_f_or_the_class_score_keeps_one() {
        let mut config = ExperimentConfig::embedded("mini").unwrap().detector;
        let level = |side: usize| Tensor::zeros((1, 4, side, side), DType::F32, &Device::Cpu).unwrap();
        let pyramid: Vec<Tensor> = [16, 8, 4, 2, 1].map(level).into();
        let candidate = |score, bbox| Candidate { bbox, label: 1, score };
        let candidates = [vec![candidate(0.9, [10., 5., 30., 25.]), candidate(0.6, [13., 5., 33., 25.])]];
        let ascent =
            GradientAscent { steps: 0, step_length: vec![0.5; 4], decay: 0.5, rule: StepRule::Backtracking };
        let ascent = BoxAscent { ascent, coordinates: Coordinates::Relative };
        for (guided, left) in [(true, 13.0), (false, 10.0)] {
            config.guided_suppression = guided;
            let sizes = [(60, 60)];
            let found =
                refine_candidates(&ToTheRight, &pyramid, &candidates, &sizes, &ascent, &config).unwrap();
            let [kept] = &found[0].before[..] else { unreachable!() };
            assert_eq!((kept.bbox[0], kept.score), (left, 0.9));
        }
    }

    const BOXES: [BBox; 4] = [[0., 0., 9., 9.], [1., 1., 10., 10.], [20., 20., 29., 29.], [0., 0., 9., 4.]];

    #[test]
    fn golden_clusters() {
        let kept = iou_guided_nms(
            &BOXES,
            &[0.9, 0.6, 0.7, 0.8],
            &[0.2, 0.5, 0.1, 0.4],
            0.5,
            BoxConvention::Inclusive,
        )
        .unwrap();
        let golden = [(1, 0.9), (3, 0.8), (2, 0.7)].map(|(index, score)| Survivor { index, score });
        assert_eq!(kept, golden);
    }

    #[test]
    fn a_nan_is_refused() {
        let guide = [0.2, f32::NAN, 0.1, 0.4];
        assert!(iou_guided_nms(&BOXES, &[0.9; 4], &guide, 0.5, BoxConvention::HalfOpen).is_err());
    }

    #[test]
    fn nothing_in_nothing_out() {
        assert_eq!(iou_guided_nms(&[], &[], &[], 0.5, BoxConvention::HalfOpen).unwrap(), []);
    }
}
