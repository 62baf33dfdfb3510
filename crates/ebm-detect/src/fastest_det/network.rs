//! Network of FastestDet: body, pyramid and heads.

use candle_core::{D, Tensor};
use candle_nn::{VarBuilder, ops};
use ebm_nn::shufflenet::ShuffleNetV2;
use ebm_ops::nn::{BatchNormConfig, Conv2d, Conv2dConfig};
use ebm_ops::{Padding, nhwc};

use crate::Result;

/// Epsilon of batch norm, torch's default.
const NORM_EPS: f64 = 1e-5;

/// Number of channels after the maps are joined.
const CHANNELS: usize = 96;

/// Network of FastestDet with frozen normalisation. Maps have the channels innermost.
pub(super) struct Network {
    body: ShuffleNetV2,
    pyramid: Pyramid,
    /// Layer that the heads share.
    shared: Conv2d,
    /// Heads for object, box and class: a depthwise layer and an output layer each.
    heads: [[Conv2d; 2]; 3],
}

impl Network {
    pub(super) fn new(classes: usize, vb: &VarBuilder) -> Result<Self> {
        let heads = vb.pp("detect_head");
        let head = |name: &str, numbers| -> Result<_> {
            let vb = heads.pp(format!("{name}.conv5x5"));
            Ok([wide(["0", "1"], &vb)?, pointwise(CHANNELS, numbers, ["3", "4"], &vb)?])
        };
        Ok(Self {
            body: ShuffleNetV2::new(norm(), &vb.pp("backbone"))?,
            pyramid: Pyramid::new(&vb.pp("SPP"))?,
            shared: pointwise(CHANNELS, CHANNELS, ["0", "1"], &heads.pp("conv1x1.conv1x1"))?,
            heads: [head("obj_layers", 1)?, head("reg_layers", 4)?, head("cls_layers", classes)?],
        })
    }

    /// Applies the network: (N, 3, H, W) -> (N, H/16, W/16, 5 + classes), with the probability of an object, its box,
    /// and the probabilities of the classes.
    pub(super) fn forward(&self, pixels: &Tensor) -> Result<Tensor> {
        let x = self.pyramid.forward(&self.body.forward_channels_last(pixels, false)?)?;
        let x = self.shared.forward_channels_last(&x, None, true, false)?;
        let head = |[first, second]: &[Conv2d; 2]| -> Result<_> {
            let y = first.forward_channels_last(&x, None, true, false)?;
            Ok(second.forward_channels_last(&y, None, false, false)?)
        };
        let [object, bbox, class] = &self.heads;
        let (object, bbox, class) = (head(object)?, head(bbox)?, head(class)?);
        Ok(Tensor::cat(&[ops::sigmoid(&object)?, bbox, ops::softmax(&class, D::Minus1)?], D::Minus1)?)
    }
}

/// Layers that join the maps of strides 8, 16 and 32 at stride 16, with three sizes of receptive fields.
struct Pyramid {
    first: Conv2d,
    /// Branches with one, two and three layers of 5 × 5.
    reaches: [Vec<Conv2d>; 3],
    last: Conv2d,
}

impl Pyramid {
    fn new(vb: &VarBuilder) -> Result<Self> {
        let reach = |reach: usize| -> Result<Vec<Conv2d>> {
            // Convolution, normalisation and ReLU are numbered in turn.
            let names = |i: usize| [3 * i, 3 * i + 1].map(|number| number.to_string());
            let vb = vb.pp(format!("S{reach}"));
            (0..reach).map(|i| wide(names(i).each_ref().map(String::as_str), &vb)).collect()
        };
        let joined = ShuffleNetV2::CHANNELS.iter().sum();
        Ok(Self {
            first: pointwise(joined, CHANNELS, ["0", "1"], &vb.pp("Conv1x1.conv1x1"))?,
            reaches: [reach(1)?, reach(2)?, reach(3)?],
            last: pointwise(3 * CHANNELS, CHANNELS, ["0", "1"], &vb.pp("output"))?,
        })
    }

    fn forward(&self, [fine, middle, coarse]: &[Tensor; 3]) -> Result<Tensor> {
        let (_, height, width, _) = middle.dims4()?;
        let coarse = nhwc::upsample_nearest2d(coarse, height, width)?;
        let x = Tensor::cat(&[&halved(fine)?, middle, &coarse], D::Minus1)?;
        let x = self.first.forward_channels_last(&x, None, true, false)?;
        let seen = |reach: &Vec<Conv2d>| {
            reach.iter().try_fold(x.clone(), |x, layer| layer.forward_channels_last(&x, None, true, false))
        };
        let [near, middle, far] = &self.reaches;
        let seen = Tensor::cat(&[seen(near)?, seen(middle)?, seen(far)?], D::Minus1)?;
        Ok(self.last.forward_channels_last(&seen, Some(&x), true, false)?)
    }
}

/// Returns the average pooling of `map` over 3 × 3 pixels with stride 2; the zero padding counts.
fn halved(map: &Tensor) -> Result<Tensor> {
    let channels = map.dim(D::Minus1)?;
    let ninth = Tensor::full(1f32 / 9., (channels, 1, 3, 3), map.device())?;
    Ok(nhwc::depthwise_conv2d(map, &ninth, None, 2, Padding::Each(1))?)
}

fn norm() -> BatchNormConfig {
    BatchNormConfig::frozen(NORM_EPS)
}

/// Creates a 1 × 1 layer.
fn pointwise(input: usize, output: usize, names: [&str; 2], vb: &VarBuilder) -> Result<Conv2d> {
    Ok(Conv2d::with_norm(Conv2dConfig::same(input, output, 1), norm(), names, vb)?)
}

/// Creates a depthwise 5 × 5 layer.
fn wide(names: [&str; 2], vb: &VarBuilder) -> Result<Conv2d> {
    Ok(Conv2d::with_norm(Conv2dConfig::depthwise(CHANNELS, 5), norm(), names, vb)?)
}
