//! Region proposal network: which anchors hold an object, and where its box lies from there.

use candle_core::{D, Tensor};
use candle_nn::{Init, VarBuilder};
use ebm_nn::boxes::{BBox, BoxConvention, batched_nms_on, clip};
use ebm_nn::ops;
use rand::RngCore;

use crate::{
    anchors::AnchorGenerator,
    box_coder::BoxCoder,
    config::{DetectorConfig, RpnConfig},
    error::{Error, Result},
    layers::{Conv, rows_of_four},
    matcher::{BalancedSampler, Match, Matcher},
};

/// The head (3×3 convolution, objectness, offsets; shared by all levels) with its anchors.
pub struct Rpn {
    conv: Conv,
    objectness: Conv,
    offsets: Conv,
    anchors: AnchorGenerator,
    coder: BoxCoder,
    config: RpnConfig,
    convention: BoxConvention,
}

/// What the head says of every anchor; K anchors, level by level, each level row by row.
pub struct RpnOutput {
    /// `(N, K)` logits.
    pub objectness: Tensor,
    /// `(N, K, 4)` box-coder offsets.
    pub offsets: Tensor,
    /// The K anchors, the same for all images of a batch.
    pub anchors: Vec<BBox>,
    /// Anchors of each level.
    pub level_sizes: Vec<usize>,
}

/// A box that may hold an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proposal {
    /// Corners in input pixels.
    pub bbox: BBox,
    /// Objectness logit.
    pub objectness: f32,
}

impl Rpn {
    /// Parameters `head.conv.0.0`, `head.cls_logits`, `head.bbox_pred` under `vb`, drawn from N(0, 0.01²).
    pub fn new(config: &DetectorConfig, vb: VarBuilder) -> Result<Self> {
        let channels = config.backbone.fpn_channels;
        let convention = config.convention.into();
        let anchors = AnchorGenerator::of(config);
        let init = Init::Randn { mean: 0.0, stdev: 0.01 };
        let head = vb.pp("head");
        let count = anchors.per_position();
        Ok(Self {
            conv: Conv::new(head.pp("conv.0.0"), channels, channels, 3, init)?,
            objectness: Conv::new(head.pp("cls_logits"), channels, count, 1, init)?,
            offsets: Conv::new(head.pp("bbox_pred"), channels, 4 * count, 1, init)?,
            anchors,
            coder: BoxCoder { weights: [1.0; 4], convention },
            config: config.rpn.clone(),
            convention,
        })
    }

    /// Runs the head on the pyramid P2 … P6 of images of `input` = (height, width) pixels, padding included.
    pub fn forward(&self, pyramid: &[Tensor], input: (usize, usize)) -> Result<RpnOutput> {
        let (mut objectness, mut offsets, mut anchors, mut level_sizes) = (vec![], vec![], vec![], vec![]);
        for (level, features) in pyramid.iter().enumerate() {
            let (n, _, h, w) = features.dims4()?;
            let innermost = ops::to_channels_last(features)?;
            let hidden = self.conv.forward(&innermost)?.relu()?;
            // (N, H, W, A·c) -> (N, H·W·A, c)
            let flatten = |map: Tensor, c: usize| map.reshape((n, h * w * self.anchors.per_position(), c));
            objectness.push(flatten(self.objectness.forward(&hidden)?, 1)?.squeeze(D::Minus1)?);
            offsets.push(flatten(self.offsets.forward(&hidden)?, 4)?);
            let grid = self.anchors.grid(level, (h, w), (input.0 / h, input.1 / w));
            level_sizes.push(grid.len());
            anchors.extend(grid);
        }
        let (objectness, offsets) = (Tensor::cat(&objectness, 1)?, Tensor::cat(&offsets, 1)?);
        Ok(RpnOutput { objectness, offsets, anchors, level_sizes })
    }

    /// The proposals of each image in descending objectness; `sizes` are (height, width) without padding.
    pub fn proposals(
        &self,
        output: &RpnOutput,
        sizes: &[(usize, usize)],
        train: bool,
    ) -> Result<Vec<Vec<Proposal>>> {
        let phase = usize::from(!train);
        let objectness = output.objectness.detach().to_vec2::<f32>()?;
        let images = objectness.iter().zip(sizes).enumerate();
        images.map(|(image, (logits, &size))| self.select(output, image, logits, size, phase)).collect()
    }

    /// The proposals of an image, given the objectness of its anchors.
    fn select(
        &self,
        output: &RpnOutput,
        image: usize,
        logits: &[f32],
        size: (usize, usize),
        phase: usize,
    ) -> Result<Vec<Proposal>> {
        if let Some(i) = logits.iter().position(|v| !v.is_finite()) {
            return Err(Error::NonFinite {
                place: "rpn",
                reason: format!("anchor {i} has objectness {}", logits[i]),
            });
        }
        let (candidates, candidate_levels) =
            best_of_each_level(logits, &output.level_sizes, self.config.pre_nms[phase]);
        let device = output.objectness.device();
        let rows = Tensor::new(candidates.as_slice(), device)?;
        let offsets = output.offsets.detach().get(image)?.index_select(&rows, 0)?.flatten_all()?;
        let offsets = offsets.to_vec1::<f32>()?;
        let (mut boxes, mut scores, mut levels) = (vec![], vec![], vec![]);
        let candidates = candidates.iter().zip(&candidate_levels).zip(offsets.as_chunks::<4>().0);
        for ((&index, &level), offsets) in candidates {
            let decoded = self.coder.decode(offsets, &output.anchors[index as usize]);
            let bbox = clip(&decoded, size.1 as f32, size.0 as f32, self.convention);
            let end = self.convention.offset();
            let sides = [bbox[2] - bbox[0] + end, bbox[3] - bbox[1] + end];
            // `!(a >= b)` also drops what is not a number.
            if sides.iter().all(|&side| side >= self.config.min_size) {
                boxes.push(bbox);
                scores.push(logits[index as usize]);
                levels.push(level);
            }
        }
        let kept = batched_nms_on(device, &boxes, &scores, &levels, self.config.nms, self.convention)?;
        let kept = kept.into_iter().take(self.config.post_nms[phase]);
        Ok(kept.map(|i| Proposal { bbox: boxes[i], objectness: scores[i] }).collect())
    }

    /// Objectness (binary cross-entropy, mean) and box (smooth-L1 with β = 1/9, sum over the sample's size)
    /// losses over a balanced sample of anchors of each image, and the sample's size.
    pub fn losses(
        &self,
        output: &RpnOutput,
        objects: &[Vec<BBox>],
        rng: &mut dyn RngCore,
    ) -> Result<(Tensor, Tensor, usize)> {
        let matcher = Matcher {
            foreground: self.config.foreground,
            background: self.config.background,
            allow_low_quality: true,
            convention: self.convention,
        };
        let sampler = BalancedSampler {
            size: self.config.sample_size,
            positive_fraction: self.config.positive_fraction,
        };
        let count = output.anchors.len();
        let (mut sampled, mut labels, mut positive, mut targets) = (vec![], vec![], vec![], vec![]);
        for (image, objects) in objects.iter().enumerate() {
            let matches = matcher.assign(&output.anchors, objects);
            let (positives, negatives) = sampler.sample(&matches, rng);
            for &anchor in &positives {
                let Match::Object(object) = matches[anchor] else { continue };
                positive.push((image * count + anchor) as u32);
                targets.push(self.coder.encode(&objects[object], &output.anchors[anchor]));
            }
            for (anchors, label) in [(positives, 1f32), (negatives, 0f32)] {
                labels.extend(std::iter::repeat_n(label, anchors.len()));
                sampled.extend(anchors.into_iter().map(|anchor| (image * count + anchor) as u32));
            }
        }
        let device = output.objectness.device();
        let total = sampled.len();
        let zero = Tensor::zeros((), output.objectness.dtype(), device)?;
        if total == 0 {
            return Ok((zero.clone(), zero, total));
        }
        let logits = output.objectness.flatten_all()?.index_select(&Tensor::new(sampled, device)?, 0)?;
        let labels = Tensor::new(labels, device)?;
        let objectness = ebm_core::loss::binary_cross_entropy_with_logits(&logits, &labels)?;
        if positive.is_empty() {
            return Ok((objectness, zero, total));
        }
        let predicted = output.offsets.flatten(0, 1)?.index_select(&Tensor::new(positive, device)?, 0)?;
        let targets = rows_of_four(&targets, device)?;
        let boxes =
            (ebm_core::loss::smooth_l1(&(predicted - targets)?, 1.0 / 9.0)?.sum_all()? / total as f64)?;
        Ok((objectness, boxes, total))
    }
}

/// Indices of the `most` anchors of each level with the highest `logits`, in descending order, ties by index;
/// and their levels.
fn best_of_each_level(logits: &[f32], level_sizes: &[usize], most: usize) -> (Vec<u32>, Vec<usize>) {
    let by_logit = |&a: &u32, &b: &u32| logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b));
    let (mut best, mut levels) = (Vec::new(), vec![]);
    let mut start = 0;
    for (level, &count) in level_sizes.iter().enumerate() {
        let end = start + count as u32;
        let mut order: Vec<u32> = (start..end).collect();
        if most < count {
            order.select_nth_unstable_by(most, by_logit);
            order.truncate(most);
        }
        order.sort_unstable_by(by_logit);
        levels.resize(levels.len() + order.len(), level);
        best.extend(order);
        start = end;
    }
    (best, levels)
}
