//! The convolution in f32 on the CPU as candle operations, of maps with the channels innermost, with the gradients in x, w
//! and the bias.

use candle_core::{CpuStorage, Result as CandleResult, Shape, Tensor};

use super::bias::bias_gradient;
use super::geometry::Geometry;
use super::packed;
use crate::kernel::{Argument, Gradients, Kernel, slices};

#[derive(Clone, Copy)]
pub(super) struct Conv2d {
    pub(super) geometry: Geometry,
    pub(super) made: Made,
}

/// The result of the kernel, which is the map or one of the gradients.
#[derive(Clone, Copy)]
pub(super) enum Made {
    /// `(x, w) -> y`, with the bias as an optional third argument.
    Map,
    /// `(w, dy) -> dx`.
    InputGradient,
    /// `(x, dy) -> dw`.
    WeightGradient,
    /// `dy -> db`.
    BiasGradient,
}

impl<const N: usize> Kernel<N> for Conv2d {
    const NAME: &'static str = "conv2d";

    fn shape(&self, _: [&Shape; N]) -> CandleResult<Shape> {
        let (g, [height, width]) = (&self.geometry, self.geometry.output());
        Ok(match self.made {
            Made::Map => Shape::from((g.batch, height, width, g.filters)),
            Made::InputGradient => Shape::from((g.batch, g.height, g.width, g.channels)),
            Made::WeightGradient => Shape::from((g.filters, g.channels, g.kernel[0], g.kernel[1])),
            Made::BiasGradient => Shape::from(g.filters),
        })
    }

    fn cpu(&self, arguments: [Argument<'_>; N]) -> CandleResult<CpuStorage> {
        let (g, all) = (&self.geometry, slices(arguments)?);
        Ok(CpuStorage::F32(match self.made {
            Made::Map => packed::forward(all[0], all[1], all.get(2).copied(), g)?,
            Made::InputGradient => packed::input_gradient(all[0], all[1], g)?,
            Made::WeightGradient => packed::weight_gradient(all[0], all[1], g)?,
            Made::BiasGradient => bias_gradient(all[0], g.filters),
        }))
    }

    fn gradients(&self, arguments: [&Tensor; N], _: &Tensor, dy: &Tensor) -> Gradients<N> {
        let dy = dy.contiguous()?;
        let of = |made| Self { made, ..*self };
        let mut gradients = [const { None }; N];
        for (i, (gradient, argument)) in gradients.iter_mut().zip(arguments).enumerate() {
            if argument.track_op() {
                *gradient = Some(match i {
                    0 => of(Made::InputGradient).run([arguments[1], &dy])?,
                    1 => of(Made::WeightGradient).run([arguments[0], &dy])?,
                    _ => of(Made::BiasGradient).run([&dy])?,
                });
            }
        }
        Ok(gradients)
    }
}
