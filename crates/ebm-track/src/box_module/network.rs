//! The network of the box module.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor, Var};
use candle_nn::VarBuilder;
use ebm_core::{EnergyModel, TargetSpace};
use ebm_experiment::config::check_ranges;
use ebm_nn::init;
use ebm_nn::params::ParamStore;
use ebm_ops::linear;
use ebm_ops::nhwc::from_nchw;
use ebm_ops::nn::{Prepared, are_constant, is_packable};
use ebm_ops::roi::prroi_pool;

use super::features::{Modulation, TargetFeatures, TestFeatures, corners};
use super::layers::{ConvBlock, LinearBlock};
use super::packed::PackedBoxLayers;
use super::{BoxModuleConfig, BoxNetwork, SCALES};
use crate::{BackboneFeatures, Error, Result};

/// The box module with its parameters. It is frozen unless it is [`in_training`](Self::in_training). If the parameters
/// are constant, f32 and on the CPU, weights are packed and gradients in boxes are computed without a graph.
#[derive(Clone, Debug)]
pub struct BoxModule {
    pub(super) config: BoxModuleConfig,
    pub(super) reference: ReferenceBranch,
    pub(super) test: [[ConvBlock; 2]; 2],
    /// Layers on pooled boxes, one for each map.
    pub(super) of_box: [LinearBlock; 2],
    /// Weight of the last layer, (1, sum of `pred_inter`).
    pub(super) weight: Tensor,
    /// Bias of the last layer, (1).
    pub(super) bias: Tensor,
    /// Whether normalisations use the statistics of the batch.
    train: bool,
    prepared: Prepared<PackedBoxLayers>,
}

/// Branch that computes the modulation vectors from the reference crop.
#[derive(Clone, Debug)]
pub(super) struct ReferenceBranch {
    /// Convolutions of the two maps.
    pub(super) convs: [ConvBlock; 2],
    /// Layer from the pooled box on the first map to one pixel.
    pub(super) fc3: ConvBlock,
    /// Layers of the two vectors.
    pub(super) vectors: [ConvBlock; 2],
}

impl BoxModule {
    /// Builds the module with the parameters of `vb`. New parameters are initialised as in ATOM: weights from Kaiming's
    /// normal distribution over the inputs, biases at 0, and factors of normalisations from U(0, 1).
    ///
    /// # Errors
    /// [`Error::Config`] for a size of 0; else when `vb` refuses a tensor.
    pub fn new(config: &BoxModuleConfig, vb: VarBuilder) -> Result<Self> {
        check_ranges("box module", config)?;
        let &BoxModuleConfig { backbone, reference, hidden, pred_input, pred_inter, .. } = config;
        let [bins3, bins4] = config.reference_pool;
        // The pooled box of the second map enters the vectors without a further layer.
        let pooled = hidden + hidden * bins4 * bins4;
        let same = |input, output, name| ConvBlock::same(input, output, vb.pp(name));
        let of_patch = |input, output, kernel, name| ConvBlock::of_patch(input, output, kernel, vb.pp(name));
        let of_box = |map: usize, name| {
            let bins = config.pool[map] * config.pool[map];
            LinearBlock::new(pred_input[map] * bins, pred_inter[map], vb.pp(name))
        };
        let predictor = vb.pp("iou_predictor");
        let inputs = pred_inter[0] + pred_inter[1];
        Ok(Self {
            reference: ReferenceBranch {
                convs: [same(backbone[0], reference, "conv3_1r")?, same(backbone[1], hidden, "conv4_1r")?],
                fc3: of_patch(reference, hidden, bins3, "fc3_1r")?,
                vectors: [
                    of_patch(pooled, pred_input[0], 1, "fc34_3r")?,
                    of_patch(pooled, pred_input[1], 1, "fc34_4r")?,
                ],
            },
            test: [
                [same(backbone[0], hidden, "conv3_1t")?, same(hidden, pred_input[0], "conv3_2t")?],
                [same(backbone[1], hidden, "conv4_1t")?, same(hidden, pred_input[1], "conv4_2t")?],
            ],
            of_box: [of_box(0, "fc3_rt")?, of_box(1, "fc4_rt")?],
            weight: predictor.get_with_hints((1, inputs), "weight", init::kaiming_normal_fan_in())?,
            bias: predictor.get_with_hints(1, "bias", init::constant(0.0))?,
            config: config.clone(),
            train: false,
            prepared: Prepared::new(),
        })
    }

    /// Builds the frozen module of the sizes `config` with the parameters `tensors` of the file at `path`.
    ///
    /// # Errors
    /// [`Error::Weights`] when a name is missing or surplus, or a shape differs.
    pub fn of_tensors(
        path: &Path,
        config: &BoxModuleConfig,
        tensors: BTreeMap<String, Tensor>,
        device: &Device,
    ) -> Result<Self> {
        let build = |store: &ParamStore| Self::new(config, store.var_builder(DType::F32, device));
        let built = ParamStore::build(&tensors, build);
        built
            .map(|(module, _)| module)
            .map_err(|reason| Error::weights(path, format!("not a box module {config:?}: {reason}")))
    }

    /// Returns the module in training. Normalisations use the statistics of the batch, and every forward pass updates
    /// the running statistics. A batch with a single target is refused.
    #[must_use]
    pub fn in_training(&self) -> Self {
        Self { train: true, ..self.clone() }
    }

    /// Returns the sizes.
    pub fn config(&self) -> &BoxModuleConfig {
        &self.config
    }

    /// Returns the packed layers for boxes with these corners, if all parameters are constant, f32 and on the CPU.
    fn packed(&self, corners: &Tensor) -> Result<Option<Arc<PackedBoxLayers>>> {
        let layers = self.of_box.iter().flat_map(LinearBlock::parameters);
        if !is_packable(corners) || !is_packable(&self.weight) {
            return Ok(None);
        }
        if !are_constant(layers.chain([&self.weight, &self.bias])) {
            return Ok(None);
        }
        self.prepared.get(|| PackedBoxLayers::new(self)).map(Some)
    }

    /// Computes f `(B, M)` of boxes with the corners `(B, M, 4)`, with a graph.
    fn f(&self, features: &TestFeatures, corners: &Tensor) -> Result<Tensor> {
        let (batch, count, _) = corners.dims3()?;
        let rois = rois(corners, features.0[0].dim(0)?)?;
        let hidden = |map: usize| -> Result<Tensor> {
            let maps = features.0[map].permute((0, 2, 3, 1))?;
            let pooled = pool(&maps, &rois, self.config.pool[map], map)?;
            self.of_box[map].forward(&pooled.flatten_from(1)?, self.train)
        };
        let hidden = Tensor::cat(&[hidden(0)?, hidden(1)?], 1)?;
        Ok(linear(&hidden, &self.weight, Some(&self.bias))?.reshape((batch, count))?)
    }
}

/// Multiplies the maps (N, H, W, C) by the vectors (N, C), or all maps by one vector (1, C).
fn scaled(maps: &Tensor, vectors: &Tensor) -> Result<Tensor> {
    if maps.dim(0)? == 1 && vectors.dim(0)? == 1 {
        // candle multiplies rows of channels fastest.
        let (_, height, width, channels) = maps.dims4()?;
        let rows = maps.reshape((height * width, channels))?.broadcast_mul(&vectors.get(0)?)?;
        return Ok(rows.reshape((1, height, width, channels))?);
    }
    Ok(maps.broadcast_mul(&vectors.unsqueeze(1)?.unsqueeze(1)?)?)
}

/// Returns rows (crop, x0, y0, x1, y1) of the boxes with the corners `(B, M, 4)`, M in each of the B crops.
pub(super) fn rois(corners: &Tensor, crops: usize) -> Result<Tensor> {
    let (batch, count, _) = corners.dims3()?;
    if batch != crops {
        let reason =
            format!("there are boxes for {batch} crops, but {crops} crops; give boxes for each crop");
        return Err(Error::config("of the box module", reason));
    }
    let crop: Vec<f64> = (0..batch).flat_map(|crop| std::iter::repeat_n(crop as f64, count)).collect();
    let crop = Tensor::from_vec(crop, (batch * count, 1), &Device::Cpu)?
        .to_dtype(corners.dtype())?
        .to_device(corners.device())?;
    Ok(Tensor::cat(&[crop, corners.reshape((batch * count, 4))?], 1)?)
}

/// Pools boxes from the map (N, H, W, C) with the index `scale` to (R, C, bins, bins).
fn pool(map: &Tensor, rois: &Tensor, bins: usize, scale: usize) -> Result<Tensor> {
    Ok(prroi_pool(&map.permute((0, 3, 1, 2))?, rois, (bins, bins), SCALES[scale])?)
}

impl EnergyModel for BoxModule {
    type Features = TargetFeatures;

    fn score(&self, features: &TargetFeatures, y: &Tensor) -> ebm_core::Result<Tensor> {
        let corners = features.space.decode(y)?;
        self.corner_scores(&features.test, &corners).map_err(ebm_core::Error::model)
    }

    fn score_and_grad(&self, features: &TargetFeatures, y: &Tensor) -> ebm_core::Result<(Tensor, Tensor)> {
        let y = y.detach();
        let corners = features.space.decode(&y)?;
        let (f, gradient) =
            self.corner_gradients(&features.test, &corners).map_err(ebm_core::Error::model)?;
        Ok((f, features.space.decode_gradient(&y, &gradient)?))
    }

    fn quality(&self, features: &TargetFeatures, y: &Tensor, y_i: &Tensor) -> ebm_core::Result<Tensor> {
        features.overlap(y, y_i)
    }
}

impl BoxNetwork for BoxModule {
    fn modulation(&self, reference: &BackboneFeatures, boxes: &Tensor) -> Result<Modulation> {
        let (images, ..) = reference.layer2.dims4()?;
        let ReferenceBranch { convs, fc3, vectors } = &self.reference;
        let corners = corners(boxes)?.unsqueeze(1)?;
        let pool = |map: usize| -> Result<Tensor> {
            let features = convs[map].forward(&from_nchw(reference.maps()[map])?, self.train)?;
            pool(&features, &rois(&corners, images)?, self.config.reference_pool[map], map)
        };
        let third = fc3.forward(&from_nchw(&pool(0)?)?, self.train)?.flatten_from(1)?;
        let both = Tensor::cat(&[third, pool(1)?.flatten_from(1)?], 1)?.unsqueeze(1)?.unsqueeze(1)?;
        let vector = |layer: &ConvBlock| Ok::<_, Error>(layer.forward(&both, self.train)?.flatten_from(1)?);
        Ok(Modulation([vector(&vectors[0])?, vector(&vectors[1])?]))
    }

    fn test_features(&self, test: &BackboneFeatures, modulation: &Modulation) -> Result<TestFeatures> {
        let map = |map: usize| -> Result<Tensor> {
            let [first, second] = &self.test[map];
            let features = first.forward(&from_nchw(test.maps()[map])?, self.train)?;
            let features = second.forward(&features, self.train)?;
            Ok(scaled(&features, &modulation.0[map])?.permute((0, 3, 1, 2))?)
        };
        Ok(TestFeatures([map(0)?, map(1)?]))
    }

    fn corner_scores(&self, features: &TestFeatures, corners: &Tensor) -> Result<Tensor> {
        let is_constant = are_constant(features.0.iter().chain([corners]));
        match if is_constant { self.packed(corners)? } else { None } {
            Some(packed) => Ok(packed.evaluate(features, corners, false)?.0),
            None => self.f(features, corners),
        }
    }

    fn corner_gradients(&self, features: &TestFeatures, corners: &Tensor) -> Result<(Tensor, Tensor)> {
        if let Some(packed) = self.packed(corners)? {
            return packed.evaluate(features, corners, true);
        }
        let corners = Var::from_tensor(&corners.detach())?;
        let f = self.f(&features.detach(), &corners)?;
        let gradients = f.sum_all()?.backward()?;
        let gradient = match gradients.get(&corners) {
            Some(gradient) => gradient.detach(),
            None => corners.zeros_like()?.detach(),
        };
        Ok((f.detach(), gradient))
    }
}
