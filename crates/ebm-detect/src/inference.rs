//! Detections of a batch by each method.

use candle_core::Tensor;
use ebm_core::{EnergyModel, GradientAscent, Stand, refine, refine_observed};
use ebm_ops::boxes::{BBox, BoxConvention, clip};

use crate::{
    Error, Result,
    box_head::Candidate,
    config::DetectorConfig,
    energy_head::{BoxFeatures, Coordinates},
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

/// Guided suppression by f and gradient ascent on f from the survivors, all boxes of the batch together. Without
/// [`DetectorConfig::guided_suppression`] the survivors are those of the class scores.
///
/// `candidates[i]` lie in image i of the pyramid, which has (height, width) `sizes[i]` in the network's input.
/// Refined boxes end at its border where [`DetectorConfig::clip_refined`] says so; one that climbed out of the
/// image is left without extent. Neither a second suppression nor rescoring follows.
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
    let guides = match config.guided_suppression {
        true => confidences(head, pyramid, candidates, convention)?,
        false => candidates.iter().map(|own| own.iter().map(|one| one.score).collect()).collect(),
    };
    let survivors = candidates.iter().zip(&guides).map(|(own, guide)| suppress(own, guide, config));
    let survivors = survivors.collect::<Result<Vec<_>>>()?;
    let refined = refined_boxes(head, pyramid, &survivors, ascent, convention)?;
    let boxes = refined.into_iter().zip(sizes);
    let pair = |(before, (boxes, &size)): (Vec<Candidate>, (Vec<BBox>, _))| {
        let after = moved(&before, boxes, size, config);
        RefinedCandidates { before, after }
    };
    Ok(survivors.into_iter().zip(boxes).map(pair).collect())
}

/// The candidates with these boxes, in an image of this height and width.
fn moved(
    before: &[Candidate],
    boxes: Vec<BBox>,
    (height, width): (usize, usize),
    config: &DetectorConfig,
) -> Vec<Candidate> {
    let place = |bbox: BBox| match config.clip_refined {
        true => clip(&bbox, width as f32, height as f32, config.convention.into()),
        false => bbox,
    };
    before.iter().zip(boxes).map(|(own, bbox)| Candidate { bbox: place(bbox), ..*own }).collect()
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

/// Where a box stands on its way up f.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathPoint {
    /// `[x, y, width, height]` in pixels of the image.
    pub bbox: [f64; 4],
    /// f there.
    pub f: f64,
    /// Whether the step that was tried was kept; an undone one leaves the box where it was.
    pub is_kept: bool,
}

/// The way of the one box of `features`; `in_image` takes corners to boxes of the image.
pub(crate) fn climb_path(
    head: &Head,
    features: BoxFeatures,
    ascent: &BoxAscent,
    in_image: impl Fn(&BBox) -> [f64; 4],
) -> Result<Vec<PathPoint>> {
    let features = features.in_coordinates(ascent.coordinates)?;
    let (mut stands, y0) = (Vec::new(), features.targets()?);
    let mut observe = |stand: Stand<'_>| stands.push((stand.y.to_vec(), stand.f, stand.is_kept));
    refine_observed(&head, &features, &y0, &ascent.ascent, &mut observe)?;
    let point = |(y, f, is_kept): (Vec<f64>, f64, bool)| {
        if !f.is_finite() {
            return Err(Error::input("refinement", format!("f of a box is {f}")));
        }
        let y = Tensor::from_vec(y, (1, 1, 4), y0.device())?.to_dtype(y0.dtype())?;
        let corners = features.corners(&y)?.flatten_all()?.to_vec1::<f32>()?;
        let bbox = in_image(&[corners[0], corners[1], corners[2], corners[3]]);
        Ok(PathPoint { bbox, f, is_kept })
    };
    stands.into_iter().map(point).collect()
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
            // Of 40 columns and of 64.
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
}
