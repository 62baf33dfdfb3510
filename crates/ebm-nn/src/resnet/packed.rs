//! A residual network for inference: packed weights, normalisation folded, channels innermost from end to end.

use candle_core::Tensor;
use rayon::prelude::*;

use super::{ResNet, Residual, missing};
use crate::Result;
use crate::ops::{ChannelsLast, PackedConv2d, Workspace};

/// The stem's pooling: 3 × 3, stride 2, one pixel of padding.
const POOL: usize = 3;
const POOL_STRIDE: usize = 2;
const POOL_PADDING: usize = 1;

/// Rows of the pooled map in a task.
const POOLED_ROWS: usize = 4;

/// A [`ResNet`] as it is when not trained, on the CPU in f32: see [`ResNet::pack`].
#[derive(Debug)]
pub struct PackedResNet {
    stem: PackedConv2d,
    stages: Vec<Vec<PackedResidual>>,
    workspace: Workspace,
}

#[derive(Debug)]
struct PackedResidual {
    convs: Vec<PackedConv2d>,
    downsample: Option<PackedConv2d>,
}

/// A map of the network.
pub(crate) type Map = ChannelsLast<'static, f32>;

impl ResNet {
    /// The network with its present parameters and running statistics, for inference.
    ///
    /// # Errors
    /// When a tensor operation fails.
    pub fn pack(&self) -> Result<PackedResNet> {
        let pack = |block: &Residual| {
            let convs = block.convs.iter().map(super::ConvNorm::pack).collect::<Result<_>>()?;
            let downsample = block.downsample.as_ref().map(super::ConvNorm::pack).transpose()?;
            Ok(PackedResidual { convs, downsample })
        };
        let stages = self.stages.iter().map(|stage| stage.iter().map(pack).collect::<Result<_>>());
        Ok(PackedResNet {
            stem: self.stem.pack()?,
            stages: stages.collect::<Result<_>>()?,
            workspace: Workspace::new(),
        })
    }
}

impl PackedResNet {
    /// (N, 3, H, W) -> the outputs of the first `stages` stages, as [`ResNet::forward_stages`] without training gives
    /// them up to rounding, each a tensor (N, channels\[i\], …) stored with the channels innermost.
    ///
    /// # Errors
    /// When a stage was not built, or `x` has another number of channels or is not f32 on the CPU.
    pub fn forward_stages(&self, x: &Tensor, stages: usize) -> Result<Vec<Tensor>> {
        self.maps(x, stages, 0)?.into_iter().map(ChannelsLast::into_tensor).collect()
    }

    /// The output of stage `stages` alone.
    ///
    /// # Errors
    /// As [`forward_stages`](Self::forward_stages), and when `stages` is 0.
    pub fn forward_last(&self, x: &Tensor, stages: usize) -> Result<Tensor> {
        match self.maps(x, stages, stages.saturating_sub(1))?.pop() {
            Some(map) => map.into_tensor(),
            None => Err(missing(stages, self.stages.len())),
        }
    }

    /// The outputs of the stages in `first..stages`.
    pub(crate) fn maps(&self, x: &Tensor, stages: usize, first: usize) -> Result<Vec<Map>> {
        let Some(wanted) = self.stages.get(..stages) else {
            return Err(missing(stages, self.stages.len()));
        };
        let numbers = x.flatten_all()?.to_vec1::<f32>()?;
        let image = ChannelsLast::from_channels_first(&numbers, x.dims4()?)?;
        let stem = self.stem.forward(&image, None, true, &self.workspace)?;
        let mut x = max_pool(&stem, &self.workspace)?;
        self.workspace.recycle(stem);
        let mut maps: Vec<Map> = Vec::with_capacity(stages);
        for (number, stage) in wanted.iter().enumerate() {
            for (i, block) in stage.iter().enumerate() {
                // A stage's input is the last one's output, which may have been kept.
                let from = if i == 0 && number > first { maps.last().unwrap_or(&x) } else { &x };
                let y = self.block(block, from)?;
                self.workspace.recycle(std::mem::replace(&mut x, y));
            }
            if number >= first {
                maps.push(std::mem::replace(&mut x, ChannelsLast::new(Vec::new(), (0, 0, 0, 0))?));
            }
        }
        self.workspace.recycle(x);
        Ok(maps)
    }

    /// Buffers of the network's layers, for others that follow.
    pub(crate) fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    fn block(&self, block: &PackedResidual, x: &Map) -> Result<Map> {
        let workspace = &self.workspace;
        let Some((last, first)) = block.convs.split_last() else { return Ok(x.clone()) };
        let shortcut =
            block.downsample.as_ref().map(|conv| conv.forward(x, None, false, workspace)).transpose()?;
        let mut inner: Option<Map> = None;
        for conv in first {
            let y = conv.forward(inner.as_ref().unwrap_or(x), None, true, workspace)?;
            inner.replace(y).into_iter().for_each(|old| workspace.recycle(old));
        }
        let residual = shortcut.as_ref().unwrap_or(x);
        let y = last.forward(inner.as_ref().unwrap_or(x), Some(residual), true, workspace)?;
        inner.into_iter().chain(shortcut).for_each(|old| workspace.recycle(old));
        Ok(y)
    }
}

/// The stem's maximum over windows. Pixels outside the map do not count; after a ReLU they could be zeros.
fn max_pool(x: &Map, workspace: &Workspace) -> Result<Map> {
    let (n, c, height, width) = x.shape();
    let [out_height, out_width] =
        [height, width].map(|size| (size + 2 * POOL_PADDING - POOL) / POOL_STRIDE + 1);
    let mut y = workspace.take(n * out_height * out_width * c);
    let window = |at: usize, size: usize| {
        let start = at * POOL_STRIDE;
        start.saturating_sub(POOL_PADDING)..size.min(start + POOL - POOL_PADDING)
    };
    y.par_chunks_mut(out_width * c).enumerate().with_min_len(POOLED_ROWS).for_each(|(row, to)| {
        let (image, i) = (row / out_height, row % out_height);
        for (j, to) in to.chunks_exact_mut(c).enumerate() {
            to.fill(f32::NEG_INFINITY);
            for u in window(i, height) {
                for v in window(j, width) {
                    let from = &x.data()[((image * height + u) * width + v) * c..][..c];
                    for (to, from) in to.iter_mut().zip(from) {
                        // NaN wins, as in `max_pool2d`.
                        *to = if *to >= *from || to.is_nan() { *to } else { *from };
                    }
                }
            }
        }
    });
    ChannelsLast::new(y, (n, c, out_height, out_width))
}
