//! The convolution as candle operations: forward, and the gradients in x and w.

use candle_core::{
    CpuStorage, CustomOp1, CustomOp2, CustomOp3, Layout, Result as CandleResult, Shape, Tensor,
};

use super::bias::bias_gradient;
use super::geometry::Geometry;
use super::{cpu, packed};
use crate::ops::roi::{Real, swap};
use crate::ops::storage::{Float, elements};

/// Where a map's channels are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// (N, C, H, W).
    ChannelsFirst,
    /// (N, H, W, C).
    ChannelsLast,
}

impl Order {
    fn shape(self, n: usize, c: usize, [h, w]: [usize; 2]) -> Shape {
        match self {
            Self::ChannelsFirst => Shape::from((n, c, h, w)),
            Self::ChannelsLast => Shape::from((n, h, w, c)),
        }
    }
}

/// The three products of a convolution, for maps in one order.
trait Kernel: Float + Real {
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

impl Kernel for f32 {
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

impl Kernel for f64 {
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

/// A contiguous tensor on the CPU.
type Argument<'a> = (&'a CpuStorage, &'a Layout);

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

    fn forward<T: Kernel>(
        &self,
        x: Argument<'_>,
        w: Argument<'_>,
        bias: Option<Argument<'_>>,
    ) -> CandleResult<(CpuStorage, Shape)> {
        let g = &self.geometry;
        let (x, w) = (elements::<T>(x.0, x.1)?, elements::<T>(w.0, w.1)?);
        let bias = bias.map(|(s, l)| elements::<T>(s, l)).transpose()?;
        let reordered = T::reorder(x, self.x_size(), [self.order, T::ORDER]);
        let y = T::forward(reordered.as_deref().unwrap_or(x), w, bias, g)?;
        let y = T::reorder(&y, self.y_size(), [T::ORDER, self.order]).unwrap_or(y);
        Ok((T::to_cpu_storage_owned(y), self.order.shape(g.batch, g.filters, g.output())))
    }

    fn any_forward(
        &self,
        x: Argument<'_>,
        w: Argument<'_>,
        bias: Option<Argument<'_>>,
    ) -> CandleResult<(CpuStorage, Shape)> {
        match x.0 {
            CpuStorage::F64(_) => self.forward::<f64>(x, w, bias),
            _ => self.forward::<f32>(x, w, bias),
        }
    }

    fn gradients(
        &self,
        x: &Tensor,
        w: &Tensor,
        dy: &Tensor,
    ) -> CandleResult<(Option<Tensor>, Option<Tensor>)> {
        let dx = x.track_op().then(|| w.apply_op2_no_bwd(dy, &InputGradient(*self))).transpose()?;
        let dw = w.track_op().then(|| x.apply_op2_no_bwd(dy, &WeightGradient(*self))).transpose()?;
        Ok((dx, dw))
    }
}

impl CustomOp2 for Conv2d {
    fn name(&self) -> &'static str {
        "conv2d"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
    ) -> CandleResult<(CpuStorage, Shape)> {
        self.any_forward((s1, l1), (s2, l2), None)
    }

    fn bwd(
        &self,
        x: &Tensor,
        w: &Tensor,
        _: &Tensor,
        dy: &Tensor,
    ) -> CandleResult<(Option<Tensor>, Option<Tensor>)> {
        self.gradients(x, w, &dy.contiguous()?)
    }
}

impl CustomOp3 for Conv2d {
    fn name(&self) -> &'static str {
        "conv2d with bias"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
        s3: &CpuStorage,
        l3: &Layout,
    ) -> CandleResult<(CpuStorage, Shape)> {
        self.any_forward((s1, l1), (s2, l2), Some((s3, l3)))
    }

    fn bwd(
        &self,
        x: &Tensor,
        w: &Tensor,
        bias: &Tensor,
        _: &Tensor,
        dy: &Tensor,
    ) -> CandleResult<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let dy = dy.contiguous()?;
        let (dx, dw) = self.gradients(x, w, &dy)?;
        let db = bias.track_op().then(|| dy.apply_op1_no_bwd(&BiasGradient(*self))).transpose()?;
        Ok((dx, dw, db))
    }
}

/// `(w, dy) -> dx`.
struct InputGradient(Conv2d);

impl InputGradient {
    fn run<T: Kernel>(&self, w: Argument<'_>, dy: Argument<'_>) -> CandleResult<CpuStorage> {
        let conv = &self.0;
        let (w, dy) = (elements::<T>(w.0, w.1)?, elements::<T>(dy.0, dy.1)?);
        let reordered = T::reorder(dy, conv.y_size(), [conv.order, T::ORDER]);
        let dx = T::input_gradient(w, reordered.as_deref().unwrap_or(dy), &conv.geometry)?;
        let dx = T::reorder(&dx, conv.x_size(), [T::ORDER, conv.order]).unwrap_or(dx);
        Ok(T::to_cpu_storage_owned(dx))
    }
}

impl CustomOp2 for InputGradient {
    fn name(&self) -> &'static str {
        "conv2d input gradient"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
    ) -> CandleResult<(CpuStorage, Shape)> {
        let dx = match s1 {
            CpuStorage::F64(_) => self.run::<f64>((s1, l1), (s2, l2))?,
            _ => self.run::<f32>((s1, l1), (s2, l2))?,
        };
        let g = &self.0.geometry;
        Ok((dx, self.0.order.shape(g.batch, g.channels, [g.height, g.width])))
    }
}

/// `(x, dy) -> dw`.
struct WeightGradient(Conv2d);

impl WeightGradient {
    fn run<T: Kernel>(&self, x: Argument<'_>, dy: Argument<'_>) -> CandleResult<CpuStorage> {
        let conv = &self.0;
        let (x, dy) = (elements::<T>(x.0, x.1)?, elements::<T>(dy.0, dy.1)?);
        let orders = [conv.order, T::ORDER];
        let (x2, dy2) = (T::reorder(x, conv.x_size(), orders), T::reorder(dy, conv.y_size(), orders));
        let (x, dy) = (x2.as_deref().unwrap_or(x), dy2.as_deref().unwrap_or(dy));
        Ok(T::to_cpu_storage_owned(T::weight_gradient(x, dy, &conv.geometry)?))
    }
}

impl CustomOp2 for WeightGradient {
    fn name(&self) -> &'static str {
        "conv2d weight gradient"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
    ) -> CandleResult<(CpuStorage, Shape)> {
        let dw = match s1 {
            CpuStorage::F64(_) => self.run::<f64>((s1, l1), (s2, l2))?,
            _ => self.run::<f32>((s1, l1), (s2, l2))?,
        };
        let g = &self.0.geometry;
        Ok((dw, Shape::from((g.filters, g.channels, g.kernel[0], g.kernel[1]))))
    }
}

/// `dy -> db`.
struct BiasGradient(Conv2d);

impl CustomOp1 for BiasGradient {
    fn name(&self) -> &'static str {
        "conv2d bias gradient"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> CandleResult<(CpuStorage, Shape)> {
        let Conv2d { geometry, order } = self.0;
        let size = (geometry.filters, geometry.pixels());
        let db = match storage {
            CpuStorage::F64(_) => {
                CpuStorage::F64(bias_gradient(elements::<f64>(storage, layout)?, size, order))
            }
            _ => CpuStorage::F32(bias_gradient(elements::<f32>(storage, layout)?, size, order)),
        };
        Ok((db, Shape::from(geometry.filters)))
    }
}
