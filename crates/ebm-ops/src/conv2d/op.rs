//! The convolution in f32 on the CPU as candle operations, of maps with the channels innermost: forward, and the
//! gradients in x, w and the bias.

use candle_core::{CpuStorage, Result as CandleResult, Shape, Tensor};

use super::bias::bias_gradient;
use super::geometry::Geometry;
use super::packed;
use crate::kernel::{Argument, Gradients, Kernel, slices};

/// The convolution of x and w, and with a third argument, the bias.
#[derive(Clone, Copy)]
pub(super) struct Conv2d(pub(super) Geometry);

impl<const N: usize> Kernel<N> for Conv2d {
    const NAME: &'static str = "conv2d";

    fn shape(&self, _: [&Shape; N]) -> CandleResult<Shape> {
        let [height, width] = self.0.output();
        Ok(Shape::from((self.0.batch, height, width, self.0.filters)))
    }

    fn cpu(&self, arguments: [Argument<'_>; N]) -> CandleResult<CpuStorage> {
        let all = slices(arguments)?;
        packed::forward(all[0], all[1], all.get(2).copied(), &self.0).map(CpuStorage::F32)
    }

    fn gradients(&self, arguments: [&Tensor; N], _: &Tensor, dy: &Tensor) -> Gradients<N> {
        let dy = dy.contiguous()?;
        let of = |of| Gradient { geometry: self.0, of };
        let mut gradients = [const { None }; N];
        for (i, (gradient, argument)) in gradients.iter_mut().zip(arguments).enumerate() {
            if argument.track_op() {
                *gradient = Some(match i {
                    0 => of(Of::Input).run([arguments[1], &dy])?,
                    1 => of(Of::Weight).run([arguments[0], &dy])?,
                    _ => of(Of::Bias).run([&dy])?,
                });
            }
        }
        Ok(gradients)
    }
}

/// `(w, dy) -> dx`, `(x, dy) -> dw`, or `dy -> db`.
struct Gradient {
    geometry: Geometry,
    of: Of,
}

/// What a gradient is in.
enum Of {
    Input,
    Weight,
    Bias,
}

impl<const N: usize> Kernel<N> for Gradient {
    const NAME: &'static str = "conv2d gradient";

    fn shape(&self, _: [&Shape; N]) -> CandleResult<Shape> {
        let g = &self.geometry;
        Ok(match self.of {
            Of::Input => Shape::from((g.batch, g.height, g.width, g.channels)),
            Of::Weight => Shape::from((g.filters, g.channels, g.kernel[0], g.kernel[1])),
            Of::Bias => Shape::from(g.filters),
        })
    }

    fn cpu(&self, arguments: [Argument<'_>; N]) -> CandleResult<CpuStorage> {
        let (g, all) = (&self.geometry, slices(arguments)?);
        Ok(CpuStorage::F32(match self.of {
            Of::Input => packed::input_gradient(all[0], all[1], g)?,
            Of::Weight => packed::weight_gradient(all[0], all[1], g)?,
            Of::Bias => bias_gradient(all[0], g.filters),
        }))
    }
}
