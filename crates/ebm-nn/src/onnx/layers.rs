//! Layers of [`ebm_ops::nn`] as standard operators.

use ebm_ops::nn::{Chain, Conv2d};
use ebm_ops::{Activation, Padding};

use super::{Attribute, Graph, Value};
use crate::Result;

impl Graph {
    /// Adds [`Conv2d::forward`], followed by ReLU or the layer's other activation if `relu`.
    ///
    /// # Errors
    /// When a parameter cannot be read.
    pub fn conv2d(
        &mut self,
        layer: &Conv2d,
        x: &Value,
        residual: Option<&Value>,
        relu: bool,
    ) -> Result<Value> {
        let (weight, bias) = layer.folded()?;
        let (outputs, kernel) = (weight.dim(0)?, weight.dim(3)? as i64);
        let mut inputs = vec![x.clone(), self.constant(&weight)?];
        if let Some(bias) = &bias {
            inputs.push(self.constant(bias)?);
        }
        let (sides, strides) = ([kernel; 2], [layer.stride() as i64; 2]);
        let zeros = if let Padding::Each(zeros) = layer.padding() { [zeros as i64; 4] } else { [0; 4] };
        let group = if layer.is_depthwise() { outputs as i64 } else { 1 };
        let padding = match layer.padding() {
            Padding::Each(_) => ("pads", Attribute::Ints(&zeros)),
            // An odd zero is behind the map.
            Padding::Same => ("auto_pad", Attribute::Text("SAME_UPPER")),
        };
        let attributes = [
            ("kernel_shape", Attribute::Ints(&sides)),
            ("strides", Attribute::Ints(&strides)),
            ("group", Attribute::Int(group)),
            padding,
        ];
        let mut y = self.node("Conv", &inputs.iter().collect::<Vec<_>>(), &attributes);
        if let Some(residual) = residual {
            y = self.node("Add", &[&y, residual], &[]);
        }
        if !relu {
            return Ok(y);
        }
        if let Some(slope) = layer.slope() {
            let slope = self.constant(&slope.reshape(((), 1, 1))?)?;
            return Ok(self.node("PRelu", &[&y, &slope], &[]));
        }
        Ok(match layer.rectifier() {
            None | Some(Activation::None) => y,
            Some(Activation::Relu) => self.node("Relu", &[&y], &[]),
            Some(Activation::Relu6) => {
                let (low, high) = (self.number(0.0), self.number(6.0));
                self.node("Clip", &[&y, &low, &high], &[])
            }
        })
    }

    /// Adds [`Chain::forward`].
    ///
    /// # Errors
    /// When a parameter cannot be read.
    pub fn chain(&mut self, chain: &Chain, x: &Value) -> Result<Value> {
        chain.layers().try_fold(x.clone(), |y, (layer, relu, residual)| {
            self.conv2d(layer, &y, residual.then_some(x), relu)
        })
    }
}
