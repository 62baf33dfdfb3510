//! Residual networks with torchvision's parameter names.

mod block;

pub use block::Block;

use candle_core::Tensor;
use candle_nn::VarBuilder;
use ebm_ops::nn::{BatchNormConfig, Conv2d, Conv2dConfig};
use ebm_ops::{Workspace, nhwc};

use self::block::{Residual, Sizes, conv_norm};
use crate::onnx::{Attribute, Graph, Value};
use crate::{Error, Result, run_blocks};

/// Normalisation after each convolution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Norm {
    /// Trained batch normalisation.
    Train,
    /// Batch normalisation as a fixed affine map, like torchvision's `FrozenBatchNorm2d`. No gradient reaches its
    /// parameters; `store.freeze(is_norm)` also removes them from an optimiser's list.
    Frozen {
        /// Constant that is added to the variance: 1e-5, or 0 for Detectron's weights.
        eps: f64,
    },
    /// No normalisation: the convolution has a bias, for weights with a folded normalisation.
    Folded,
}

impl Norm {
    fn config(self) -> Option<BatchNormConfig> {
        match self {
            Self::Train => Some(BatchNormConfig::TRAIN),
            Self::Frozen { eps } => Some(BatchNormConfig::frozen(eps)),
            Self::Folded => None,
        }
    }
}

/// Returns whether a parameter or buffer of a [`ResNet`] belongs to a normalisation; `name` may have any prefix.
/// [`Norm::Frozen`] never trains these, and some recipes exempt them from weight decay.
pub fn is_norm(name: &str) -> bool {
    let mut parts = name.rsplit('.').skip(1);
    match parts.next() {
        Some("1") => parts.next() == Some("downsample"),
        Some(layer) => matches!(layer.strip_prefix("bn"), Some("1" | "2" | "3")),
        None => false,
    }
}

/// Structure of a [`ResNet`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResNetConfig {
    /// Kind of the residual blocks.
    pub block: Block,
    /// Number of blocks in each stage. The stages from the first 0 on are not built.
    pub layers: [usize; 4],
    /// Channels of the stem and of the first stage's inner convolutions; 64 in the published networks.
    pub width: usize,
    /// Whether a bottleneck's stride is in its first 1×1 convolution (the original, of MSRA and Caffe2) and not
    /// in its 3×3 convolution (torchvision).
    pub stride_in_1x1: bool,
    /// Normalisation after each convolution.
    pub norm: Norm,
}

impl ResNetConfig {
    /// Returns the configuration of ResNet-18.
    pub fn resnet18(norm: Norm) -> Self {
        Self { block: Block::Basic, layers: [2, 2, 2, 2], width: 64, stride_in_1x1: false, norm }
    }

    /// Returns the configuration of ResNet-34.
    pub fn resnet34(norm: Norm) -> Self {
        Self { layers: [3, 4, 6, 3], ..Self::resnet18(norm) }
    }

    /// Returns the configuration of ResNet-50 with the stride in the 3×3 convolutions, as in torchvision.
    pub fn resnet50(norm: Norm) -> Self {
        Self { block: Block::Bottleneck, ..Self::resnet34(norm) }
    }

    /// Returns the configuration of ResNet-50 with the stride in the first 1×1 convolutions, as in Detectron.
    pub fn resnet50_msra(norm: Norm) -> Self {
        Self { stride_in_1x1: true, ..Self::resnet50(norm) }
    }

    /// Removes the stages after the first `stages`.
    pub fn up_to(mut self, stages: usize) -> Self {
        self.layers.iter_mut().skip(stages).for_each(|blocks| *blocks = 0);
        self
    }

    /// Returns the channels of each stage's output; the strides are 4, 8, 16 and 32.
    pub fn channels(&self) -> [usize; 4] {
        [1, 2, 4, 8].map(|factor| factor * self.width * self.block.expansion())
    }
}

/// Residual network without its classifier (He et al., 2016).
///
/// The parameters have torchvision's names: `conv1`, `bn1`, `layer{1..4}.{i}.conv{1..3}`, `.bn{1..3}`,
/// `.downsample.{0,1}`.
#[derive(Clone, Debug)]
pub struct ResNet {
    stem: Conv2d,
    stages: Vec<Vec<Residual>>,
}

impl ResNet {
    /// Creates the network with the parameters of `vb`.
    ///
    /// # Errors
    /// If the width is 0, or `vb` refuses a tensor.
    pub fn new(config: &ResNetConfig, vb: VarBuilder) -> Result<Self> {
        if config.width == 0 {
            return Err(Error::Argument { op: "ResNet::new", reason: "the width is 0".to_owned() });
        }
        let norm = config.norm.config();
        let stem = Conv2dConfig { stride: 2, ..Conv2dConfig::same(3, config.width, 7) };
        let stem = conv_norm(stem, norm, ["conv1", "bn1"], &vb)?;
        let mut input = config.width;
        let mut stages = Vec::new();
        for (stage, &blocks) in config.layers.iter().enumerate().take_while(|(_, blocks)| **blocks > 0) {
            let inner = config.width << stage;
            let mut residuals = Vec::with_capacity(blocks);
            for block in 0..blocks {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                let sizes = Sizes { input, inner, stride, in_1x1: config.stride_in_1x1 };
                let vb = vb.pp(format!("layer{}.{block}", stage + 1));
                residuals.push(Residual::new(config.block, sizes, norm, &vb)?);
                input = inner * config.block.expansion();
            }
            stages.push(residuals);
        }
        Ok(Self { stem, stages })
    }

    /// Maps an image (N, 3, H, W) to the outputs \[C2, C3, C4, C5\] of the four stages, (N, channels\[i\], H/4,
    /// W/4) to (…, H/32, W/32), sizes rounded up. With `train`, normalisation that is not frozen uses and records
    /// the batch's statistics.
    ///
    /// # Errors
    /// If a stage was not built, or `x` has another number of channels.
    pub fn forward(&self, x: &Tensor, train: bool) -> Result<[Tensor; 4]> {
        let maps = self.forward_stages(x, 4, train)?;
        <[Tensor; 4]>::try_from(maps).map_err(|maps| missing(4, maps.len()))
    }

    /// Returns the outputs of the first `stages` stages; later ones are not computed. An output without a
    /// gradient is stored with the channels innermost.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn forward_stages(&self, x: &Tensor, stages: usize, train: bool) -> Result<Vec<Tensor>> {
        let maps = self.forward_channels_last(x, stages, train)?;
        maps.iter().map(nhwc::to_nchw).collect()
    }

    /// Computes [`forward_stages`](Self::forward_stages) with the channels innermost, (N, H/4, W/4,
    /// channels\[0\]) and so on, which is the order of the computation.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn forward_channels_last(&self, x: &Tensor, stages: usize, train: bool) -> Result<Vec<Tensor>> {
        if stages > self.stages.len() {
            return Err(missing(stages, self.stages.len()));
        }
        x.dims4()?;
        let x = nhwc::from_nchw(x)?;
        let stem = self.stem.forward_channels_last(&x, None, true, train)?;
        let mut x = nhwc::max_pool2d(&stem, 3, 2, 1)?;
        Workspace::shared().recycle_input(stem, &x);
        let mut maps = Vec::with_capacity(stages);
        for stage in &self.stages[..stages] {
            let y = run_blocks(stage, &x, |block, x| block.forward(x, train))?;
            let input = std::mem::replace(&mut x, y);
            // The input of a later stage is the output of the stage before, which is kept.
            if maps.is_empty() {
                Workspace::shared().recycle_input(input, &x);
            }
            maps.push(x.clone());
        }
        Ok(maps)
    }

    /// Adds the network to `graph`: (N, 3, H, W) -> (N, channels\[0\], H/4, W/4) and so on for every stage.
    ///
    /// # Errors
    /// If a parameter cannot be read.
    pub fn onnx(&self, graph: &mut Graph, x: &Value) -> Result<Vec<Value>> {
        let stem = graph.conv2d(&self.stem, x, None, true)?;
        let pool = [
            ("kernel_shape", Attribute::Ints(&[3, 3])),
            ("strides", Attribute::Ints(&[2, 2])),
            ("pads", Attribute::Ints(&[1, 1, 1, 1])),
        ];
        let mut x = graph.node("MaxPool", &[&stem], &pool);
        let mut found = Vec::with_capacity(self.stages.len());
        for stage in &self.stages {
            for block in stage {
                x = block.onnx(graph, &x)?;
            }
            found.push(x.clone());
        }
        Ok(found)
    }
}

fn missing(wanted: usize, built: usize) -> Error {
    let reason = format!("{wanted} stages were requested and only {built} were built; build more stages");
    Error::Argument { op: "ResNet::forward", reason }
}
