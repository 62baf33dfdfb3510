//! MobileFaceNet with the layer names of its published weights.

use std::ops::Range;

use candle_core::Tensor;
use candle_nn::VarBuilder;
use ebm_ops::nn::{BatchNormConfig, Chain, Conv2d, Conv2dConfig};

use crate::onnx::{Graph, Value};
use crate::{Error, Result, init, run_blocks};

/// Blocks with maps of one size. The first block halves the size of the map before it.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    /// Names of the first block and of the others.
    names: [&'static str; 2],
    /// Inner channels of the first block and of the others.
    pub inner: [usize; 2],
    /// Channels of the stage's map.
    pub channels: usize,
    /// Number of blocks after the first.
    pub blocks: usize,
}

/// MobileFaceNet (Chen et al., 2018) up to its last map, in the version that InsightFace published, whose first
/// layers have twice the channels of the paper. Every convolution has batch normalisation and PReLU, but
/// projections have no PReLU.
///
/// The input is RGB as (x − 127.5) / 128. A parameter's name is MXNet's name of the layer and torch's name of the
/// parameter, for example `res_3_block0_conv_sep_conv2d.weight`: see [`parameter`](Self::parameter).
#[derive(Clone, Debug)]
pub struct MobileFaceNet {
    blocks: Vec<Chain>,
}

impl MobileFaceNet {
    /// Channels of the first two blocks.
    pub const STEM: usize = 64;

    /// Stages between the first two blocks, which halve the size of the image, and the last block.
    pub const STAGES: [Stage; 3] = [
        Stage { names: ["dconv_23", "res_3"], inner: [128, 128], channels: 64, blocks: 4 },
        Stage { names: ["dconv_34", "res_4"], inner: [256, 256], channels: 128, blocks: 6 },
        Stage { names: ["dconv_45", "res_5"], inner: [512, 256], channels: 128, blocks: 2 },
    ];

    /// Number of blocks: two of the stem, fifteen inverted residuals, and one that widens the last map.
    pub const BLOCKS: usize = 18;

    /// Channels of the last map.
    pub const CHANNELS: usize = 512;

    /// Ratio of an image's height and width to the last map's.
    pub const STRIDE: usize = 16;

    /// Normalisation of the published training. The frozen form is [`BatchNormConfig::frozen`] with this `eps`.
    pub const NORM: BatchNormConfig = BatchNormConfig { eps: 1e-3, momentum: 0.1, frozen: false };

    /// Creates the network with the parameters of `vb`.
    ///
    /// # Errors
    /// If `vb` refuses a tensor.
    pub fn new(norm: BatchNormConfig, vb: &VarBuilder) -> Result<Self> {
        let layer = |config, name: &str| prelu(config, norm, name, vb);
        let stem = Conv2dConfig { stride: 2, ..Conv2dConfig::same(3, Self::STEM, 3) };
        let mut blocks = vec![
            Chain::plain(vec![layer(stem, "conv_1")?]),
            Chain::plain(vec![layer(Conv2dConfig::depthwise(Self::STEM, 3), "conv_2_dw")?]),
        ];
        let mut input = Self::STEM;
        for Stage { names, inner, channels, blocks: count } in &Self::STAGES {
            let inverted = |name: &str, input, inner, stride| {
                let depthwise = Conv2dConfig { stride, ..Conv2dConfig::depthwise(inner, 3) };
                let project = format!("{name}_conv_proj");
                let layers = vec![
                    layer(Conv2dConfig::same(input, inner, 1), &format!("{name}_conv_sep"))?,
                    layer(depthwise, &format!("{name}_conv_dw"))?,
                    normalised(Conv2dConfig::same(inner, *channels, 1), norm, &project, vb)?,
                ];
                Ok::<_, Error>(Chain::inverted(layers, stride == 1))
            };
            blocks.push(inverted(names[0], input, inner[0], 2)?);
            for number in 0..*count {
                blocks.push(inverted(&format!("{}_block{number}", names[1]), *channels, inner[1], 1)?);
            }
            input = *channels;
        }
        let last = Conv2dConfig::same(input, Self::CHANNELS, 1);
        blocks.push(Chain::plain(vec![layer(last, "conv_6sep")?]));
        Ok(Self { blocks })
    }

    /// Returns the number, from 0, of the block that contains the parameter `name`, or [`BLOCKS`](Self::BLOCKS)
    /// for a layer after the last block.
    pub fn block_of(name: &str) -> usize {
        let stages = Self::STAGES.iter().flat_map(|stage| {
            let others = (0..stage.blocks).map(|number| format!("{}_block{number}_", stage.names[1]));
            std::iter::once(format!("{}_", stage.names[0])).chain(others)
        });
        let stem = ["conv_1_", "conv_2_dw_"].map(str::to_owned).into_iter();
        let mut blocks = stem.chain(stages).chain(["conv_6sep_".to_owned()]);
        blocks.position(|block| name.starts_with(&block)).unwrap_or(Self::BLOCKS)
    }

    /// Returns this crate's name of the published parameter `name`, for example
    /// `res_3_block0_conv_sep_batchnorm_gamma`, with or without MXNet's prefixes `arg:` and `aux:`. Any other
    /// name is returned unchanged.
    pub fn parameter(name: &str) -> String {
        const PARAMETERS: [[&str; 2]; 6] = [
            ["_weight", "weight"],
            ["_bias", "bias"],
            ["_gamma", "weight"],
            ["_beta", "bias"],
            ["_moving_mean", "running_mean"],
            ["_moving_var", "running_var"],
        ];
        let name = name.strip_prefix("arg:").or(name.strip_prefix("aux:")).unwrap_or(name);
        // This is the only layer whose name differs from its weight's.
        let name = if name == "fc1_weight" { "pre_fc1_weight" } else { name };
        let found = PARAMETERS.iter().find_map(|[old, new]| Some((name.strip_suffix(old)?, new)));
        found.map_or_else(|| name.to_owned(), |(layer, parameter)| format!("{layer}.{parameter}"))
    }

    /// Runs `blocks` on the map before them, with the channels innermost. The first block takes an image, (N, H,
    /// W, 3), and the last one returns (N, H/16, W/16, 512), sizes rounded up. With `train`, normalisation that
    /// is not frozen uses and records the batch's statistics.
    ///
    /// # Errors
    /// If there are fewer blocks, or `x` has another number of channels.
    pub fn forward_channels_last(&self, x: &Tensor, blocks: Range<usize>, train: bool) -> Result<Tensor> {
        let Some(chosen) = self.blocks.get(blocks.clone()) else {
            let reason = format!("there are no blocks {blocks:?} among {}", Self::BLOCKS);
            return Err(Error::Argument { op: "MobileFaceNet", reason });
        };
        run_blocks(chosen, x, |block, x| block.forward(x, train))
    }

    /// Adds all blocks to `graph`: (N, 3, H, W) -> (N, 512, H/16, W/16).
    ///
    /// # Errors
    /// If a parameter cannot be read.
    pub fn onnx(&self, graph: &mut Graph, x: &Value) -> Result<Value> {
        self.blocks.iter().try_fold(x.clone(), |x, block| graph.chain(block, &x))
    }
}

/// Creates the convolution `name` with its normalisation.
fn normalised(config: Conv2dConfig, norm: BatchNormConfig, name: &str, vb: &VarBuilder) -> Result<Conv2d> {
    let names = ["conv2d", "batchnorm"].map(|layer| format!("{name}_{layer}"));
    let config = Conv2dConfig { weight: init::kaiming_normal_fan_in(), ..config };
    Conv2d::with_norm(config, norm, names.each_ref().map(String::as_str), vb)
}

/// Creates the convolution `name` with its normalisation and PReLU.
fn prelu(config: Conv2dConfig, norm: BatchNormConfig, name: &str, vb: &VarBuilder) -> Result<Conv2d> {
    normalised(config, norm, name, vb)?.prelu(&vb.pp(format!("{name}_relu")))
}
