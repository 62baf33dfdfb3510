//! Region proposal network: objectness of each anchor, and offsets from the anchor to the object's box.

use candle_core::{D, Tensor};
use candle_nn::{Init, VarBuilder};
use ebm_ops::boxes::{BBox, BoxConvention, batched_nms_on, clip};
use ebm_ops::nn::{Conv2d, Conv2dConfig};
use rand::RngCore;
use rayon::prelude::*;

use crate::anchors::{AnchorGenerator, Grid};
use crate::box_coder::BoxCoder;
use crate::config::{DetectorConfig, RpnConfig};
use crate::layers::rows_of_four;
use crate::matcher::{BalancedSampler, Match, Matcher};
use crate::{Error, Result};

/// Region proposal network: its head (3×3 convolution, objectness, offsets; shared by all levels) and its anchors.
pub struct Rpn {
    conv: Conv2d,
    objectness: Conv2d,
    offsets: Conv2d,
    anchors: AnchorGenerator,
    coder: BoxCoder,
    config: RpnConfig,
    convention: BoxConvention,
}

/// Output of the head for K anchors, level by level, each level row by row.
pub struct RpnOutput {
    /// Logits of objectness, `(N, K)`.
    pub objectness: Tensor,
    /// Offsets of the box coder, `(N, K, 4)`.
    pub offsets: Tensor,
    /// Grids of the K anchors, the same for all images of a batch.
    pub grids: Vec<Grid>,
}

/// Box that may contain an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proposal {
    /// Corners in input pixels.
    pub bbox: BBox,
    /// Objectness logit.
    pub objectness: f32,
}

impl Rpn {
    /// Creates the network; its parameters are `head.conv.0.0`, `head.cls_logits` and `head.bbox_pred` under `vb`, with
    /// weights drawn from N(0, 0.01²).
    pub fn new(config: &DetectorConfig, vb: VarBuilder) -> Result<Self> {
        let channels = config.backbone.fpn_channels;
        let convention = config.convention;
        let anchors = AnchorGenerator::of(config);
        let init = Init::Randn { mean: 0.0, stdev: 0.01 };
        let head = vb.pp("head");
        let count = anchors.per_position();
        let conv = |name, output, kernel| {
            let same = Conv2dConfig::same(channels, output, kernel);
            let config = Conv2dConfig { weight: init, bias: Some(Init::Const(0.0)), ..same };
            Conv2d::new(config, head.pp(name))
        };
        Ok(Self {
            conv: conv("conv.0.0", channels, 3)?,
            objectness: conv("cls_logits", count, 1)?,
            offsets: conv("bbox_pred", 4 * count, 1)?,
            anchors,
            coder: BoxCoder { weights: [1.0; 4], convention },
            config: config.rpn.clone(),
            convention,
        })
    }

    /// Runs the head on the pyramid P2 … P6 of images of `input` = (height, width) pixels, padding included.
    pub fn forward(&self, pyramid: &[Tensor], input: (usize, usize)) -> Result<RpnOutput> {
        let (mut objectness, mut offsets, mut grids) = (vec![], vec![], vec![]);
        for (level, features) in pyramid.iter().enumerate() {
            let (n, _, h, w) = features.dims4()?;
            let innermost = ebm_ops::nhwc::from_nchw(features)?;
            let hidden = self.conv.forward_channels_last(&innermost, None, true, false)?;
            let head = |conv: &Conv2d| conv.forward_channels_last(&hidden, None, false, false);
            // (N, H, W, A·c) -> (N, H·W·A, c)
            let flatten = |map: Tensor, c: usize| map.reshape((n, h * w * self.anchors.per_position(), c));
            objectness.push(flatten(head(&self.objectness)?, 1)?.squeeze(D::Minus1)?);
            offsets.push(flatten(head(&self.offsets)?, 4)?);
            grids.push(Grid { level, height: h, width: w, strides: (input.0 / h, input.1 / w) });
        }
        let (objectness, offsets) = (Tensor::cat(&objectness, 1)?, Tensor::cat(&offsets, 1)?);
        Ok(RpnOutput { objectness, offsets, grids })
    }

    /// Returns the proposals of each image by descending objectness; `sizes` are (height, width) without padding.
    pub fn proposals(
        &self,
        output: &RpnOutput,
        sizes: &[(usize, usize)],
        train: bool,
    ) -> Result<Vec<Vec<Proposal>>> {
        let phase = usize::from(!train);
        let count = output.objectness.dim(1)?.max(1);
        let objectness = output.objectness.detach().flatten_all()?.to_vec1::<f32>()?;
        let images = objectness.chunks(count).zip(sizes).enumerate();
        images.map(|(image, (logits, &size))| self.select(output, image, logits, size, phase)).collect()
    }

    /// Returns the proposals of an image, given the objectness `logits` of its anchors.
    fn select(
        &self,
        output: &RpnOutput,
        image: usize,
        logits: &[f32],
        size: (usize, usize),
        phase: usize,
    ) -> Result<Vec<Proposal>> {
        // This loop checks all values because one that may end early is slower.
        let are_finite = logits.iter().fold(true, |all, v| all & v.is_finite());
        if !are_finite && let Some(i) = logits.iter().position(|v| !v.is_finite()) {
            return Err(Error::input("rpn", format!("anchor {i} has objectness {}", logits[i])));
        }
        let sizes: Vec<usize> = output.grids.iter().map(|grid| self.anchors.count(grid)).collect();
        let best = best_of_each_level(logits, &sizes, self.config.pre_nms[phase]);
        let candidates: Vec<u32> = best.iter().map(|best| best.anchor).collect();
        let device = output.objectness.device();
        let rows = Tensor::new(candidates.as_slice(), device)?;
        let offsets = output.offsets.detach().get(image)?.index_select(&rows, 0)?.flatten_all()?;
        let offsets = offsets.to_vec1::<f32>()?;
        let (mut boxes, mut scores, mut levels) = (vec![], vec![], vec![]);
        for (best, offsets) in best.iter().zip(offsets.as_chunks::<4>().0) {
            let anchor = self.anchors.anchor(&output.grids[best.level], best.in_level);
            let decoded = self.coder.decode(offsets, &anchor);
            let bbox = clip(&decoded, size.1 as f32, size.0 as f32, self.convention);
            let end = self.convention.offset();
            let sides = [bbox[2] - bbox[0] + end, bbox[3] - bbox[1] + end];
            // This condition also drops boxes with NaN.
            if sides.iter().all(|&side| side >= self.config.min_size) {
                boxes.push(bbox);
                scores.push(logits[best.anchor as usize]);
                levels.push(best.level);
            }
        }
        let kept = batched_nms_on(device, &boxes, &scores, &levels, self.config.nms, self.convention)?;
        let kept = kept.into_iter().take(self.config.post_nms[phase]);
        Ok(kept.map(|i| Proposal { bbox: boxes[i], objectness: scores[i] }).collect())
    }

    /// Returns the objectness loss (mean binary cross-entropy), the box loss (sum of smooth-L1 with β = 1/9, over the
    /// sample's size) and the sample's size, for a balanced sample of anchors of each image.
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
        let anchors: Vec<BBox> = output.grids.iter().flat_map(|grid| self.anchors.grid(grid)).collect();
        let count = anchors.len();
        let (mut sampled, mut labels, mut positive, mut targets) = (vec![], vec![], vec![], vec![]);
        for (image, objects) in objects.iter().enumerate() {
            let matches = matcher.assign(&anchors, objects);
            let (positives, negatives) = sampler.sample(&matches, rng);
            for &anchor in &positives {
                let Match::Object(object) = matches[anchor] else { continue };
                positive.push((image * count + anchor) as u32);
                targets.push(self.coder.encode(&objects[object], &anchors[anchor]));
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

/// Anchor that may become a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Best {
    /// Index among all anchors.
    anchor: u32,
    /// Index among the anchors of its level.
    in_level: usize,
    level: usize,
}

/// Number of anchors that are selected from at a time.
const CHUNK: usize = 1 << 13;

/// Returns a sorting key of an anchor: keys ascend with descending logits, in the order of [`f32::total_cmp`]. The lower
/// half of the key is the anchor, so that equal logits are ordered by the anchor.
fn rank(logit: f32, anchor: usize) -> u64 {
    let bits = logit.to_bits();
    let ascending = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    u64::from(!ascending) << 32 | anchor as u64
}

/// Returns the `most` anchors of each level with the highest `logits`, in descending order, ties by index.
fn best_of_each_level(logits: &[f32], level_sizes: &[usize], most: usize) -> Vec<Best> {
    let keep_best = |ranks: &mut Vec<u64>| {
        if most < ranks.len() {
            ranks.select_nth_unstable(most);
            ranks.truncate(most);
        }
    };
    let mut best = Vec::new();
    let mut start = 0;
    for (level, &size) in level_sizes.iter().enumerate() {
        let chunks = logits[start..start + size].par_chunks(CHUNK).enumerate();
        let mut ranks: Vec<u64> = chunks
            .flat_map_iter(|(chunk, logits)| {
                let anchors = chunk * CHUNK..;
                let mut ranks =
                    logits.iter().zip(anchors).map(|(logit, anchor)| rank(*logit, anchor)).collect();
                keep_best(&mut ranks);
                ranks
            })
            .collect();
        keep_best(&mut ranks);
        ranks.sort_unstable();
        let anchors = ranks.into_iter().map(|rank| rank as u32);
        best.extend(anchors.map(|i| Best { anchor: start as u32 + i, in_level: i as usize, level }));
        start += size;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_each_level_are_those_of_a_sort() {
        // There are ties, also at the end of the selection; the first level has more anchors than a chunk.
        let first = 2 * CHUNK + 40;
        let mut logits: Vec<f32> = (0..first + 20).map(|i| ((i * 37) % 1009) as f32 - 500.0).collect();
        logits[7] = -0.0;
        for most in [0, 1, 7, 20, 40, CHUNK + 1] {
            let found = best_of_each_level(&logits, &[first, 0, 20], most);
            let mut expected = Vec::new();
            for (level, range) in [(0, 0..first), (2, first..first + 20)] {
                let mut order: Vec<usize> = range.clone().collect();
                order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
                let best = |anchor| Best { anchor: anchor as u32, in_level: anchor - range.start, level };
                expected.extend(order.into_iter().take(most).map(best));
            }
            assert_eq!(found, expected, "{most}");
        }
    }
}
