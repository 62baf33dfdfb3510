//! Confidence branch: f(x, y) of a box y, class by class (Section 4.1; supplement, "Ours").
//!
//! PrRoIPool pools the features of the box, two fully-connected layers (initialised from the box head's) process
//! them, and a last layer outputs one number per class. Trained with Eq. 4, this number is log p(y|x) up to a
//! constant; trained to predict the IoU, the branch is IoU-Net*.

use std::sync::Arc;

use candle_core::{Device, Tensor};
use candle_nn::{Init, VarBuilder};
use ebm_core::{BoxSpace, EdgeSpace, EnergyModel, TargetSpace};
use ebm_experiment::config::Setting;
use ebm_nn::onnx::{Graph, Value};
use ebm_ops::boxes::{BBox, BoxConvention, paired_iou};
use ebm_ops::device::Precision;
use ebm_ops::nhwc::channels_last;
use ebm_ops::nn::{Prepared, are_constant, is_packable};
use serde::{Deserialize, Serialize};

use crate::box_head::TwoMlpHead;
use crate::config::DetectorConfig;
use crate::layers::rows_of_four;
use crate::packed_head::{NeedsGradient, PackedHead};
use crate::pooler::{Pooler, Pooling, View};
use crate::{Error, Result};

/// Coordinates of y.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Coordinates {
    /// Coordinates of the paper: [`BoxSpace`].
    Relative,
    /// Coordinates of IoU-Net: [`EdgeSpace`].
    Edges,
}

impl Setting for Coordinates {}

/// Target space of some objects, given by their sizes.
enum Space {
    Relative(BoxSpace),
    Edges(EdgeSpace),
}

impl Space {
    fn new(coordinates: Coordinates, boxes: &Tensor) -> Result<Self> {
        Ok(match coordinates {
            Coordinates::Relative => Self::Relative(BoxSpace::new(boxes)?),
            Coordinates::Edges => Self::Edges(EdgeSpace::new(boxes)?),
        })
    }

    fn target_space(&self) -> &dyn TargetSpace {
        match self {
            Self::Relative(space) => space,
            Self::Edges(space) => space,
        }
    }
}

/// Bound of all corners, in pixels. The exponential of a finite log w may be infinite, and f is constant outside the
/// image.
const REACH: f32 = 1e7;

/// Returns B boxes in a convention, plus its `ends`, as boxes with exclusive ends, `(B, 1, 4)` on the CPU.
fn continuous(boxes: &[BBox], ends: &Tensor) -> Result<Tensor> {
    Ok(rows_of_four(boxes, &Device::Cpu)?.unsqueeze(1)?.broadcast_add(ends)?)
}

/// Features of images and of B objects, computed once for all y.
pub struct BoxFeatures {
    /// Pyramid levels, as P2 … P6; on the CPU with the channels innermost, where pooling reads them in place.
    pyramid: Vec<Tensor>,
    /// Image of each object.
    images: Vec<u32>,
    /// Class of each object.
    labels: Vec<u32>,
    /// Boxes with exclusive ends, `(B, 1, 4)`. Boxes and their space are always on the CPU.
    boxes: Tensor,
    space: Space,
    /// Differences of the corners with exclusive ends and those in the convention, `(4)`.
    ends: Tensor,
}

impl BoxFeatures {
    /// Creates the features of `boxes[i]`, of class `labels[i]` in image `images[i]` of the pyramid. The size of
    /// `boxes[i]` is object i's reference size: use the ground truth in training, the initial box in prediction.
    /// The pyramid is detached. All y are on the CPU, even if the maps are on a GPU.
    ///
    /// # Errors
    /// When there is no box, or a box has no extent.
    pub fn new(
        pyramid: &[Tensor],
        images: Vec<u32>,
        labels: Vec<u32>,
        boxes: &[BBox],
        convention: BoxConvention,
    ) -> Result<Self> {
        Self::with_history(&Self::readable(pyramid)?, images, labels, boxes, convention)
    }

    /// Creates the features as [`new`](Self::new), without detaching the pyramid, so that its layers are trained.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_history(
        pyramid: &[Tensor],
        images: Vec<u32>,
        labels: Vec<u32>,
        boxes: &[BBox],
        convention: BoxConvention,
    ) -> Result<Self> {
        let pyramid = pyramid.iter().map(|level| Ok(channels_last(level)?)).collect::<Result<_>>()?;
        let end = convention.offset();
        let ends = Tensor::new(&[0.0, 0.0, end, end], &Device::Cpu)?;
        let boxes = continuous(boxes, &ends)?;
        let space = Space::new(Coordinates::Relative, &boxes)?;
        Ok(Self { pyramid, images, labels, boxes, space, ends })
    }

    /// Returns the features of the same objects with y in `coordinates`.
    pub fn in_coordinates(self, coordinates: Coordinates) -> Result<Self> {
        Ok(Self { space: Space::new(coordinates, &self.boxes)?, ..self })
    }

    /// Returns the detached pyramid with the channels innermost.
    pub(crate) fn readable(pyramid: &[Tensor]) -> Result<Vec<Tensor>> {
        pyramid.iter().map(|level| Ok(channels_last(&level.detach())?)).collect()
    }

    /// Returns the gradient in `y (B, M, 4)`, given the gradient `corners` in [`corners`](Self::corners).
    pub(crate) fn pull_back(&self, y: &Tensor, corners: &Tensor) -> Result<Tensor> {
        Ok(match &self.space {
            Space::Relative(space) => space.decode_gradient(y, corners)?,
            Space::Edges(space) => space.decode_gradient(corners)?,
        })
    }

    /// Returns the boxes themselves as points of target space, `(B, 1, 4)`.
    pub fn targets(&self) -> Result<Tensor> {
        Ok(self.space.target_space().encode(&self.boxes)?)
    }

    /// Returns other boxes of the objects, one for each, as points of target space, `(B, 1, 4)`.
    pub(crate) fn encode(&self, boxes: &[BBox]) -> Result<Tensor> {
        Ok(self.space.target_space().encode(&continuous(boxes, &self.ends)?)?)
    }

    /// Returns the corners of `y (B, M, 4)` in the convention, `(B, M, 4)`; differentiable.
    pub fn corners(&self, y: &Tensor) -> Result<Tensor> {
        Ok(self.continuous_corners(y)?.broadcast_sub(&self.ends)?)
    }

    /// Returns the corners of `y (B, M, 4)` with exclusive ends in any convention, `(B, M, 4)`; differentiable.
    pub fn continuous_corners(&self, y: &Tensor) -> Result<Tensor> {
        Ok(self.space.target_space().decode(y)?.clamp(-REACH, REACH)?)
    }

    /// Returns the IoU of `y (B, M, 4)` with `y_i (B, 4)`, as continuous areas in either convention; `(B, M)`.
    fn overlap(&self, y: &Tensor, y_i: &Tensor) -> Result<Tensor> {
        let corners = self.continuous_corners(y)?;
        let target = self.continuous_corners(&y_i.unsqueeze(1)?)?.squeeze(1)?;
        Ok(paired_iou(&corners, &target)?)
    }
}

/// Sizes of an [`EnergyHead`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadSizes {
    /// Channels of the maps that are pooled from.
    pub channels: usize,
    /// Width of fc6 and fc7.
    pub representation: usize,
    /// Number of classes, K; 1 for a class-agnostic f.
    pub classes: usize,
}

/// Head that computes f(x, y) of boxes y in the coordinates of the features.
#[derive(Clone)]
pub struct EnergyHead {
    pooler: Pooler,
    mlp: TwoMlpHead,
    /// Weight of the last layer, `(K, representation)`, one row per class.
    weight: Tensor,
    /// Bias of the last layer, `(K)`.
    bias: Tensor,
    /// Precision of fc6 and fc7 in prediction on the CPU.
    precision: Precision,
    prepared: Prepared<PackedHead>,
    /// Layers fc6 and fc7 for pooled boxes with the channels innermost.
    innermost: Prepared<TwoMlpHead>,
}

impl EnergyHead {
    /// Creates the head of a detector. Its parameters are `energy_head.fc6|fc7` and `energy_predictor.weight|bias`
    /// under `vb`; the predictor's weights are drawn from N(0, 0.001²).
    pub fn new(config: &DetectorConfig, vb: VarBuilder) -> Result<Self> {
        let (channels, representation) = (config.backbone.fpn_channels, config.roi.representation);
        let sizes = HeadSizes { channels, representation, classes: config.num_classes };
        Self::over(Pooler::new(config, Pooling::PrRoi), sizes, vb)
    }

    /// Creates a head of these `sizes` for boxes that `pooler` pools by PrRoIPool; parameters as in
    /// [`new`](Self::new).
    pub fn over(pooler: Pooler, sizes: HeadSizes, vb: VarBuilder) -> Result<Self> {
        let HeadSizes { channels, representation, classes } = sizes;
        let predictor = vb.pp("energy_predictor");
        let init = Init::Randn { mean: 0.0, stdev: 0.001 };
        let input = pooler.output_len(channels);
        Ok(Self {
            mlp: TwoMlpHead::new(input, representation, vb.pp("energy_head"))?,
            weight: predictor.get_with_hints((classes, representation), "weight", init)?,
            bias: predictor.get_with_hints(classes, "bias", Init::Const(0.0))?,
            pooler,
            precision: Precision::default(),
            prepared: Prepared::new(),
            innermost: Prepared::new(),
        })
    }

    /// Returns the head whose fc6 and fc7 compute with this `precision` in prediction on the CPU, if its parameters
    /// are constant. Training and GPUs are unaffected.
    #[must_use]
    pub fn in_precision(self, precision: Precision) -> Self {
        Self { precision, prepared: Prepared::new(), ..self }
    }

    fn is_constant(&self) -> bool {
        are_constant(self.mlp.parameters().chain([&self.weight, &self.bias]))
    }

    /// Returns the packed head if it can evaluate `y`: with constant parameters, f32, and the CPU.
    fn packed(&self, y: &Tensor) -> Result<Option<Arc<PackedHead>>> {
        if !is_packable(y) || !is_packable(&self.weight) || !self.is_constant() {
            return Ok(None);
        }
        let layers = || self.mlp.pack(&self.bins(), self.precision);
        let packed = || PackedHead::new(self.pooler.clone(), layers()?, &self.weight, &self.bias);
        self.prepared.get(packed).map(Some)
    }

    /// Returns the number of bins of each view.
    fn bins(&self) -> Vec<usize> {
        self.pooler.views().iter().map(View::len).collect()
    }

    /// Returns the corners of `y (B, M, 4)`, `(B·M, 4)` on the CPU, and the image and the class of each box.
    fn boxes(&self, features: &BoxFeatures, y: &Tensor) -> Result<(Tensor, Vec<u32>, Vec<u32>)> {
        let (b, m, _) = y.dims3()?;
        let boxes = features.corners(&y.to_device(&Device::Cpu)?)?.reshape((b * m, 4))?;
        if let Some(&label) = features.labels.iter().find(|&&label| label as usize >= self.classes()) {
            let reason = format!("a box is of class {label}, the branch knows {}", self.classes());
            return Err(Error::config("num_classes", reason));
        }
        let of_each = |of: &[u32]| of.iter().flat_map(|&of| std::iter::repeat_n(of, m)).collect();
        Ok((boxes, of_each(&features.images), of_each(&features.labels)))
    }

    /// Computes f, `(B, M)`; differentiable.
    fn confidence(&self, features: &BoxFeatures, y: &Tensor) -> Result<Tensor> {
        let (b, m, _) = y.dims3()?;
        let (boxes, images, labels) = self.boxes(features, y)?;
        let pooled = self.pooler.pool(&features.pyramid, &boxes, &images)?;
        let labels: Vec<u32> = pooled.order.iter().map(|&i| labels[i as usize]).collect();
        let labels = Tensor::new(labels, self.weight.device())?.unsqueeze(1)?;
        let hidden = self.mlp.forward(&pooled.features)?;
        let f = ebm_ops::linear(&hidden, &self.weight, Some(&self.bias))?.gather(&labels, 1)?.squeeze(1)?;
        let f = f.to_device(&Device::Cpu)?.index_select(&Tensor::new(pooled.position, &Device::Cpu)?, 0)?;
        Ok(f.reshape((b, m))?.to_device(y.device())?)
    }

    /// Computes f, `(B, M)`, without autograd, and with `needs_gradient` its gradient in y. The gradient is propagated
    /// by hand, because autograd would also compute the weights' gradients.
    fn by_hand(
        &self,
        features: &BoxFeatures,
        y: &Tensor,
        needs_gradient: Option<NeedsGradient<'_>>,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let (b, m, _) = y.dims3()?;
        let host = y.detach().to_device(&Device::Cpu)?;
        let (boxes, images, labels) = self.boxes(features, &host)?;
        let (f, corners) = match self.packed(y)? {
            Some(packed) => packed.evaluate(&features.pyramid, &boxes, &images, &labels, needs_gradient)?,
            None => self.evaluate(&features.pyramid, &boxes, &images, &labels, needs_gradient.is_some())?,
        };
        let in_y = |corners: Tensor| -> Result<Tensor> {
            let gradient = features.pull_back(&host, &corners.reshape((b, m, 4))?)?;
            Ok(gradient.to_device(y.device())?)
        };
        let gradient = corners.map(in_y).transpose()?;
        // f is read last, because reading it waits for everything started on a GPU.
        Ok((f.to_device(y.device())?.reshape((b, m))?, gradient))
    }

    /// Computes f of the `boxes`, `(R)`, and with `with_gradient` its gradient in their corners, `(R, 4)` on the CPU.
    /// Constant weights are reordered once to the pooling's layout; otherwise the pooled boxes are reordered.
    fn evaluate(
        &self,
        pyramid: &[Tensor],
        boxes: &Tensor,
        images: &[u32],
        labels: &[u32],
        with_gradient: bool,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let labels = Tensor::new(labels, self.weight.device())?;
        let prepared = self.pooler.prepare(pyramid, boxes, images)?;
        let (mut pooled, mut columns) = (prepared.pool()?, None);
        let layers = if self.is_constant() {
            self.innermost.get(|| self.mlp.channels_innermost(&self.bins()))?
        } else {
            let outside = self.mlp.columns(&self.bins())?;
            let mut innermost = vec![0u32; outside.len()];
            (0u32..).zip(&outside).for_each(|(input, column)| innermost[*column as usize] = input);
            pooled = pooled.index_select(&Tensor::new(innermost, pooled.device())?, 1)?;
            columns = Some(Tensor::new(outside, pooled.device())?);
            Arc::new(self.mlp.detached())
        };
        let [hidden, output] = layers.activations(&pooled)?;
        let f = ebm_ops::heads::linear_at(&output, &self.weight, &self.bias, &labels)?;
        if !with_gradient {
            return Ok((f, None));
        }
        let gradient = ebm_ops::heads::linear_at_gradient(&output, &self.weight, &labels)?;
        let mut gradient = layers.input_gradient(&hidden, &gradient)?;
        if let Some(columns) = columns {
            gradient = gradient.index_select(&columns, 1)?;
        }
        Ok((f, Some(prepared.box_gradient(&gradient)?)))
    }

    /// Adds f of `boxes (R, 4)` for every class, (R, K), to an ONNX graph.
    pub(crate) fn onnx(&self, graph: &mut Graph, levels: &[Value], boxes: &Value) -> Result<Value> {
        let pooled = self.pooler.onnx(graph, levels, boxes)?;
        let hidden = self.mlp.onnx(graph, &pooled)?;
        Ok(graph.linear(&hidden, &self.weight, Some(&self.bias))?)
    }

    /// Returns the number of classes, K.
    pub(crate) fn classes(&self) -> usize {
        self.bias.elem_count()
    }
}

impl EnergyModel for EnergyHead {
    type Features = BoxFeatures;

    fn score(&self, features: &BoxFeatures, y: &Tensor) -> ebm_core::Result<Tensor> {
        let is_constant = self.is_constant() && are_constant(features.pyramid.iter().chain([y]));
        let f = if is_constant {
            self.by_hand(features, y, None).map(|(f, _)| f)
        } else {
            self.confidence(features, y)
        };
        f.map_err(ebm_core::Error::model)
    }

    fn score_and_grad(&self, features: &BoxFeatures, y: &Tensor) -> ebm_core::Result<(Tensor, Tensor)> {
        self.score_and_grad_where(features, y, &|_, _| true)
    }

    fn score_and_grad_where(
        &self,
        features: &BoxFeatures,
        y: &Tensor,
        needs_gradient: &dyn Fn(usize, f64) -> bool,
    ) -> ebm_core::Result<(Tensor, Tensor)> {
        let (f, gradient) =
            self.by_hand(features, y, Some(needs_gradient)).map_err(ebm_core::Error::model)?;
        Ok((f, gradient.ok_or(ebm_core::Error::NoGradient)?))
    }

    /// Returns the IoU of `y` with `y_i`, as continuous areas in either convention.
    fn quality(&self, features: &BoxFeatures, y: &Tensor, y_i: &Tensor) -> ebm_core::Result<Tensor> {
        features.overlap(y, y_i).map_err(ebm_core::Error::model)
    }
}
