//! Box head of Faster-RCNN: two fully-connected layers over a pooled box, and the predictor on top.

use candle_core::{D, Device, Tensor};
use candle_nn::{Init, VarBuilder};
use ebm_nn::onnx::{Graph, Value};
use ebm_ops::boxes::{BBox, BoxConvention, clip};
use ebm_ops::device::Precision;
use ebm_ops::nn::PackedLinear;
use ebm_ops::relu_gradient;
use rand::RngCore;

use crate::box_coder::BoxCoder;
use crate::config::{DetectorConfig, RoiConfig};
use crate::faster_rcnn::Objects;
use crate::layers::{Linear, rows_of_four, torch_default};
use crate::matcher::{BalancedSampler, Match, Matcher};
use crate::parametric_head::ForegroundPool;
use crate::pooler::{Pooled, Pooler, Pooling};
use crate::rpn::Proposal;
use crate::{Error, Result};

/// Layers fc6 and fc7, each followed by ReLU. The confidence branch has its own layers of the same shape.
#[derive(Clone)]
pub struct TwoMlpHead {
    fc6: Linear,
    fc7: Linear,
}

impl TwoMlpHead {
    /// Creates `fc6 (width, input)` and `fc7 (width, width)` under `vb`, for pooled boxes of `input` numbers.
    pub fn new(input: usize, width: usize, vb: VarBuilder) -> Result<Self> {
        Ok(Self {
            fc6: Linear::new(vb.pp("fc6"), input, width, torch_default(input))?,
            fc7: Linear::new(vb.pp("fc7"), width, width, torch_default(width))?,
        })
    }

    /// Applies both layers: `pooled (R, input)` → `(R, representation)`.
    pub fn forward(&self, pooled: &Tensor) -> Result<Tensor> {
        let [_, output] = self.activations(pooled)?;
        Ok(output)
    }

    /// Returns the outputs of fc6 and fc7, `(R, representation)` each.
    pub fn activations(&self, pooled: &Tensor) -> Result<[Tensor; 2]> {
        let hidden = self.fc6.forward_relu(pooled)?;
        let output = self.fc7.forward_relu(&hidden)?;
        Ok([hidden, output])
    }

    /// Returns the gradient in the flat pooled boxes, given fc6's output `hidden` and the `gradient` in fc7's output
    /// before its ReLU, `(R, representation)` both.
    ///
    /// This is one matrix product per layer. Autograd would also compute the weights' gradients, which refinement
    /// does not need.
    pub fn input_gradient(&self, hidden: &Tensor, gradient: &Tensor) -> Result<Tensor> {
        let in_hidden = relu_gradient(&gradient.matmul(&self.fc7.weight())?, hidden)?;
        Ok(in_hidden.matmul(&self.fc6.weight())?)
    }

    /// Adds [`forward`](Self::forward) of flat pooled boxes to an ONNX graph.
    pub(crate) fn onnx(&self, graph: &mut Graph, pooled: &Value) -> Result<Value> {
        let mut x = pooled.clone();
        for layer in [&self.fc6, &self.fc7] {
            let [weight, bias] = layer.parameters();
            let y = graph.linear(&x, weight, Some(bias))?;
            x = graph.node("Relu", &[&y], &[]);
        }
        Ok(x)
    }

    /// Returns the same layers with constant parameters.
    pub(crate) fn detached(&self) -> Self {
        Self { fc6: self.fc6.detached(), fc7: self.fc7.detached() }
    }

    /// Returns weight and bias of fc6 and of fc7.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &Tensor> {
        [&self.fc6, &self.fc7].into_iter().flat_map(Linear::parameters)
    }

    /// Returns the column of fc6's weight for each number of a pooled box with the channels innermost. Such a box
    /// holds `(bins[i], C)` of each view i, one after the other; the weight's columns are ordered `(C, bins[i])`.
    pub(crate) fn columns(&self, bins: &[usize]) -> Result<Vec<u32>> {
        let channels = self.fc6.weight().dim(1)? / bins.iter().sum::<usize>().max(1);
        let mut columns = Vec::new();
        for &bins in bins {
            let first = columns.len();
            let column = |i: usize| first + i % channels * bins + i / channels;
            columns.extend((0..bins * channels).map(|i| column(i) as u32));
        }
        Ok(columns)
    }

    /// Packs the weights of fc6 and fc7; the packed fc6 reads pooled boxes with the channels innermost.
    pub(crate) fn pack(&self, bins: &[usize], precision: Precision) -> Result<[PackedLinear; 2]> {
        let columns = self.columns(bins)?;
        let fc6 = self.fc6.pack(precision, &|input| columns[input] as usize)?;
        Ok([fc6, self.fc7.pack(precision, &|input| input)?])
    }

    /// Returns layers with constant parameters whose fc6 reads pooled boxes with the channels innermost.
    pub(crate) fn channels_innermost(&self, bins: &[usize]) -> Result<Self> {
        Ok(Self { fc6: self.fc6.with_inputs(&self.columns(bins)?)?, ..self.detached() })
    }
}

/// Candidate detection: a box with a class and a score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Corners in input pixels, within the image.
    pub bbox: BBox,
    /// Class, never the background.
    pub label: usize,
    /// Probability of the class.
    pub score: f32,
}

/// Pair of a proposal and a class that may become a detection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Index of the proposal.
    pub row: usize,
    /// Class, never the background.
    pub label: usize,
    /// Probability of the class.
    pub score: f32,
}

/// Proposals of a batch with their features and class scores.
pub struct ScoredProposals {
    /// Output of fc7 for each proposal, `(R, representation)`; Feat-Box in the supplement.
    pub hidden: Tensor,
    /// (Proposal, class) pairs with a score above the threshold.
    pub pairs: Vec<Pair>,
    boxes: Vec<BBox>,
    images: Vec<u32>,
    batch: usize,
}

impl ScoredProposals {
    /// Returns the image of a pair and its proposal.
    pub(crate) fn proposal(&self, pair: &Pair) -> (u32, BBox) {
        (self.images[pair.row], self.boxes[pair.row])
    }
}

/// Box head of Faster-RCNN, which predicts the class and a class-specific box of each proposal.
pub struct BoxHead {
    pooler: Pooler,
    mlp: TwoMlpHead,
    class: Linear,
    offsets: Linear,
    coder: BoxCoder,
    config: RoiConfig,
    num_classes: usize,
    convention: BoxConvention,
}

impl BoxHead {
    /// Creates the head; its parameters are `box_head.fc6|fc7` and `box_predictor.cls_score|bbox_pred` under `vb`.
    pub fn new(config: &DetectorConfig, vb: VarBuilder) -> Result<Self> {
        let (width, classes) = (config.roi.representation, config.num_classes);
        let convention = config.convention;
        let pooler = Pooler::new(config, Pooling::RoiAlign(config.roi.sampling_ratio));
        let predictor = vb.pp("box_predictor");
        let normal = |stdev| Init::Randn { mean: 0.0, stdev };
        Ok(Self {
            mlp: TwoMlpHead::new(pooler.output_len(config.backbone.fpn_channels), width, vb.pp("box_head"))?,
            class: Linear::new(predictor.pp("cls_score"), width, classes, normal(0.01))?,
            offsets: Linear::new(predictor.pp("bbox_pred"), width, 4 * classes, normal(0.001))?,
            coder: BoxCoder { weights: config.roi.box_weights, convention },
            pooler,
            config: config.roi.clone(),
            num_classes: classes,
            convention,
        })
    }

    /// Returns fc7's output `(R, representation)` for `boxes[i]` in image `images[i]`.
    fn hidden(&self, pyramid: &[Tensor], boxes: &[BBox], images: &[u32]) -> Result<Tensor> {
        let (hidden, pooled) = self.hidden_by_level(pyramid, boxes, images)?;
        Ok(hidden.index_select(&Tensor::new(pooled.position, pyramid[0].device())?, 0)?)
    }

    /// Returns fc7's output with the rows in the order of pooling, so that training needs no gradient of
    /// reordering.
    fn hidden_by_level(
        &self,
        pyramid: &[Tensor],
        boxes: &[BBox],
        images: &[u32],
    ) -> Result<(Tensor, Pooled)> {
        let pooled = self.pooler.pool(pyramid, &rows_of_four(boxes, &Device::Cpu)?, images)?;
        Ok((self.mlp.forward(&pooled.features)?, pooled))
    }

    /// Returns the features of the proposals, and every (proposal, class) pair with a score above the threshold.
    pub fn score(&self, pyramid: &[Tensor], proposals: &[Vec<Proposal>]) -> Result<ScoredProposals> {
        let flat = (0u32..).zip(proposals).flat_map(|(i, own)| own.iter().map(move |p| (i, p.bbox)));
        let (images, boxes): (Vec<u32>, Vec<BBox>) = flat.unzip();
        let hidden = self.hidden(pyramid, &boxes, &images)?;
        if boxes.is_empty() {
            // A softmax without rows is an error.
            return Ok(ScoredProposals { hidden, boxes, images, pairs: vec![], batch: proposals.len() });
        }
        let scores = candle_nn::ops::softmax(&self.class.forward(&hidden)?, D::Minus1)?;
        let scores = scores.flatten_all()?.to_vec1::<f32>()?;
        let mut pairs = Vec::new();
        for (row, scores) in scores.chunks_exact(self.num_classes).enumerate() {
            if let Some(bad) = scores.iter().find(|s| !s.is_finite()) {
                return Err(Error::input("box head", format!("a class score is {bad}")));
            }
            let sure = (1..self.num_classes).filter(|&label| scores[label] > self.config.score_threshold);
            pairs.extend(sure.map(|label| Pair { row, label, score: scores[label] }));
        }
        Ok(ScoredProposals { hidden, boxes, images, pairs, batch: proposals.len() })
    }

    /// Returns the coder of offsets from proposals.
    pub(crate) fn coder(&self) -> &BoxCoder {
        &self.coder
    }

    /// Returns Faster-RCNN's regressed offsets, one for each pair.
    pub fn offsets(&self, scored: &ScoredProposals) -> Result<Vec<[f32; 4]>> {
        if scored.pairs.is_empty() {
            return Ok(Vec::new());
        }
        let rows: Vec<u32> =
            scored.pairs.iter().map(|pair| (pair.row * self.num_classes + pair.label) as u32).collect();
        let offsets = self.offsets.forward(&scored.hidden)?.reshape(((), 4))?;
        let offsets = offsets.index_select(&Tensor::new(rows, offsets.device())?, 0)?.flatten_all()?;
        Ok(offsets.to_vec1::<f32>()?.as_chunks::<4>().0.to_vec())
    }

    /// Decodes `offsets`, one for each pair, to the boxes of each image, and clips these to `sizes`
    /// (height, width). Overlapping boxes are not suppressed.
    pub fn candidates(
        &self,
        scored: &ScoredProposals,
        offsets: &[[f32; 4]],
        sizes: &[(usize, usize)],
    ) -> Vec<Vec<Candidate>> {
        let mut candidates = vec![Vec::new(); scored.batch];
        for (&Pair { row, label, score }, offsets) in scored.pairs.iter().zip(offsets) {
            let image = scored.images[row] as usize;
            let (height, width) = sizes[image];
            let decoded = self.coder.decode(offsets, &scored.boxes[row]);
            let bbox = clip(&decoded, width as f32, height as f32, self.convention);
            let end = self.convention.offset();
            if (bbox[2] - bbox[0] + end).min(bbox[3] - bbox[1] + end) >= self.config.min_size {
                candidates[image].push(Candidate { bbox, label, score });
            }
        }
        candidates
    }

    /// Matches an image's proposals, together with its objects themselves, to the objects.
    fn assign(&self, proposals: &[Proposal], objects: &[BBox]) -> (Vec<BBox>, Vec<Match>) {
        let threshold = self.config.foreground;
        let matcher = Matcher {
            foreground: threshold,
            background: threshold,
            allow_low_quality: false,
            convention: self.convention,
        };
        let pool: Vec<BBox> = proposals.iter().map(|p| p.bbox).chain(objects.iter().copied()).collect();
        let matches = matcher.assign(&pool, objects);
        (pool, matches)
    }

    /// Returns the sampler of the proposals to train on.
    fn sampler(&self) -> BalancedSampler {
        BalancedSampler { size: self.config.sample_size, positive_fraction: self.config.positive_fraction }
    }

    /// Draws a balanced sample of the proposals and the objects themselves. `objects[i]` are the objects of
    /// image i.
    fn sample(&self, proposals: &[Vec<Proposal>], objects: &[Objects], rng: &mut dyn RngCore) -> Sample {
        let mut sample = Sample::default();
        for (image, (proposals, own)) in (0u32..).zip(proposals.iter().zip(objects)) {
            let Objects { boxes: objects, classes } = own;
            let (pool, matches) = self.assign(proposals, objects);
            let (positives, negatives) = self.sampler().sample(&matches, rng);
            for index in positives.into_iter().chain(negatives) {
                let label = match matches[index] {
                    Match::Object(object) => {
                        sample.foreground.push(sample.boxes.len());
                        sample.targets.push(self.coder.encode(&objects[object], &pool[index]));
                        classes[object]
                    }
                    _ => 0,
                };
                sample.labels.push(label as u32);
                sample.boxes.push(pool[index]);
                sample.images.push(image);
            }
        }
        sample
    }

    /// Returns all proposals of objects in one image. The densities of Table 2 are trained on samples that
    /// [`ForegroundPool::sample`] draws from them.
    pub fn foreground(
        &self,
        pyramid: &[Tensor],
        image: u32,
        proposals: &[Proposal],
        Objects { boxes: objects, classes }: &Objects,
    ) -> Result<ForegroundPool> {
        let (pool, matches) = self.assign(proposals, objects);
        let (mut boxes, mut labels, mut targets) = (vec![], vec![], vec![]);
        for (bbox, matched) in pool.iter().zip(&matches) {
            if let Match::Object(object) = matched {
                boxes.push(*bbox);
                labels.push(classes[*object] as u32);
                targets.push(self.coder.encode(&objects[*object], bbox));
            }
        }
        let hidden = self.hidden(pyramid, &boxes, &vec![image; boxes.len()])?.detach();
        Ok(ForegroundPool { matches, sampler: self.sampler(), hidden, labels, targets })
    }

    /// Returns the classification loss (mean cross-entropy), the box loss (sum of smooth-L1 over the sample's size)
    /// and the sample's size, for a balanced sample of the proposals and the objects themselves. `objects[i]` are
    /// the objects of image i.
    pub fn losses(
        &self,
        pyramid: &[Tensor],
        proposals: &[Vec<Proposal>],
        objects: &[Objects],
        rng: &mut dyn RngCore,
    ) -> Result<(Tensor, Tensor, usize)> {
        let sample = self.sample(proposals, objects, rng);
        let (total, device) = (sample.boxes.len(), pyramid[0].device());
        if total == 0 {
            let zero = Tensor::zeros((), pyramid[0].dtype(), device)?;
            return Ok((zero.clone(), zero, total));
        }
        let (hidden, Pooled { position, order, .. }) =
            self.hidden_by_level(pyramid, &sample.boxes, &sample.images)?;
        let labels: Vec<u32> = order.iter().map(|&i| sample.labels[i as usize]).collect();
        let labels = Tensor::new(labels, device)?;
        let class = candle_nn::loss::cross_entropy(&self.class.forward(&hidden)?, &labels)?;
        let offsets = self.offsets.forward(&hidden)?.reshape((total * self.num_classes, 4))?;
        if sample.foreground.is_empty() {
            return Ok((class, Tensor::zeros((), offsets.dtype(), device)?, total));
        }
        let row = |&i: &usize| position[i] * self.num_classes as u32 + sample.labels[i];
        let rows: Vec<u32> = sample.foreground.iter().map(row).collect();
        let predicted = offsets.index_select(&Tensor::new(rows, device)?, 0)?;
        let targets = rows_of_four(&sample.targets, device)?;
        let loss = ebm_core::loss::smooth_l1(&(predicted - targets)?, self.config.smooth_l1_beta)?;
        Ok((class, (loss.sum_all()? / total as f64)?, total))
    }
}

/// Sample of boxes to train the head on.
#[derive(Default)]
struct Sample {
    boxes: Vec<BBox>,
    images: Vec<u32>,
    /// Class of each box; 0 for the background.
    labels: Vec<u32>,
    /// Indices of the boxes that are matched to objects.
    foreground: Vec<usize>,
    /// Offsets from these boxes to their objects.
    targets: Vec<[f32; 4]>,
}
