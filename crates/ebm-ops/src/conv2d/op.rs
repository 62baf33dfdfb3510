//! The convolution in f32 on the CPU as candle operations: forward, and the gradients in x, w and the bias.

use std::borrow::Cow;

use candle_core::{CpuStorage, Result as CandleResult, Shape, Tensor};

use super::bias::bias_gradient;
use super::geometry::Geometry;
use super::packed;
use crate::kernel::{Argument, Kernel, slices};
use crate::layout::{Order, swap};

/// The convolution of x and w, and with a third argument, the bias.
#[derive(Clone, Copy)]
pub(super) struct Conv2d {
    pub(super) geometry: Geometry,
    /// That of x and of the result.
    pub(super) order: Order,
}

impl Conv2d {
    /// Maps of so many channels and pixels with the channels innermost, as the products take them.
    fn innermost<'a>(&self, maps: &'a [f32], channels: usize, pixels: usize) -> Cow<'a, [f32]> {
        match self.order {
            Order::ChannelsFirst => swap(maps, self.geometry.batch, channels, pixels).into(),
            Order::ChannelsLast => maps.into(),
        }
    }

    /// The inverse of [`innermost`](Self::innermost).
    fn in_order(&self, maps: Vec<f32>, channels: usize, pixels: usize) -> CpuStorage {
        CpuStorage::F32(match self.order {
            Order::ChannelsFirst => swap(&maps, self.geometry.batch, pixels, channels),
            Order::ChannelsLast => maps,
        })
    }

    fn x<'a>(&self, x: &'a [f32]) -> Cow<'a, [f32]> {
        self.innermost(x, self.geometry.channels, self.geometry.plane())
    }

    fn y<'a>(&self, y: &'a [f32]) -> Cow<'a, [f32]> {
        self.innermost(y, self.geometry.filters, self.geometry.pixels())
    }
}

impl<const N: usize> Kernel<N> for Conv2d {
    fn name(&self) -> &'static str {
        "conv2d"
    }

    fn shape(&self, _: [&Shape; N]) -> CandleResult<Shape> {
        let g = &self.geometry;
        Ok(self.order.shape(g.batch, g.filters, g.output()))
    }

    fn cpu(&self, arguments: [Argument<'_>; N]) -> CandleResult<CpuStorage> {
        let (g, all) = (&self.geometry, slices(arguments)?);
        let y = packed::forward(&self.x(all[0]), all[1], all.get(2).copied(), g)?;
        Ok(self.in_order(y, g.filters, g.pixels()))
    }

    fn gradients(
        &self,
        arguments: [&Tensor; N],
        _: &Tensor,
        dy: &Tensor,
    ) -> CandleResult<[Option<Tensor>; N]> {
        let dy = dy.contiguous()?;
        let of = |of| Gradient { conv: *self, of };
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
    conv: Conv2d,
    of: Of,
}

/// What a gradient is in.
enum Of {
    Input,
    Weight,
    Bias,
}

impl<const N: usize> Kernel<N> for Gradient {
    fn name(&self) -> &'static str {
        "conv2d gradient"
    }

    fn shape(&self, _: [&Shape; N]) -> CandleResult<Shape> {
        let Conv2d { geometry: g, order } = &self.conv;
        Ok(match self.of {
            Of::Input => order.shape(g.batch, g.channels, [g.height, g.width]),
            Of::Weight => Shape::from((g.filters, g.channels, g.kernel[0], g.kernel[1])),
            Of::Bias => Shape::from(g.filters),
        })
    }

    fn cpu(&self, arguments: [Argument<'_>; N]) -> CandleResult<CpuStorage> {
        let (conv, g, all) = (&self.conv, &self.conv.geometry, slices(arguments)?);
        Ok(match self.of {
            Of::Input => {
                conv.in_order(packed::input_gradient(all[0], &conv.y(all[1]), g)?, g.channels, g.plane())
            }
            Of::Weight => CpuStorage::F32(packed::weight_gradient(&conv.x(all[0]), &conv.y(all[1]), g)?),
            Of::Bias => CpuStorage::F32(bias_gradient(all[0], g, conv.order)),
        })
    }
}
