//! ShuffleNetV2 with the parameter names of FastestDet's weights.

use candle_core::Tensor;
use candle_nn::VarBuilder;
use ebm_ops::nhwc;
use ebm_ops::nn::{BatchNormConfig, Conv2d, Conv2dConfig};

use crate::{Error, Result};

/// Channels of the first convolution.
const FIRST: usize = 24;

/// ShuffleNetV2 (Ma et al., 2018) without its classifier. Half the channels of a unit pass unchanged.
///
/// The parameters have FastestDet's names: `first_conv.{0,1}`, `stage{2..4}.{i}.branch_main.{0,1,3..6}`,
/// `.branch_proj.{0..3}`.
#[derive(Clone, Debug)]
pub struct ShuffleNetV2 {
    first: Conv2d,
    stages: [Vec<Unit>; 3],
}

impl ShuffleNetV2 {
    /// Channels of the maps.
    pub const CHANNELS: [usize; 3] = [48, 96, 192];

    /// Strides of the maps.
    pub const STRIDES: [usize; 3] = [8, 16, 32];

    /// Numbers of units of the stages.
    const UNITS: [usize; 3] = [4, 8, 4];

    /// Creates the network with the parameters of `vb`.
    ///
    /// # Errors
    /// If `vb` refuses a tensor.
    pub fn new(norm: BatchNormConfig, vb: &VarBuilder) -> Result<Self> {
        let config = Conv2dConfig { stride: 2, ..Conv2dConfig::same(3, FIRST, 3) };
        let first = Conv2d::with_norm(config, norm, ["first_conv.0", "first_conv.1"], vb)?;
        let [a, b, c] = Self::CHANNELS;
        let stage = |number: usize, (input, channels): (usize, usize)| -> Result<Vec<Unit>> {
            let unit = |i| {
                // The first unit of a stage halves the map.
                let input = if i == 0 { Some(input) } else { None };
                Unit::new(input, channels / 2, norm, &vb.pp(format!("stage{}.{i}", number + 2)))
            };
            (0..Self::UNITS[number]).map(unit).collect()
        };
        Ok(Self { first, stages: [stage(0, (FIRST, a))?, stage(1, (a, b))?, stage(2, (b, c))?] })
    }

    /// Maps an image (N, 3, H, W) to the three maps with the channels innermost, (N, H/8, W/8, 48) to (N, H/32,
    /// W/32, 192), sizes rounded up. With `train`, normalisation that is not frozen uses and records the batch's
    /// statistics.
    ///
    /// # Errors
    /// If `x` has another number of channels.
    pub fn forward_channels_last(&self, x: &Tensor, train: bool) -> Result<[Tensor; 3]> {
        x.dims4()?;
        let x = self.first.forward_channels_last(&nhwc::from_nchw(x)?, None, true, train)?;
        let x = nhwc::max_pool2d(&x, 3, 2, 1)?;
        let stage =
            |units: &[Unit], x: &Tensor| units.iter().try_fold(x.clone(), |x, unit| unit.forward(&x, train));
        let [a, b, c] = &self.stages;
        let a = stage(a, &x)?;
        let b = stage(b, &a)?;
        let c = stage(c, &b)?;
        Ok([a, b, c])
    }
}

/// Unit with two parallel branches.
#[derive(Clone, Debug)]
struct Unit {
    /// Layers of the first half of the result. Without them, the first half is every other channel of the input.
    proj: Option<[Conv2d; 2]>,
    main: [Conv2d; 3],
}

impl Unit {
    /// Creates a unit of twice `half` channels. With `input` channels, the unit halves the size of the map;
    /// without, its input has twice `half` channels too.
    fn new(input: Option<usize>, half: usize, norm: BatchNormConfig, vb: &VarBuilder) -> Result<Self> {
        let layer = |config, branch: &str, [conv, norm_name]: [usize; 2]| {
            let names = [conv, norm_name].map(|i| format!("branch_{branch}.{i}"));
            Conv2d::with_norm(config, norm, names.each_ref().map(String::as_str), vb)
        };
        let stride = if input.is_some() { 2 } else { 1 };
        let depthwise = |channels| Conv2dConfig { stride, ..Conv2dConfig::depthwise(channels, 3) };
        let proj = |input| {
            let pointwise = Conv2dConfig::same(input, half, 1);
            Ok::<_, Error>([layer(depthwise(input), "proj", [0, 1])?, layer(pointwise, "proj", [2, 3])?])
        };
        Ok(Self {
            proj: input.map(proj).transpose()?,
            main: [
                layer(Conv2dConfig::same(input.unwrap_or(half), half, 1), "main", [0, 1])?,
                layer(depthwise(half), "main", [3, 4])?,
                layer(Conv2dConfig::same(half, half, 1), "main", [5, 6])?,
            ],
        })
    }

    /// Maps (N, H, W, C) to (N, …, 2·half).
    fn forward(&self, x: &Tensor, train: bool) -> Result<Tensor> {
        let chain = |layers: &[Conv2d], x: &Tensor| {
            layers.iter().try_fold(x.clone(), |x, layer| {
                // No ReLU follows a depthwise convolution.
                layer.forward_channels_last(&x, None, !layer.is_depthwise(), train)
            })
        };
        let (first, input) = match &self.proj {
            Some(proj) => (chain(proj, x)?, x.clone()),
            None => {
                let (n, h, w, c) = x.dims4()?;
                let pairs = x.reshape((n, h, w, c / 2, 2))?;
                let channels = |i| pairs.narrow(4, i, 1)?.squeeze(4)?.contiguous();
                (channels(0)?, channels(1)?)
            }
        };
        Ok(Tensor::cat(&[first, chain(&self.main, &input)?], 3)?)
    }
}
