//! Residual blocks.

use candle_core::Tensor;
use candle_nn::VarBuilder;
use ebm_ops::Workspace;
use ebm_ops::nn::{BatchNormConfig, Conv2d, Conv2dConfig};

use crate::onnx::{Graph, Value};
use crate::{Result, init};

/// Kind of a residual block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// Two 3×3 convolutions.
    Basic,
    /// 1×1, 3×3, 1×1, the last with four times the channels.
    Bottleneck,
}

impl Block {
    /// Returns the ratio of a block's output channels to its inner ones.
    pub fn expansion(self) -> usize {
        match self {
            Self::Basic => 1,
            Self::Bottleneck => 4,
        }
    }
}

/// Channels of a block, its stride, and the position of the stride in a bottleneck.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) input: usize,
    pub(super) inner: usize,
    pub(super) stride: usize,
    pub(super) in_1x1: bool,
}

/// Residual block relu(F(x) + x), or relu(F(x) + projection(x)) if the shapes differ; maps are (N, H, W, C).
#[derive(Clone, Debug)]
pub(super) struct Residual {
    convs: Vec<Conv2d>,
    downsample: Option<Conv2d>,
}

/// Creates a convolution and its normalisation with the parameters `names` of `vb`. Without a `norm` the
/// convolution has a bias.
pub(super) fn conv_norm(
    config: Conv2dConfig,
    norm: Option<BatchNormConfig>,
    names: [&str; 2],
    vb: &VarBuilder,
) -> Result<Conv2d> {
    let (weight, bias) = (init::kaiming_normal_fan_out(), Some(init::constant(0.)));
    let config = Conv2dConfig { weight, bias, ..config };
    match norm {
        Some(norm) => Conv2d::with_norm(config, norm, names, vb),
        None => Conv2d::new(config, vb.pp(names[0])),
    }
}

impl Residual {
    pub(super) fn new(
        block: Block,
        Sizes { input, inner, stride, in_1x1 }: Sizes,
        norm: Option<BatchNormConfig>,
        vb: &VarBuilder,
    ) -> Result<Self> {
        let output = inner * block.expansion();
        let config = |i, o, kernel, stride| Conv2dConfig { stride, ..Conv2dConfig::same(i, o, kernel) };
        let conv = |i: usize, config| conv_norm(config, norm, [&format!("conv{i}"), &format!("bn{i}")], vb);
        let convs = match block {
            Block::Basic => {
                vec![conv(1, config(input, inner, 3, stride))?, conv(2, config(inner, inner, 3, 1))?]
            }
            Block::Bottleneck => {
                let (first, second) = if in_1x1 { (stride, 1) } else { (1, stride) };
                vec![
                    conv(1, config(input, inner, 1, first))?,
                    conv(2, config(inner, inner, 3, second))?,
                    conv(3, config(inner, output, 1, 1))?,
                ]
            }
        };
        let downsample = (stride != 1 || input != output)
            .then(|| conv_norm(config(input, output, 1, stride), norm, ["downsample.0", "downsample.1"], vb))
            .transpose()?;
        Ok(Self { convs, downsample })
    }

    pub(super) fn onnx(&self, graph: &mut Graph, x: &Value) -> Result<Value> {
        let shortcut = self.downsample.as_ref().map(|conv| graph.conv2d(conv, x, None, false)).transpose()?;
        let (mut y, last) = (x.clone(), self.convs.len().saturating_sub(1));
        for (i, conv) in self.convs.iter().enumerate() {
            let residual = (i == last).then_some(shortcut.as_ref().unwrap_or(x));
            y = graph.conv2d(conv, &y, residual, true)?;
        }
        Ok(y)
    }

    pub(super) fn forward(&self, x: &Tensor, train: bool) -> Result<Tensor> {
        let Some((last, first)) = self.convs.split_last() else { return Ok(x.clone()) };
        let shortcut = self.downsample.as_ref();
        let shortcut = shortcut.map(|conv| conv.forward_channels_last(x, None, false, train)).transpose()?;
        let mut inner: Option<Tensor> = None;
        for conv in first {
            let y = conv.forward_channels_last(inner.as_ref().unwrap_or(x), None, true, train)?;
            let old = inner.replace(y.clone());
            old.into_iter().for_each(|old| Workspace::shared().recycle_input(old, &y));
        }
        let residual = Some(shortcut.as_ref().unwrap_or(x));
        let y = last.forward_channels_last(inner.as_ref().unwrap_or(x), residual, true, train)?;
        inner.into_iter().chain(shortcut).for_each(|old| Workspace::shared().recycle_input(old, &y));
        Ok(y)
    }
}
