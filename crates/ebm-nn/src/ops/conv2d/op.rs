//! The convolution as candle operations: forward, and the gradients in x and w.

use candle_core::{CpuStorage, Result as CandleResult, Shape, Tensor};

use super::bias::bias_gradient;
use super::geometry::Geometry;
use super::{cpu, packed};
use crate::ops::float::Float;
use crate::ops::kernel::{Argument, Kernel, by_type};
use crate::ops::layout::{Order, swap};

/// The three products of a convolution, for maps in one order.
trait Products: Float {
    const ORDER: Order;

    fn forward(x: &[Self], w: &[Self], bias: Option<&[Self]>, g: &Geometry) -> CandleResult<Vec<Self>>;
    fn input_gradient(w: &[Self], dy: &[Self], g: &Geometry) -> CandleResult<Vec<Self>>;
    fn weight_gradient(x: &[Self], dy: &[Self], g: &Geometry) -> CandleResult<Vec<Self>>;

    /// Maps of `c` channels and `pixels` each, from one order to another.
    fn reorder(
        data: &[Self],
        (n, c, pixels): (usize, usize, usize),
        [from, to]: [Order; 2],
    ) -> Option<Vec<Self>> {
        match (from, to) {
            (Order::ChannelsFirst, Order::ChannelsLast) => Some(swap(data, n, c, pixels)),
            (Order::ChannelsLast, Order::ChannelsFirst) => Some(swap(data, n, pixels, c)),
            _ => None,
        }
    }
}

impl Products for f32 {
    const ORDER: Order = Order::ChannelsLast;

    fn forward(x: &[f32], w: &[f32], bias: Option<&[f32]>, g: &Geometry) -> CandleResult<Vec<f32>> {
        packed::forward(x, w, bias, g)
    }

    fn input_gradient(w: &[f32], dy: &[f32], g: &Geometry) -> CandleResult<Vec<f32>> {
        packed::input_gradient(w, dy, g)
    }

    fn weight_gradient(x: &[f32], dy: &[f32], g: &Geometry) -> CandleResult<Vec<f32>> {
        Ok(packed::weight_gradient(x, dy, g))
    }
}

impl Products for f64 {
    const ORDER: Order = Order::ChannelsFirst;

    fn forward(x: &[f64], w: &[f64], bias: Option<&[f64]>, g: &Geometry) -> CandleResult<Vec<f64>> {
        cpu::forward(x, w, bias, g)
    }

    fn input_gradient(w: &[f64], dy: &[f64], g: &Geometry) -> CandleResult<Vec<f64>> {
        cpu::input_gradient(w, dy, g)
    }

    fn weight_gradient(x: &[f64], dy: &[f64], g: &Geometry) -> CandleResult<Vec<f64>> {
        cpu::weight_gradient(x, dy, g)
    }
}

/// The convolution of x and w, and with a third argument, the bias.
#[derive(Clone, Copy)]
pub(super) struct Conv2d {
    pub(super) geometry: Geometry,
    /// That of x and of the result.
    pub(super) order: Order,
}

impl Conv2d {
    fn x_size(&self) -> (usize, usize, usize) {
        let g = &self.geometry;
        (g.batch, g.channels, g.plane())
    }

    fn y_size(&self) -> (usize, usize, usize) {
        let g = &self.geometry;
        (g.batch, g.filters, g.pixels())
    }

    fn forward<T: Products>(&self, x: &[T], w: &[T], bias: Option<&[T]>) -> CandleResult<Vec<T>> {
        let reordered = T::reorder(x, self.x_size(), [self.order, T::ORDER]);
        let y = T::forward(reordered.as_deref().unwrap_or(x), w, bias, &self.geometry)?;
        Ok(T::reorder(&y, self.y_size(), [T::ORDER, self.order]).unwrap_or(y))
    }

    fn input_gradient<T: Products>(&self, w: &[T], dy: &[T]) -> CandleResult<Vec<T>> {
        let reordered = T::reorder(dy, self.y_size(), [self.order, T::ORDER]);
        let dx = T::input_gradient(w, reordered.as_deref().unwrap_or(dy), &self.geometry)?;
        Ok(T::reorder(&dx, self.x_size(), [T::ORDER, self.order]).unwrap_or(dx))
    }

    fn weight_gradient<T: Products>(&self, x: &[T], dy: &[T]) -> CandleResult<Vec<T>> {
        let orders = [self.order, T::ORDER];
        let (x2, dy2) = (T::reorder(x, self.x_size(), orders), T::reorder(dy, self.y_size(), orders));
        T::weight_gradient(x2.as_deref().unwrap_or(x), dy2.as_deref().unwrap_or(dy), &self.geometry)
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
        by_type!("conv2d", arguments, |all| self.forward(all[0], all[1], all.get(2).copied())?)
    }

    fn gradients(
        &self,
        arguments: [&Tensor; N],
        _: &Tensor,
        dy: &Tensor,
    ) -> CandleResult<[Option<Tensor>; N]> {
        let dy = dy.contiguous()?;
        let mut gradients = [const { None }; N];
        for (i, (gradient, argument)) in gradients.iter_mut().zip(arguments).enumerate() {
            if argument.track_op() {
                *gradient = Some(match i {
                    0 => InputGradient(*self).run([arguments[1], &dy])?,
                    1 => WeightGradient(*self).run([arguments[0], &dy])?,
                    _ => BiasGradient(*self).run([&dy])?,
                });
            }
        }
        Ok(gradients)
    }
}

/// `(w, dy) -> dx`.
struct InputGradient(Conv2d);

impl Kernel<2> for InputGradient {
    fn name(&self) -> &'static str {
        "conv2d input gradient"
    }

    fn shape(&self, _: [&Shape; 2]) -> CandleResult<Shape> {
        let g = &self.0.geometry;
        Ok(self.0.order.shape(g.batch, g.channels, [g.height, g.width]))
    }

    fn cpu(&self, arguments: [Argument<'_>; 2]) -> CandleResult<CpuStorage> {
        by_type!("conv2d input gradient", arguments, |[w, dy]| self.0.input_gradient(w, dy)?)
    }
}

/// `(x, dy) -> dw`.
struct WeightGradient(Conv2d);

impl Kernel<2> for WeightGradient {
    fn name(&self) -> &'static str {
        "conv2d weight gradient"
    }

    fn shape(&self, _: [&Shape; 2]) -> CandleResult<Shape> {
        let g = &self.0.geometry;
        Ok(Shape::from((g.filters, g.channels, g.kernel[0], g.kernel[1])))
    }

    fn cpu(&self, arguments: [Argument<'_>; 2]) -> CandleResult<CpuStorage> {
        by_type!("conv2d weight gradient", arguments, |[x, dy]| self.0.weight_gradient(x, dy)?)
    }
}

/// `dy -> db`.
struct BiasGradient(Conv2d);

impl Kernel<1> for BiasGradient {
    fn name(&self) -> &'static str {
        "conv2d bias gradient"
    }

    fn shape(&self, _: [&Shape; 1]) -> CandleResult<Shape> {
        Ok(Shape::from(self.0.geometry.filters))
    }

    fn cpu(&self, arguments: [Argument<'_>; 1]) -> CandleResult<CpuStorage> {
        let Conv2d { geometry, order } = self.0;
        let size = (geometry.filters, geometry.pixels());
        by_type!("conv2d bias gradient", arguments, |[dy]| bias_gradient(dy, size, order))
    }
}
