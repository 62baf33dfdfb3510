//! The confidence branch: f(x, y) of a box y, class by class (Section 4.1; supplement, "Ours").
//!
//! PrRoIPool takes the features under the box, two fully-connected layers (started from the box head's) describe
//! them, and a last layer gives one number per class. Trained with Eq. 4 that number is log p(y|x) up to a constant;
//! trained towards the IoU it is IoU-Net*.

use candle_core::{DType, Device, Tensor};
use candle_nn::{Init, VarBuilder};
use ebm_core::{BoxSpace, EdgeSpace, EnergyModel, TargetSpace};
use ebm_nn::boxes::{BBox, BoxConvention, paired_iou};
use ebm_nn::ops::{self, channels_last};
use serde::{Deserialize, Serialize};

use crate::{
    box_head::TwoMlpHead,
    config::DetectorConfig,
    error::{Error, Result},
    layers::rows_of_four,
    packed_head::PackedEnergyHead,
    pooler::{Pooled, Pooler, Pooling},
};

/// What y means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Coordinates {
    /// The paper's: [`BoxSpace`].
    Relative,
    /// IoU-Net's: [`EdgeSpace`].
    Edges,
}

/// The space of the objects' sizes.
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

/// No box reaches further, in pixels: the exponential of a finite log w may be none, and where no image is, f is the same
/// everywhere.
const REACH: f32 = 1e7;

/// What f needs of the image and of B objects; computed once for all y.
pub struct BoxFeatures {
    /// P2 … P6; on the CPU with the channels innermost, where pooling reads them in place.
    pyramid: Vec<Tensor>,
    /// Image of each object.
    images: Vec<u32>,
    /// Class of each object.
    labels: Vec<u32>,
    /// The boxes with exclusive ends, `(B, 1, 4)`, and the space of their sizes: a few numbers, on the CPU wherever the maps are.
    boxes: Tensor,
    space: Space,
    /// What the convention takes off both ends of such a box, `(4)`.
    ends: Tensor,
}

impl BoxFeatures {
    /// `boxes[i]`, of class `labels[i]` in image `images[i]` of the pyramid, gives object i's reference size: the
    /// ground truth in training, the initial box in prediction. The pyramid's history is dropped. All y are on the CPU, also
    /// where the maps are on a GPU: what is made of them there are the boxes to pool.
    ///
    /// # Errors
    /// When there is no box, or one without extent.
    pub fn new(
        pyramid: &[Tensor],
        images: Vec<u32>,
        labels: Vec<u32>,
        boxes: &[BBox],
        convention: BoxConvention,
    ) -> Result<Self> {
        let device = &Device::Cpu;
        let end = convention.offset();
        let ends = Tensor::new(&[0.0, 0.0, end, end], device)?;
        let boxes = rows_of_four(boxes, device)?.unsqueeze(1)?.broadcast_add(&ends)?;
        let space = Space::new(Coordinates::Relative, &boxes)?;
        Ok(Self { pyramid: Self::readable(pyramid)?, images, labels, boxes, space, ends })
    }

    /// The same objects with y in these coordinates.
    pub fn in_coordinates(self, coordinates: Coordinates) -> Result<Self> {
        Ok(Self { space: Space::new(coordinates, &self.boxes)?, ..self })
    }

    /// The pyramid without its history, with the channels innermost.
    pub(crate) fn readable(pyramid: &[Tensor]) -> Result<Vec<Tensor>> {
        pyramid.iter().map(|level| Ok(channels_last(&level.detach())?)).collect()
    }

    /// P2 … P6.
    pub(crate) fn levels(&self) -> &[Tensor] {
        &self.pyramid
    }

    /// Image and class of object `i`.
    pub(crate) fn object(&self, i: usize) -> (u32, u32) {
        (self.images[i], self.labels[i])
    }

    /// The gradient in `y (B, M, 4)`, given the one in [`corners`](Self::corners).
    pub(crate) fn pull_back(&self, y: &Tensor, corners: &Tensor) -> Result<Tensor> {
        Ok(match &self.space {
            Space::Relative(space) => space.decode_gradient(y, corners)?,
            Space::Edges(space) => space.decode_gradient(corners)?,
        })
    }

    /// The boxes themselves as points of target space, `(B, 1, 4)`.
    pub fn targets(&self) -> Result<Tensor> {
        Ok(self.space.target_space().encode(&self.boxes)?)
    }

    /// Corners in the convention's form, `(B, M, 4)`, of `y (B, M, 4)`; differentiable.
    pub fn corners(&self, y: &Tensor) -> Result<Tensor> {
        Ok(self.continuous_corners(y)?.broadcast_sub(&self.ends)?)
    }

    /// The same with exclusive ends, whatever the convention.
    pub fn continuous_corners(&self, y: &Tensor) -> Result<Tensor> {
        Ok(self.space.target_space().decode(y)?.clamp(-REACH, REACH)?)
    }

    /// The IoU of `y (B, M, 4)` with `y_i (B, 4)`, as continuous areas in either convention; `(B, M)`.
    fn overlap(&self, y: &Tensor, y_i: &Tensor) -> Result<Tensor> {
        let corners = self.continuous_corners(y)?;
        let target = self.continuous_corners(&y_i.unsqueeze(1)?)?.squeeze(1)?;
        Ok(paired_iou(&corners, &target)?)
    }
}

/// f(x, y) for boxes y in the coordinates of the features.
#[derive(Clone)]
pub struct EnergyHead {
    pooler: Pooler,
    trunk: TwoMlpHead,
    /// `(K, representation)`, one row per class.
    weight: Tensor,
    /// `(K)`.
    bias: Tensor,
}

impl EnergyHead {
    /// Parameters `energy_head.fc6|fc7` and `energy_predictor.weight|bias` under `vb`; the predictor is drawn from
    /// N(0, 0.001²).
    pub fn new(config: &DetectorConfig, vb: VarBuilder) -> Result<Self> {
        let pooler = Pooler::new(config, Pooling::PrRoi);
        let predictor = vb.pp("energy_predictor");
        let init = Init::Randn { mean: 0.0, stdev: 0.001 };
        Ok(Self {
            trunk: TwoMlpHead::new(config, &pooler, vb.pp("energy_head"))?,
            weight: predictor.get_with_hints(
                (config.num_classes, config.roi.representation),
                "weight",
                init,
            )?,
            bias: predictor.get_with_hints(config.num_classes, "bias", Init::Const(0.0))?,
            pooler,
        })
    }

    /// The branch with its present parameters for inference on the CPU in f32.
    pub fn pack(&self) -> Result<PackedEnergyHead> {
        let trunk = self.trunk.pack(self.pooler.size() * self.pooler.size())?;
        PackedEnergyHead::new(self.pooler, trunk, &self.weight.detach(), &self.bias.detach())
    }

    /// The fastest form for inference with the present parameters: [packed](Self::pack) on the CPU in f32, else as it
    /// is.
    pub fn for_inference(&self) -> Result<Box<dyn EnergyModel<Features = BoxFeatures>>> {
        if self.weight.device().is_cpu() && self.weight.dtype() == DType::F32 {
            return Ok(Box::new(self.pack()?));
        }
        Ok(Box::new(self.clone()))
    }

    /// Pools the boxes `y (B, M, 4)`.
    fn pool(&self, features: &BoxFeatures, y: &Tensor) -> Result<Pooled> {
        let (b, m, _) = y.dims3()?;
        let boxes = features.corners(&y.to_device(&Device::Cpu)?)?.reshape((b * m, 4))?;
        let images: Vec<u32> =
            features.images.iter().flat_map(|&image| std::iter::repeat_n(image, m)).collect();
        self.pooler.pool(&features.pyramid, &boxes, &images)
    }

    /// The class of each pooled box.
    fn labels(&self, features: &BoxFeatures, pooled: &Pooled, m: usize) -> Result<Tensor> {
        let labels: Vec<u32> = pooled.order.iter().map(|&i| features.labels[i as usize / m]).collect();
        if let Some(&label) = labels.iter().find(|&&label| label as usize >= self.classes()) {
            return Err(unknown_class(label, self.classes()));
        }
        Ok(Tensor::new(labels, self.weight.device())?)
    }

    /// The last layer's output for the class in question: `hidden (R, representation)` of pooled boxes → f `(B, M)` on the CPU.
    fn predict(
        &self,
        (hidden, labels): (&Tensor, &Tensor),
        pooled: &Pooled,
        (b, m): (usize, usize),
    ) -> Result<Tensor> {
        let all = ops::linear(hidden, &self.weight, Some(&self.bias))?;
        let f = all.gather(&labels.unsqueeze(1)?, 1)?.to_device(&Device::Cpu)?;
        let position = Tensor::new(pooled.position.as_slice(), &Device::Cpu)?;
        Ok(f.index_select(&position, 0)?.reshape((b, m))?)
    }

    fn confidence(&self, features: &BoxFeatures, y: &Tensor) -> Result<Tensor> {
        let (b, m, _) = y.dims3()?;
        let pooled = self.pool(features, y)?;
        let labels = self.labels(features, &pooled, m)?;
        let hidden = self.trunk.forward(&pooled.features)?;
        Ok(self.predict((&hidden, &labels), &pooled, (b, m))?.to_device(y.device())?)
    }

    /// f and ∂f/∂y, back through the layers and the pooling by hand: autograd would also make the weights' gradients.
    fn confidence_and_gradient(&self, features: &BoxFeatures, y: &Tensor) -> Result<(Tensor, Tensor)> {
        let (b, m, _) = y.dims3()?;
        let on_host = y.detach().to_device(&Device::Cpu)?;
        let pooled = self.pool(features, &on_host)?;
        let labels = self.labels(features, &pooled, m)?;
        let activations = self.trunk.activations(&pooled.features)?;
        let f = self.predict((&activations[1], &labels), &pooled, (b, m))?.detach();

        let weight = self.weight.detach().index_select(&labels, 0)?;
        let gradient = self.trunk.input_gradient(&activations, &weight)?.detach();
        let gradient = gradient.reshape(pooled.features.shape())?;
        let corners = self.pooler.box_gradient(&features.pyramid, &pooled, &gradient)?.reshape((b, m, 4))?;
        let gradient = features.pull_back(&on_host, &corners)?;
        Ok((f.to_device(y.device())?, gradient.to_device(y.device())?))
    }

    /// K.
    fn classes(&self) -> usize {
        self.bias.elem_count()
    }
}

/// The error of a box whose class the branch does not know.
pub(crate) fn unknown_class(label: u32, classes: usize) -> Error {
    Error::Config {
        name: "num_classes".into(),
        reason: format!("a box is of class {label}, the branch knows {classes}"),
    }
}

impl EnergyModel for EnergyHead {
    type Features = BoxFeatures;

    fn score(&self, features: &BoxFeatures, y: &Tensor) -> ebm_core::Result<Tensor> {
        self.confidence(features, y).map_err(ebm_core::Error::model)
    }

    fn score_and_grad(&self, features: &BoxFeatures, y: &Tensor) -> ebm_core::Result<(Tensor, Tensor)> {
        self.confidence_and_gradient(features, y).map_err(ebm_core::Error::model)
    }

    /// The IoU, as continuous areas in either convention.
    fn quality(&self, features: &BoxFeatures, y: &Tensor, y_i: &Tensor) -> ebm_core::Result<Tensor> {
        features.overlap(y, y_i).map_err(ebm_core::Error::model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;
    use ebm_nn::params::ParamStore;
    use ebm_seed::Key;
    use rand::Rng;

    use crate::config::{ExperimentConfig, Settings};

    /// f by autograd alone.
    struct ByAutograd<'a>(&'a EnergyHead);

    impl EnergyModel for ByAutograd<'_> {
        type Features = BoxFeatures;

        fn score(&self, features: &BoxFeatures, y: &Tensor) -> ebm_core::Result<Tensor> {
            self.0.score(features, y)
        }
    }

    #[test]
    fn the_gradient_by_hand_is_autograds() {
        let (head, features) = small();
        agree(&head, &features);
        agree(&head, &features.in_coordinates(Coordinates::Edges).unwrap());
    }

    fn agree(head: &EnergyHead, features: &BoxFeatures) {
        let device = Device::Cpu;
        let shift = Tensor::new(&[[[0f32, 0., 0., 0.], [0.1, -0.05, 0.2, -0.1]]], &device).unwrap();
        let y = features.targets().unwrap().broadcast_add(&shift).unwrap();
        let (f, gradient) = head.score_and_grad(features, &y).unwrap();
        let (f2, gradient2) = ByAutograd(head).score_and_grad(features, &y).unwrap();
        assert!(gradient2.abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap() > 0.1);
        assert!(difference(&f, &f2) < 1e-5);
        assert!(difference(&gradient, &gradient2) < 1e-4, "{gradient} {gradient2}");
    }

    /// However far a step throws them: log w of 3e4 is no width any more.
    #[test]
    fn boxes_without_bounds_have_a_finite_f() {
        let (head, features) = small();
        let wide = Tensor::new(&[[[0f32, 0., 3e4, 3e4], [1e30, -1e30, 0.1, 90.]]], &Device::Cpu).unwrap();
        let y = features.targets().unwrap().broadcast_add(&wide).unwrap();
        for f in [head.score(&features, &y), head.pack().unwrap().score(&features, &y)] {
            assert!(
                f.unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap().iter().all(|f| f.is_finite())
            );
        }
        let rule = ebm_core::StepRule::Backtracking;
        let ascent = ebm_core::GradientAscent { steps: 10, step_length: vec![1e4; 4], decay: 0.9, rule };
        let head = head.pack().unwrap();
        let refined = ebm_core::refine(&head, &features, &features.targets().unwrap(), &ascent).unwrap();
        let pair = [&refined.f_init, &refined.f].map(|f| f.flatten_all().unwrap().to_vec1::<f32>().unwrap());
        assert!(pair[0].iter().zip(&pair[1]).all(|(before, after)| after >= before));
    }

    /// A branch with four channels, and two objects' and one object's boxes on two images.
    fn small() -> (EnergyHead, BoxFeatures) {
        let device = Device::Cpu;
        let mut config = ExperimentConfig::embedded("mini").unwrap().detector;
        (config.backbone.fpn_channels, config.roi.representation) = (4, 16);
        let store = ParamStore::new(Key::new(1));
        let mut head = EnergyHead::new(&config, store.var_builder(DType::F32, &device)).unwrap();
        head.weight = (head.weight * 1000.0).unwrap();
        let mut rng = Key::new(2).rng();
        let pyramid: Vec<Tensor> = [40, 20, 10, 5]
            .map(|side| {
                let values: Vec<f32> =
                    (0..2 * 4 * side * side).map(|_| rng.random_range(-1.0..1.0)).collect();
                Tensor::from_vec(values, (2, 4, side, side), &device).unwrap()
            })
            .to_vec();
        // Three sizes, so that more than one level is pooled from, out of order.
        let boxes = [[5., 8., 120., 90.], [20., 30., 40., 52.], [11., 70., 90., 140.]];
        let features =
            BoxFeatures::new(&pyramid, vec![0, 1, 1], vec![2, 1, 5], &boxes, BoxConvention::HalfOpen)
                .unwrap();
        (head, features)
    }

    fn difference(a: &Tensor, b: &Tensor) -> f32 {
        (a - b).unwrap().abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap()
    }

    fn largest(a: &Tensor) -> f32 {
        difference(a, &a.zeros_like().unwrap())
    }

    #[test]
    fn packed_it_is_the_same_function() {
        let (head, features) = small();
        let packed = head.pack().unwrap();
        // So many candidates that they are evaluated in several chunks.
        let mut rng = Key::new(3).rng();
        let shift: Vec<f32> = (0..3 * 200 * 4).map(|_| rng.random_range(-0.3..0.3)).collect();
        let shift = Tensor::from_vec(shift, (3, 200, 4), &Device::Cpu).unwrap();
        let y = features.targets().unwrap().broadcast_add(&shift).unwrap();
        let (f, gradient) = head.score_and_grad(&features, &y).unwrap();
        let (packed_f, packed_gradient) = packed.score_and_grad(&features, &y).unwrap();
        assert!(largest(&f) > 0.1 && largest(&gradient) > 0.1);
        assert!(difference(&f, &packed_f) < 1e-4 * largest(&f));
        assert!(difference(&gradient, &packed_gradient) < 1e-4 * largest(&gradient));
        assert_eq!(difference(&packed.score(&features, &y).unwrap(), &packed_f), 0.0);
        // A candidate's f depends on no other candidate.
        let alone = packed.score(&features, &y.narrow(1, 150, 1).unwrap()).unwrap();
        assert_eq!(difference(&alone, &packed_f.narrow(1, 150, 1).unwrap()), 0.0);
    }

    #[test]
    fn a_class_that_the_branch_does_not_know_is_an_error() {
        let (head, mut features) = small();
        features.labels[1] = 10_000;
        assert!(head.pack().unwrap().score(&features, &features.targets().unwrap()).is_err());
    }
}
