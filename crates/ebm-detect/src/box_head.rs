//! Two fully-connected layers over a pooled box, and Faster-RCNN's predictor on top.

use candle_core::{D, Tensor};
use candle_nn::{Init, VarBuilder};
use ebm_nn::boxes::{BBox, BoxConvention, clip};
use rand::RngCore;

use crate::{
    box_coder::BoxCoder,
    config::{DetectorConfig, RoiConfig},
    error::{Error, Result},
    layers::{Linear, rows_of_four, torch_default},
    matcher::{BalancedSampler, Match, Matcher},
    packed_head::PackedTwoMlpHead,
    pooler::{Pooler, Pooling},
    rpn::Proposal,
};

/// fc6 and fc7, each followed by ReLU; the confidence branch has its own copy of the same shape.
#[derive(Clone)]
pub struct TwoMlpHead {
    fc6: Linear,
    fc7: Linear,
}

impl TwoMlpHead {
    /// `fc6 (representation, C·size²)` and `fc7 (representation, representation)` under `vb`.
    pub fn new(config: &DetectorConfig, pooler: &Pooler, vb: VarBuilder) -> Result<Self> {
        let (input, width) = (pooler.output_len(config.backbone.fpn_channels), config.roi.representation);
        Ok(Self {
            fc6: Linear::new(vb.pp("fc6"), input, width, torch_default(input))?,
            fc7: Linear::new(vb.pp("fc7"), width, width, torch_default(width))?,
        })
    }

    /// `(R, C, size, size)` → `(R, representation)`.
    pub fn forward(&self, pooled: &Tensor) -> Result<Tensor> {
        let [_, output] = self.activations(pooled)?;
        Ok(output)
    }

    /// The outputs of both layers, `(R, representation)` each.
    pub fn activations(&self, pooled: &Tensor) -> Result<[Tensor; 2]> {
        let hidden = self.fc6.forward(&pooled.flatten_from(1)?)?.relu()?;
        let output = self.fc7.forward(&hidden)?.relu()?;
        Ok([hidden, output])
    }

    /// The gradient in `pooled`, flattened to `(R, C·size²)`, given the one in the output `(R, representation)`.
    ///
    /// One matrix product per layer; autograd would also make the weights' gradients, which refinement has no use for.
    pub fn input_gradient(&self, activations: &[Tensor; 2], output_gradient: &Tensor) -> Result<Tensor> {
        let through = |gradient: &Tensor, activation: &Tensor, layer: &Linear| -> Result<Tensor> {
            let open = activation.gt(0.0)?.to_dtype(gradient.dtype())?;
            Ok((gradient * open)?.matmul(&layer.weight())?)
        };
        let [hidden, output] = activations;
        through(&through(output_gradient, output, &self.fc7)?, hidden, &self.fc6)
    }

    /// Both layers for inference, reading pooled boxes of `bins` bins with the channels innermost, `(bins, C)`.
    pub fn pack(&self, bins: usize) -> Result<PackedTwoMlpHead> {
        let channels = self.fc6.weight().dim(1)? / bins.max(1);
        let fc6 = self.fc6.pack(|input| input % channels * bins + input / channels)?;
        Ok(PackedTwoMlpHead::new(fc6, self.fc7.pack(|input| input)?))
    }
}

/// A box that the detector holds for an object of one class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Corners in input pixels, within the image.
    pub bbox: BBox,
    /// Class, never the background.
    pub label: usize,
    /// Probability of the class.
    pub score: f32,
}

/// Faster-RCNN's box head: class and class-specific box of each proposal.
pub struct BoxHead {
    pooler: Pooler,
    trunk: TwoMlpHead,
    class: Linear,
    offsets: Linear,
    coder: BoxCoder,
    config: RoiConfig,
    num_classes: usize,
    convention: BoxConvention,
}

impl BoxHead {
    /// Parameters `box_head.fc6|fc7`, `box_predictor.cls_score|bbox_pred` under `vb`.
    pub fn new(config: &DetectorConfig, vb: VarBuilder) -> Result<Self> {
        let (width, classes) = (config.roi.representation, config.num_classes);
        let convention = config.convention.into();
        let pooler = Pooler::new(config, Pooling::RoiAlign(config.roi.sampling_ratio));
        let predictor = vb.pp("box_predictor");
        let normal = |stdev| Init::Randn { mean: 0.0, stdev };
        Ok(Self {
            trunk: TwoMlpHead::new(config, &pooler, vb.pp("box_head"))?,
            class: Linear::new(predictor.pp("cls_score"), width, classes, normal(0.01))?,
            offsets: Linear::new(predictor.pp("bbox_pred"), width, 4 * classes, normal(0.001))?,
            coder: BoxCoder { weights: config.roi.box_weights, convention },
            pooler,
            config: config.roi.clone(),
            num_classes: classes,
            convention,
        })
    }

    /// Class logits `(R, K)` and offsets `(R, K, 4)` of `boxes[i]` in image `images[i]`.
    pub fn forward(&self, pyramid: &[Tensor], boxes: &[BBox], images: &[u32]) -> Result<(Tensor, Tensor)> {
        let device = pyramid[0].device();
        let rois = rows_of_four(boxes, device)?;
        let pooled = self.pooler.pool(pyramid, &rois, images)?;
        let hidden = self.trunk.forward(&pooled.features)?.index_select(&pooled.position, 0)?;
        let offsets = self.offsets.forward(&hidden)?.reshape((boxes.len(), self.num_classes, 4))?;
        Ok((self.class.forward(&hidden)?, offsets))
    }

    /// Every (proposal, class) pair of each image with a score above the threshold, decoded and clipped to `sizes`
    /// (height, width). No suppression yet.
    pub fn candidates(
        &self,
        pyramid: &[Tensor],
        proposals: &[Vec<Proposal>],
        sizes: &[(usize, usize)],
    ) -> Result<Vec<Vec<Candidate>>> {
        let mut candidates = vec![Vec::new(); proposals.len()];
        let flat: Vec<(u32, BBox)> = (0u32..)
            .zip(proposals)
            .flat_map(|(image, proposals)| proposals.iter().map(move |p| (image, p.bbox)))
            .collect();
        if flat.is_empty() {
            return Ok(candidates);
        }
        let (images, boxes): (Vec<u32>, Vec<BBox>) = flat.into_iter().unzip();
        let (logits, offsets) = self.forward(pyramid, &boxes, &images)?;
        let scores = candle_nn::ops::softmax(&logits, D::Minus1)?.to_vec2::<f32>()?;
        let offsets = offsets.to_vec3::<f32>()?;
        for (row, (&image, proposal)) in images.iter().zip(&boxes).enumerate() {
            if let Some(bad) = scores[row].iter().find(|s| !s.is_finite()) {
                return Err(Error::NonFinite {
                    place: "box head",
                    reason: format!("a class score is {bad}"),
                });
            }
            let (height, width) = sizes[image as usize];
            for label in
                (1..self.num_classes).filter(|&label| scores[row][label] > self.config.score_threshold)
            {
                let decoded = self.coder.decode(&offsets[row][label], proposal);
                let bbox = clip(&decoded, width as f32, height as f32, self.convention);
                let end = self.convention.offset();
                if (bbox[2] - bbox[0] + end).min(bbox[3] - bbox[1] + end) >= self.config.min_size {
                    candidates[image as usize].push(Candidate { bbox, label, score: scores[row][label] });
                }
            }
        }
        Ok(candidates)
    }

    /// Classification (cross-entropy, mean) and box (smooth-L1, sum over the sample's size) losses over a balanced
    /// sample of the proposals and the objects themselves. `objects[i]` are image i's boxes and labels.
    pub fn losses(
        &self,
        pyramid: &[Tensor],
        proposals: &[Vec<Proposal>],
        objects: &[(Vec<BBox>, Vec<usize>)],
        rng: &mut dyn RngCore,
    ) -> Result<(Tensor, Tensor)> {
        let threshold = self.config.foreground;
        let matcher = Matcher {
            foreground: threshold,
            background: threshold,
            allow_low_quality: false,
            convention: self.convention,
        };
        let sampler = BalancedSampler {
            size: self.config.sample_size,
            positive_fraction: self.config.positive_fraction,
        };
        let (mut boxes, mut images, mut labels, mut rows, mut targets) =
            (vec![], vec![], vec![], vec![], vec![]);
        for (image, (proposals, (objects, classes))) in (0u32..).zip(proposals.iter().zip(objects)) {
            let pool: Vec<BBox> = proposals.iter().map(|p| p.bbox).chain(objects.iter().copied()).collect();
            let matches = matcher.assign(&pool, objects);
            let (positives, negatives) = sampler.sample(&matches, rng);
            for index in positives.into_iter().chain(negatives) {
                let label = match matches[index] {
                    Match::Object(object) => {
                        rows.push((boxes.len() * self.num_classes + classes[object]) as u32);
                        targets.push(self.coder.encode(&objects[object], &pool[index]));
                        classes[object]
                    }
                    _ => 0,
                };
                labels.push(label as u32);
                boxes.push(pool[index]);
                images.push(image);
            }
        }
        let device = pyramid[0].device();
        if boxes.is_empty() {
            let zero = Tensor::zeros((), pyramid[0].dtype(), device)?;
            return Ok((zero.clone(), zero));
        }
        let total = boxes.len();
        let (logits, offsets) = self.forward(pyramid, &boxes, &images)?;
        let class = candle_nn::loss::cross_entropy(&logits, &Tensor::new(labels, device)?)?;
        if rows.is_empty() {
            return Ok((class, Tensor::zeros((), offsets.dtype(), device)?));
        }
        let predicted = offsets.flatten(0, 1)?.index_select(&Tensor::new(rows, device)?, 0)?;
        let targets = rows_of_four(&targets, device)?;
        let loss = ebm_core::loss::smooth_l1(&(predicted - targets)?, self.config.smooth_l1_beta)?;
        Ok((class, (loss.sum_all()? / total as f64)?))
    }
}
