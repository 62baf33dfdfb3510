//! Faster-RCNN with a feature pyramid: backbone, region proposal network and box head.

use candle_core::{DType, Tensor};
use candle_nn::VarBuilder;
use ebm_nn::fpn::Fpn;
use ebm_ops::{
    boxes::{BBox, batched_nms},
    nn::is_packable,
};
use ebm_train::{Loss, LossPart};
use rand::RngCore;

use crate::{
    Result,
    body::{Body, BodyForm},
    box_head::{BoxHead, Candidate, ScoredProposals},
    config::DetectorConfig,
    parametric_head::ForegroundPool,
    rpn::{Proposal, Rpn, RpnOutput},
};

/// A batch as the network takes it.
pub struct ImageBatch {
    /// `(N, 3, H, W)`, normalised, padded to multiples of 32; of no extent where the images' maps are kept in
    /// their place.
    pub pixels: Tensor,
    /// (height, width) of each image without the padding.
    pub sizes: Vec<(usize, usize)>,
}

/// What the detector is trained on: the objects of an image.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {
    /// In input pixels.
    pub boxes: Vec<BBox>,
    /// Of each box, its class.
    pub classes: Vec<usize>,
}

impl Objects {
    /// Those at these places, in their order.
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

/// The detector; parameter names are torchvision's.
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
        let form = BodyForm::of_detector(&config.backbone)?;
        let fpn = Fpn::new(&form.channels(), config.backbone.fpn_channels, vb.pp("backbone.fpn"))?;
        Ok(Self {
            body: Body::new(form, &vb)?,
            fpn,
            rpn: Rpn::new(config, vb.pp("rpn"))?,
            box_head: BoxHead::new(config, vb.pp("roi_heads"))?,
            config: config.clone(),
        })
    }

    /// C2 … C5 of `(N, 3, H, W)` with the channels innermost: `(N, H/4, W/4, C)` to `(N, H/32, W/32, C)`.
    pub fn body(&self, pixels: &Tensor, train: bool) -> Result<Vec<Tensor>> {
        // Without training the CPU multiplies maps of any type as f32.
        if !train && is_packable(pixels) {
            return self.body.maps(pixels, false);
        }
        self.body.maps(&pixels.to_dtype(self.config.backbone.maps.dtype())?, train)
    }

    /// The pyramid P2 … P6, `(N, C, H/4, W/4)` to `(N, C, H/64, W/64)`: g_x of the paper, computed once per
    /// image. Without training, a frozen detector keeps packed weights, and the levels are stored with the
    /// channels innermost.
    pub fn features(&self, pixels: &Tensor, train: bool) -> Result<Vec<Tensor>> {
        self.levels(&self.body(pixels, train)?)
    }

    /// P2 … P6 from C2 … C5 that were computed before.
    pub fn pyramid(&self, stages: &[Tensor]) -> Result<Vec<Tensor>> {
        let maps = self.config.backbone.maps.dtype();
        let stages = stages.iter().map(|stage| stage.to_dtype(maps));
        self.levels(&stages.collect::<candle_core::Result<Vec<_>>>()?)
    }

    fn levels(&self, stages: &[Tensor]) -> Result<Vec<Tensor>> {
        let level = |level: &Tensor| Ok(ebm_ops::nhwc::to_nchw(level)?.to_dtype(DType::F32)?);
        self.fpn.forward_channels_last(stages)?.iter().map(level).collect()
    }

    /// Proposals of each image at inference, best first.
    pub fn proposals(&self, pyramid: &[Tensor], images: &ImageBatch) -> Result<Vec<Vec<Proposal>>> {
        let output = self.rpn_output(pyramid)?;
        self.rpn.proposals(&output, &images.sizes, false)
    }

    /// What the box head sees in the proposals.
    pub fn scored(&self, pyramid: &[Tensor], images: &ImageBatch) -> Result<ScoredProposals> {
        self.score(pyramid, &self.proposals(pyramid, images)?)
    }

    /// The same of each image's `proposals`.
    pub fn score(&self, pyramid: &[Tensor], proposals: &[Vec<Proposal>]) -> Result<ScoredProposals> {
        self.box_head.score(pyramid, proposals)
    }

    /// The pairs of each image as boxes, before suppression, with the `offsets` of a
    /// [`ParametricHead`](crate::ParametricHead) or Faster-RCNN's own.
    pub fn decode(
        &self,
        scored: &ScoredProposals,
        offsets: Option<&[[f32; 4]]>,
        images: &ImageBatch,
    ) -> Result<Vec<Vec<Candidate>>> {
        let own = if offsets.is_none() { self.box_head.offsets(scored)? } else { vec![] };
        Ok(self.box_head.candidates(scored, offsets.unwrap_or(&own), &images.sizes))
    }

    /// Every (proposal, class) pair above the score threshold as Faster-RCNN's regression places it, before
    /// suppression.
    pub fn candidates(&self, pyramid: &[Tensor], images: &ImageBatch) -> Result<Vec<Vec<Candidate>>> {
        self.decode(&self.scored(pyramid, images)?, None, images)
    }

    /// The proposals of objects in each image, as in training, with what the frozen box head sees in them.
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

    /// The four losses of one batch with the pyramid given: is there an object at an anchor, offsets from anchors, the
    /// class of a proposal, offsets from proposals. The anchors and proposals trained on are drawn with `rng`.
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

    /// Faster-RCNN's own detections: suppression per class, the best by score. This is the paper's Direct.
    pub fn suppress(&self, candidates: &[Candidate]) -> Result<Vec<Candidate>> {
        let boxes: Vec<BBox> = candidates.iter().map(|c| c.bbox).collect();
        let scores: Vec<f32> = candidates.iter().map(|c| c.score).collect();
        let labels: Vec<usize> = candidates.iter().map(|c| c.label).collect();
        let kept = batched_nms(&boxes, &scores, &labels, self.config.roi.nms, self.config.convention.into())?;
        Ok(kept.into_iter().take(self.config.roi.max_detections).map(|i| candidates[i]).collect())
    }

    /// The configuration that the network was built with.
    pub fn config(&self) -> &DetectorConfig {
        &self.config
    }

    fn rpn_output(&self, pyramid: &[Tensor]) -> Result<RpnOutput> {
        let finest = pyramid.first().map_or(Ok((0, 0)), |level| level.dims4().map(|(_, _, h, w)| (h, w)))?;
        let stride = DetectorConfig::STRIDES[0];
        self.rpn.forward(pyramid, (stride * finest.0, stride * finest.1))
    }
}
