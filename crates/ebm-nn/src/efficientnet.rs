//! EfficientNet-Lite0 with the parameter names of its published weights.

use candle_core::Tensor;
use candle_nn::VarBuilder;
use ebm_ops::nhwc::from_nchw;
use ebm_ops::nn::{BatchNormConfig, Chain, Conv2d, Conv2dConfig};
use ebm_ops::{Padding, Workspace};

use crate::onnx::{Graph, Value};
use crate::{Error, Result, init, run_blocks};

/// Consecutive blocks of one shape.
struct Stage {
    /// Inner channels divided by the input's channels.
    expansion: usize,
    kernel: usize,
    /// Stride of the first block; the other blocks have stride 1.
    stride: usize,
    channels: usize,
    blocks: usize,
}

const fn stage(expansion: usize, kernel: usize, stride: usize, channels: usize, blocks: usize) -> Stage {
    Stage { expansion, kernel, stride, channels, blocks }
}

/// Table 1 of Tan and Le (2019), EfficientNet-B0. Lite0 has the same body without squeeze and excitation.
const STAGES: [Stage; 7] = [
    stage(1, 3, 1, 16, 1),
    stage(6, 3, 2, 24, 2),
    stage(6, 5, 2, 40, 2),
    stage(6, 3, 2, 80, 3),
    stage(6, 5, 1, 112, 3),
    stage(6, 5, 2, 192, 4),
    stage(6, 3, 1, 320, 1),
];

/// Channels of the stem.
const STEM: usize = 32;

/// EfficientNet-Lite0 without its classifier: width and depth 1, ReLU6 everywhere, no squeeze and excitation,
/// TensorFlow's `SAME` padding.
///
/// The input is RGB as (x − 127) / 128. The parameters have the names of `efficientnet-lite0-57934424.pth`:
/// `_conv_stem`, `_bn0`, `_blocks.{i}._expand_conv`, `._bn0`, `._depthwise_conv`, `._bn1`, `._project_conv`,
/// `._bn2`, without its [classifier](Self::is_classifier).
#[derive(Clone, Debug)]
pub struct EfficientNetLite0 {
    stem: Conv2d,
    /// Blocks of each map.
    groups: Vec<Vec<Chain>>,
}

impl EfficientNetLite0 {
    /// Channels of the maps.
    pub const CHANNELS: [usize; 5] = [16, 24, 40, 112, 320];

    /// Strides of the maps. Each map is the last one of its size.
    pub const STRIDES: [usize; 5] = [2, 4, 8, 16, 32];

    /// Normalisation of the published training. The frozen form is [`BatchNormConfig::frozen`] with this `eps`.
    pub const NORM: BatchNormConfig = BatchNormConfig { eps: 1e-3, momentum: 0.01, frozen: false };

    /// Creates the network up to the map number `maps`, counted from 1, with the parameters of `vb`.
    ///
    /// # Errors
    /// If there are fewer maps, or `vb` refuses a tensor.
    pub fn new(norm: BatchNormConfig, maps: usize, vb: VarBuilder) -> Result<Self> {
        check(maps, Self::STRIDES.len())?;
        let config = Conv2dConfig { stride: 2, padding: Padding::Same, ..Conv2dConfig::same(3, STEM, 3) };
        let stem = normalised(config, norm, ["_conv_stem", "_bn0"], &vb)?.relu6();
        let mut groups: Vec<Vec<Chain>> = Vec::new();
        let (mut input, mut number) = (STEM, 0);
        for stage in &STAGES {
            for block in 0..stage.blocks {
                let stride = if block == 0 { stage.stride } else { 1 };
                if stride > 1 || groups.is_empty() {
                    if groups.len() == maps {
                        return Ok(Self { stem, groups });
                    }
                    groups.push(Vec::new());
                }
                let vb = vb.pp(format!("_blocks.{number}"));
                let block = inverted_residual(stage, input, stride, norm, &vb)?;
                groups.iter_mut().last().into_iter().for_each(|group| group.push(block.clone()));
                (input, number) = (stage.channels, number + 1);
            }
        }
        Ok(Self { stem, groups })
    }

    /// Returns whether the tensor `name` of the published file belongs to the classifier.
    pub fn is_classifier(name: &str) -> bool {
        ["_conv_head.", "_bn1.", "_fc."].iter().any(|prefix| name.starts_with(prefix))
    }

    /// Returns the number, from 1, of the first map that needs the parameter `name`, or 0 if all maps need it.
    pub fn map_of(name: &str) -> usize {
        /// Last block of each map.
        const BLOCKS: [usize; 4] = [0, 2, 4, 10];
        let block =
            name.strip_prefix("_blocks.").and_then(|rest| rest.split('.').next()?.parse::<usize>().ok());
        block.map_or(0, |block| 1 + BLOCKS.iter().filter(|last| **last < block).count())
    }

    /// Maps an image (N, 3, H, W) to the first `maps` maps with the channels innermost, (N, H/2, W/2,
    /// channels\[0\]) to (…, H/32, W/32, channels\[4\]), sizes rounded up. Later maps are not computed. With
    /// `train`, normalisation that is not frozen uses and records the batch's statistics.
    ///
    /// # Errors
    /// If a map was not built, or `x` has another number of channels.
    pub fn forward_channels_last(&self, x: &Tensor, maps: usize, train: bool) -> Result<Vec<Tensor>> {
        check(maps, self.groups.len())?;
        x.dims4()?;
        let stem = self.stem.forward_channels_last(&from_nchw(x)?, None, true, train)?;
        let mut found: Vec<Tensor> = Vec::with_capacity(maps);
        for group in &self.groups[..maps] {
            let x = found.last().unwrap_or(&stem);
            let y = run_blocks(group, x, |block, x| block.forward(x, train))?;
            found.push(y);
        }
        Workspace::shared().recycle_input(stem, &found[0]);
        Ok(found)
    }

    /// Adds the network to `graph`: (N, 3, H, W) -> (N, channels\[0\], H/2, W/2) and so on for every map that was
    /// built.
    ///
    /// # Errors
    /// If a parameter cannot be read.
    pub fn onnx(&self, graph: &mut Graph, x: &Value) -> Result<Vec<Value>> {
        let mut x = graph.conv2d(&self.stem, x, None, true)?;
        let mut found = Vec::with_capacity(self.groups.len());
        for group in &self.groups {
            for block in group {
                x = graph.chain(block, &x)?;
            }
            found.push(x.clone());
        }
        Ok(found)
    }
}

fn check(maps: usize, there: usize) -> Result<()> {
    if (1..=there).contains(&maps) {
        return Ok(());
    }
    let reason = format!("{maps} maps were requested; ask for 1 to {there}");
    Err(Error::Argument { op: "EfficientNetLite0", reason })
}

/// Creates a block of expansion, depthwise convolution and projection, with the input added if the shapes are
/// equal.
fn inverted_residual(
    stage: &Stage,
    input: usize,
    stride: usize,
    norm: BatchNormConfig,
    vb: &VarBuilder,
) -> Result<Chain> {
    let inner = input * stage.expansion;
    let pointwise = |input, output, names| normalised(Conv2dConfig::same(input, output, 1), norm, names, vb);
    let expand = || pointwise(input, inner, ["_expand_conv", "_bn0"]).map(Conv2d::relu6);
    let config =
        Conv2dConfig { stride, padding: Padding::Same, ..Conv2dConfig::depthwise(inner, stage.kernel) };
    let expand = (stage.expansion > 1).then(expand).transpose()?;
    let depthwise = normalised(config, norm, ["_depthwise_conv", "_bn1"], vb)?.relu6();
    let project = pointwise(inner, stage.channels, ["_project_conv", "_bn2"])?;
    let layers = expand.into_iter().chain([depthwise, project]).collect();
    Ok(Chain::inverted(layers, stride == 1 && input == stage.channels))
}

/// Creates a convolution and its normalisation, with the initial weights of the published training.
fn normalised(
    config: Conv2dConfig,
    norm: BatchNormConfig,
    names: [&str; 2],
    vb: &VarBuilder,
) -> Result<Conv2d> {
    // A depthwise output depends on one channel, and so does an input.
    let fan = if config.depthwise { init::kaiming_normal_fan_in } else { init::kaiming_normal_fan_out };
    Conv2d::with_norm(Conv2dConfig { weight: fan(), ..config }, norm, names, vb)
}
