//! Faster-RCNN with a feature pyramid: backbone, region proposal network and box head.

use candle_core::{DType, Tensor};
use candle_nn::VarBuilder;
use ebm_nn::fpn::Fpn;
use ebm_ops::boxes::{BBox, batched_nms};
use ebm_ops::nn::is_packable;
use ebm_train::{Loss, LossPart};
use rand::RngCore;

use crate::Result;
use crate::body::{Body, BodySpec};
use crate::box_head::{BoxHead, Candidate, ScoredProposals};
use crate::config::DetectorConfig;
use crate::parametric_head::ForegroundPool;
use crate::rpn::{Proposal, Rpn, RpnOutput};

/// Batch of images, the network's input.
pub struct ImageBatch {
    /// Pixels `(N, 3, H, W)`, normalised and padded to multiples of 32; with H = W = 0 if cached maps replace them.
    pub pixels: Tensor,
    /// Size (height, width) of each image without the padding.
    pub sizes: Vec<(usize, usize)>,
}

/// Annotated objects of an image, which the detector is trained on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {
    /// Boxes, in pixels of the network's input.
    pub boxes: Vec<BBox>,
    /// Class of each box.
    pub classes: Vec<usize>,
}

impl Objects {
    /// Returns the objects at the indices `places`, in their original order.
    pub(crate) fn chosen(&self, mut places: Vec<usize>) -> Self {
        places.sort_unstable();
        places.into_iter().map(|i| (self.boxes[i], self.classes[i])).collect()
    }
}

impl FromIterator<(BBox, usize)> for Objects {
    fn from_iter<I: IntoIterator<Item = (BBox, usize)>>(objects: I) -> Self {
        let (boxes, classes) = objects.into_iter().unzip();
        Self { boxes, classes }
    }
}

/// Faster-RCNN with FPN; parameter names are torchvision's.
pub struct FasterRcnn {
    body: Body,
    fpn: Fpn,
    rpn: Rpn,
    box_head: BoxHead,
    config: DetectorConfig,
}

impl FasterRcnn {
    /// Builds the network from `vb`'s parameters.
    pub fn new(config: &DetectorConfig, vb: VarBuilder) -> Result<Self> {
        let spec = BodySpec::of_detector(&config.backbone)?;
        let fpn = Fpn::new(&spec.channels(), config.backbone.fpn_channels, vb.pp("backbone.fpn"))?;
        Ok(Self {
            body: Body::new(spec, &vb)?,
            fpn,
            rpn: Rpn::new(config, vb.pp("rpn"))?,
            box_head: BoxHead::new(config, vb.pp("roi_heads"))?,
            config: config.clone(),
        })
    }

    /// Computes the body's maps C2 … C5 of `pixels (N, 3, H, W)`, with the channels innermost: `(N, H/4, W/4, C)` to
    /// `(N, H/32, W/32, C)`.
    pub fn body(&self, pixels: &Tensor, train: bool) -> Result<Vec<Tensor>> {
        // In prediction the CPU always computes with f32.
        if !train && is_packable(pixels) {
            return self.body.maps(pixels, false);
        }
        self.body.maps(&pixels.to_dtype(self.config.backbone.maps.dtype())?, train)
    }

    /// Computes the pyramid P2 … P6, `(N, C, H/4, W/4)` to `(N, C, H/64, W/64)`: g_x of the paper, computed once per
    /// image. In prediction, a frozen detector keeps packed weights, and the levels are stored with the channels
    /// innermost.
    pub fn features(&self, pixels: &Tensor, train: bool) -> Result<Vec<Tensor>> {
        self.levels(&self.body(pixels, train)?)
    }

    /// Computes the pyramid P2 … P6 from the body's maps C2 … C5, `stages`.
    pub fn pyramid(&self, stages: &[Tensor]) -> Result<Vec<Tensor>> {
        let maps = self.config.backbone.maps.dtype();
        let stages = stages.iter().map(|stage| stage.to_dtype(maps));
        self.levels(&stages.collect::<candle_core::Result<Vec<_>>>()?)
    }

    fn levels(&self, stages: &[Tensor]) -> Result<Vec<Tensor>> {
        let level = |level: &Tensor| Ok(ebm_ops::nhwc::to_nchw(level)?.to_dtype(DType::F32)?);
        self.fpn.forward_channels_last(stages)?.iter().map(level).collect()
    }

    /// Returns the proposals of each image in prediction, best first.
    pub fn proposals(&self, pyramid: &[Tensor], images: &ImageBatch) -> Result<Vec<Vec<Proposal>>> {
        let output = self.rpn_output(pyramid)?;
        self.rpn.proposals(&output, &images.sizes, false)
    }

    /// Returns the proposals of all images with their features and class scores.
    pub fn scored(&self, pyramid: &[Tensor], images: &ImageBatch) -> Result<ScoredProposals> {
        self.score(pyramid, &self.proposals(pyramid, images)?)
    }

    /// Computes the features and class scores of each image's `proposals`.
    pub fn score(&self, pyramid: &[Tensor], proposals: &[Vec<Proposal>]) -> Result<ScoredProposals> {
        self.box_head.score(pyramid, proposals)
    }

    pub(crate) fn box_head(&self) -> &BoxHead {
        &self.box_head
    }

    /// Returns the boxes of each image's pairs, before suppression, by the `offsets` of a
    /// [`ParametricHead`](crate::ParametricHead), or else Faster-RCNN's own.
    pub fn decode(
        &self,
        scored: &ScoredProposals,
        offsets: Option<&[[f32; 4]]>,
        images: &ImageBatch,
    ) -> Result<Vec<Vec<Candidate>>> {
        let own = if offsets.is_none() { self.box_head.offsets(scored)? } else { vec![] };
        Ok(self.box_head.candidates(scored, offsets.unwrap_or(&own), &images.sizes))
    }

    /// Returns Faster-RCNN's boxes of every (proposal, class) pair above the score threshold, before suppression.
    pub fn candidates(&self, pyramid: &[Tensor], images: &ImageBatch) -> Result<Vec<Vec<Candidate>>> {
        self.decode(&self.scored(pyramid, images)?, None, images)
    }

    /// Returns the proposals of objects in each image, as in training, with their features from the frozen box head.
    pub fn foreground(
        &self,
        pyramid: &[Tensor],
        images: &ImageBatch,
        objects: &[Objects],
    ) -> Result<Vec<ForegroundPool>> {
        let output = self.rpn_output(pyramid)?;
        let proposals = self.rpn.proposals(&output, &images.sizes, true)?;
        let of_image = |(image, (proposals, objects)): (u32, (&Vec<Proposal>, &Objects))| {
            self.box_head.foreground(pyramid, image, proposals, objects)
        };
        (0u32..).zip(proposals.iter().zip(objects)).map(of_image).collect()
    }

    /// Computes the four losses of one batch with a given `pyramid`: objectness and offsets of anchors, class and
    /// offsets of proposals. The anchors and proposals to train on are drawn with `rng`.
    pub fn losses(
        &self,
        pyramid: &[Tensor],
        images: &ImageBatch,
        objects: &[Objects],
        rng: &mut dyn RngCore,
    ) -> Result<Loss> {
        let output = self.rpn_output(pyramid)?;
        let boxes: Vec<Vec<BBox>> = objects.iter().map(|of_image| of_image.boxes.clone()).collect();
        let (objectness, rpn_box, anchors) = self.rpn.losses(&output, &boxes, rng)?;
        let proposals = self.rpn.proposals(&output, &images.sizes, true)?;
        let (classifier, box_reg, proposals) = self.box_head.losses(pyramid, &proposals, objects, rng)?;
        let parts = [
            ("objectness", objectness, anchors),
            ("rpn_box", rpn_box, anchors),
            ("classifier", classifier, proposals),
            ("box_reg", box_reg, proposals),
        ];
        Ok(Loss::sum(parts.map(|(name, value, terms)| LossPart { name: Some(name), value, terms })))
    }

    /// Returns Faster-RCNN's own detections: the best by score after suppression per class. The paper calls this
    /// method Direct.
    pub fn suppress(&self, candidates: &[Candidate]) -> Result<Vec<Candidate>> {
        let boxes: Vec<BBox> = candidates.iter().map(|c| c.bbox).collect();
        let scores: Vec<f32> = candidates.iter().map(|c| c.score).collect();
        let labels: Vec<usize> = candidates.iter().map(|c| c.label).collect();
        let kept = batched_nms(&boxes, &scores, &labels, self.config.roi.nms, self.config.convention)?;
        Ok(kept.into_iter().take(self.config.roi.max_detections).map(|i| candidates[i]).collect())
    }

    /// Returns the configuration that the network was built with.
    pub fn config(&self) -> &DetectorConfig {
        &self.config
    }

    fn rpn_output(&self, pyramid: &[Tensor]) -> Result<RpnOutput> {
        let finest = pyramid.first().map_or(Ok((0, 0)), |level| level.dims4().map(|(_, _, h, w)| (h, w)))?;
        let stride = DetectorConfig::STRIDES[0];
        self.rpn.forward(pyramid, (stride * finest.0, stride * finest.1))
    }
}
