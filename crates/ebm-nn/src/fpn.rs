//! Feature pyramid network (Lin et al., 2017) with torchvision's parameter names.

use candle_core::Tensor;
use candle_nn::VarBuilder;
use ebm_ops::nhwc;
use ebm_ops::nn::{Conv2d, Conv2dConfig};

use crate::onnx::{Attribute, Graph, Value};
use crate::{Error, Result, init};

/// Feature pyramid over a backbone's maps: M_i = lateral_i(C_i) + upsample(M_{i+1}), P_i = output_i(M_i), and one
/// coarser level that takes every other pixel of the last P.
///
/// The parameters have torchvision's names: `inner_blocks.{i}.0` for the lateral 1×1 and `layer_blocks.{i}.0` for
/// the output 3×3 convolutions, finest first, each with `weight` and `bias`.
#[derive(Clone, Debug)]
pub struct Fpn {
    laterals: Vec<Conv2d>,
    outputs: Vec<Conv2d>,
}

impl Fpn {
    /// Creates a pyramid over maps with `inputs` channels, finest first. All levels have `channels` channels. The
    /// initial weights are Kaiming-uniform with a = 1, and the initial biases 0.
    ///
    /// # Errors
    /// If there are no inputs, or `vb` refuses a tensor.
    pub fn new(inputs: &[usize], channels: usize, vb: VarBuilder) -> Result<Self> {
        Self::with_outputs(inputs, channels, 3, vb)
    }

    /// Creates a pyramid like [`new`](Self::new) with an odd `kernel` of the output convolutions.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new).
    pub fn with_outputs(inputs: &[usize], channels: usize, kernel: usize, vb: VarBuilder) -> Result<Self> {
        if inputs.is_empty() {
            return Err(Error::Argument { op: "Fpn::new", reason: "there are no input maps".to_owned() });
        }
        let layers = |name: &str, kernel, channels_in: &dyn Fn(usize) -> usize| {
            (0..inputs.len())
                .map(|i| {
                    let config = Conv2dConfig {
                        weight: init::kaiming_uniform(1.),
                        bias: Some(init::constant(0.)),
                        ..Conv2dConfig::same(channels_in(i), channels, kernel)
                    };
                    Conv2d::new(config, vb.pp(format!("{name}.{i}.0")))
                })
                .collect::<Result<Vec<_>>>()
        };
        let laterals = layers("inner_blocks", 1, &|i| inputs[i])?;
        let outputs = layers("layer_blocks", kernel, &|_| channels)?;
        Ok(Self { laterals, outputs })
    }

    /// Maps \[C2, …, C5\], each (N, inputs\[i\], H_i, W_i), to \[P2, …, P5, P6\], each (N, channels, H_i, W_i).
    /// P6 has half of P5's size, rounded up. A coarser map is enlarged to the size of the next finer one by
    /// nearest pixels.
    ///
    /// # Errors
    /// If there are more or fewer maps than inputs, or one has another number of channels.
    pub fn forward(&self, maps: &[Tensor]) -> Result<Vec<Tensor>> {
        let levels =
            self.forward_channels_last(&maps.iter().map(nhwc::from_nchw).collect::<Result<Vec<_>>>()?)?;
        levels.iter().map(nhwc::to_nchw).collect()
    }

    /// Computes [`forward`](Self::forward) with the channels innermost: (N, H_i, W_i, inputs\[i\]) -> (N, H_i,
    /// W_i, channels).
    ///
    /// # Errors
    /// The errors of [`forward`](Self::forward).
    pub fn forward_channels_last(&self, maps: &[Tensor]) -> Result<Vec<Tensor>> {
        if maps.len() != self.laterals.len() {
            let reason = format!("{} maps where {} are expected", maps.len(), self.laterals.len());
            return Err(Error::Argument { op: "Fpn::forward", reason });
        }
        let mut levels = Vec::with_capacity(maps.len() + 1);
        let mut above: Option<Tensor> = None;
        for ((map, lateral), output) in maps.iter().zip(&self.laterals).zip(&self.outputs).rev() {
            let (_, height, width, _) = map.dims4()?;
            let enlarged = above.map(|above| nhwc::upsample_nearest2d(&above, height, width)).transpose()?;
            let merged = lateral.forward_channels_last(map, enlarged.as_ref(), false, false)?;
            let level = output.forward_channels_last(&merged, None, false, false)?;
            if levels.is_empty() {
                levels.push(nhwc::max_pool2d(&level, 1, 2, 0)?);
            }
            levels.push(level);
            above = Some(merged);
        }
        levels.reverse();
        Ok(levels)
    }

    /// Adds the pyramid to `graph`, without the coarsest level.
    ///
    /// # Errors
    /// If there are more or fewer maps than inputs, or a parameter cannot be read.
    pub fn onnx(&self, graph: &mut Graph, maps: &[Value]) -> Result<Vec<Value>> {
        /// Nearest pixels: pixel i comes from pixel ⌊i · (old size) / (new size)⌋.
        const NEAREST: [(&str, Attribute<'_>); 3] = [
            ("mode", Attribute::Text("nearest")),
            ("coordinate_transformation_mode", Attribute::Text("asymmetric")),
            ("nearest_mode", Attribute::Text("floor")),
        ];
        if maps.len() != self.laterals.len() {
            let reason = format!("{} maps where {} are expected", maps.len(), self.laterals.len());
            return Err(Error::Argument { op: "Fpn::onnx", reason });
        }
        let mut levels = Vec::with_capacity(maps.len());
        let mut above: Option<Value> = None;
        for ((map, lateral), output) in maps.iter().zip(&self.laterals).zip(&self.outputs).rev() {
            let mut merged = graph.conv2d(lateral, map, None, false)?;
            if let Some(above) = &above {
                // Both maps have the pyramid's channels.
                let (size, none) = (graph.node("Shape", &[&merged], &[]), Value::none());
                let enlarged = graph.node("Resize", &[above, &none, &none, &size], &NEAREST);
                merged = graph.node("Add", &[&merged, &enlarged], &[]);
            }
            levels.push(graph.conv2d(output, &merged, None, false)?);
            above = Some(merged);
        }
        levels.reverse();
        Ok(levels)
    }
}
