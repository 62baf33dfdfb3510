//! Residual blocks.

use candle_core::Tensor;
use candle_nn::VarBuilder;

use super::conv::ConvNorm;
use crate::Result;
use crate::norm::BatchNormConfig;

/// The kind of residual block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// Two 3×3 convolutions.
    Basic,
    /// 1×1, 3×3, 1×1, the last with four times the channels.
    Bottleneck,
}

impl Block {
    /// A block's output channels over its inner ones.
    pub fn expansion(self) -> usize {
        match self {
            Self::Basic => 1,
            Self::Bottleneck => 4,
        }
    }
}

/// A block's stride and where a bottleneck has it.
#[derive(Clone, Copy)]
pub(super) struct Stride {
    pub(super) stride: usize,
    pub(super) in_1x1: bool,
}

/// relu(F(x) + x), or relu(F(x) + projection(x)) where the shapes differ; maps are (N, H, W, C).
#[derive(Clone, Debug)]
pub(super) struct Residual {
    pub(super) convs: Vec<ConvNorm>,
    pub(super) downsample: Option<ConvNorm>,
}

impl Residual {
    pub(super) fn new(
        block: Block,
        (input, inner): (usize, usize),
        Stride { stride, in_1x1 }: Stride,
        norm: Option<BatchNormConfig>,
        vb: &VarBuilder,
    ) -> Result<Self> {
        let output = inner * block.expansion();
        let conv = |i: usize, channels, kernel, stride| {
            let (conv, norm_name) = (format!("conv{i}"), format!("bn{i}"));
            ConvNorm::new(channels, (kernel, stride), norm, (&conv, &norm_name), vb)
        };
        let convs = match block {
            Block::Basic => vec![conv(1, (input, inner), 3, stride)?, conv(2, (inner, inner), 3, 1)?],
            Block::Bottleneck => {
                let (first, second) = if in_1x1 { (stride, 1) } else { (1, stride) };
                vec![
                    conv(1, (input, inner), 1, first)?,
                    conv(2, (inner, inner), 3, second)?,
                    conv(3, (inner, output), 1, 1)?,
                ]
            }
        };
        let downsample = (stride != 1 || input != output)
            .then(|| ConvNorm::new((input, output), (1, stride), norm, ("downsample.0", "downsample.1"), vb))
            .transpose()?;
        Ok(Self { convs, downsample })
    }

    pub(super) fn folded(&self) -> Result<Self> {
        Ok(Self {
            convs: self.convs.iter().map(ConvNorm::folded).collect::<Result<_>>()?,
            downsample: self.downsample.as_ref().map(ConvNorm::folded).transpose()?,
        })
    }

    pub(super) fn forward(&self, x: &Tensor, train: bool) -> Result<Tensor> {
        let Some((last, first)) = self.convs.split_last() else { return Ok(x.clone()) };
        let mut y = x.clone();
        for conv in first {
            y = conv.forward(&y, None, true, train)?;
        }
        let shortcut =
            self.downsample.as_ref().map(|conv| conv.forward(x, None, false, train)).transpose()?;
        last.forward(&y, Some(shortcut.as_ref().unwrap_or(x)), true, train)
    }
}
