//! Pooling of boxes on tensors.

use candle_core::{CpuStorage, DType, Shape, Storage, Tensor};

#[cfg(feature = "cuda")]
use super::cuda::Weights;
use super::rois::{Roi, Span, parse};
use super::weights::{AxisWeights, BoxWeights};
use super::{prroi_pool, roi_align};
#[cfg(feature = "cuda")]
use crate::cuda;
use crate::error::{Error, Result};
use crate::float::Float;
use crate::kernel::{Apply, Argument, Gradients, Kernel, by_type};
use crate::layout::{ChannelsLast, Order, channels_last};
use crate::storage::elements;

type CandleResult<T> = candle_core::Result<T>;

/// Weights of the pixels in the bins of a box along either axis, in which PrRoIPool and RoIAlign differ.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Axes {
    /// Means of tent functions, which are differentiable in the box.
    Precise,
    /// Means of interpolated samples.
    Align { sampling_ratio: usize, aligned: bool },
}

impl Axes {
    /// Returns the name of the operation.
    fn op(self) -> &'static str {
        if self.moves() { prroi_pool::OP } else { "roi_align" }
    }

    /// Returns `true` if the weights are differentiable in the box.
    fn moves(self) -> bool {
        matches!(self, Self::Precise)
    }

    /// Fills the weights of an axis of a box by bin, on a map of `size` pixels along it.
    fn axis<T: Float>(self, span: Span, bins: usize, size: usize, to: &mut AxisWeights<T>) {
        match self {
            Self::Precise => prroi_pool::axis(span, bins, size, to),
            Self::Align { sampling_ratio, aligned } => {
                roi_align::axis(sampling_ratio, aligned, span, bins, size, to);
            }
        }
    }
}

/// Kernel `(features (N, C, H, W), rois (R, 5)) -> (R, C, ph, pw)`. With the gradient in the result as a third argument, it
/// gives the gradient in the rois, (R, 5).
#[derive(Clone, Copy)]
pub struct RoiPool {
    pub(crate) axes: Axes,
    pub(crate) out: (usize, usize),
    pub(crate) spatial_scale: f64,
}

impl RoiPool {
    /// Pools the boxes. See [`prroi_pool`](crate::roi::prroi_pool()) and [`roi_align`](crate::roi::roi_align()).
    pub(crate) fn forward(self, features: &Tensor, rois: &Tensor) -> Result<Tensor> {
        self.check(features, rois)?;
        // The gradient in the boxes reads the map again.
        let features = match self.axes.moves() && rois.track_op() {
            true => channels_last(features)?,
            false => readable(features)?,
        };
        Ok(self.apply([&features, &rois.contiguous()?])?)
    }

    /// Checks shapes, types and settings, and the rows of boxes if they can be read without a transfer.
    fn check(&self, features: &Tensor, rois: &Tensor) -> Result<()> {
        let refuse = |reason: String| Err(Error::Argument { op: self.axes.op(), reason });
        let &[images, _, _, _] = features.dims() else {
            return refuse(format!("features must be (N, C, H, W), not {:?}", features.dims()));
        };
        let &[_, 5] = rois.dims() else {
            return refuse(format!("rois must be (R, 5): image, x0, y0, x1, y1; not {:?}", rois.dims()));
        };
        if !matches!(features.dtype(), DType::F32 | DType::F64) || features.dtype() != rois.dtype() {
            let (features, rois) = (features.dtype(), rois.dtype());
            return refuse(format!(
                "features and rois must both be f32 or both f64, not {features:?} and {rois:?}"
            ));
        }
        check_settings(self.axes.op(), self.out, self.spatial_scale)?;
        let rois = rois.contiguous()?;
        let (storage, layout) = rois.storage_and_layout();
        if let Storage::Cpu(storage) = &*storage {
            match rois.dtype() {
                DType::F64 => parse(self.axes.op(), elements::<f64>(storage, layout)?, images, 1.0)?,
                _ => parse(self.axes.op(), elements::<f32>(storage, layout)?, images, 1.0)?,
            };
        }
        Ok(())
    }

    /// Returns the boxes in pixels of a map, for a batch of `images` images.
    pub(super) fn boxes<T: Float>(&self, rois: &[T], images: usize) -> CandleResult<Vec<Roi>> {
        parse(self.axes.op(), rois, images, self.spatial_scale).map_err(candle_core::Error::wrap)
    }

    /// Fills the weights of a box by bin, on a map of this height and width. A PrRoIPool box without area gets no weights.
    pub(crate) fn fill<T: Float>(&self, roi: &Roi, map: [usize; 2], to: &mut BoxWeights<T>) {
        let is_empty = self.axes.moves() && [roi.x, roi.y].iter().any(|span| span.end <= span.start);
        let [height, width] = if is_empty { [0; 2] } else { map };
        self.axes.axis(roi.y, self.out.0, height, &mut to.y);
        self.axes.axis(roi.x, self.out.1, width, &mut to.x);
    }

    /// Returns the pooled boxes, (R, C, ph, pw).
    fn pooled<T: Float>(&self, features: Argument<'_>, rois: &[T]) -> CandleResult<Vec<T>> {
        let map = ChannelsLast::of_storage(features.0, features.1)?;
        let (images, channels, _, _) = map.shape();
        let boxes = self.boxes(rois, images)?;
        let mut pooled = vec![T::zero(); boxes.len() * channels * self.out.0 * self.out.1];
        self.pool(&[map], &boxes, Order::ChannelsFirst, &mut pooled);
        Ok(pooled)
    }

    /// Returns the gradient in the boxes, (R, 5), in pixels of the image, from the gradient in the pooled boxes. The gradient
    /// in the image index is zero.
    fn slopes_in_image<T: Float>(
        &self,
        features: Argument<'_>,
        [rois, grad]: [&[T]; 2],
    ) -> CandleResult<Vec<T>> {
        let map = ChannelsLast::of_storage(features.0, features.1)?;
        let boxes = self.boxes(rois, map.shape().0)?;
        let slopes = self.slopes(&[map], &boxes, Order::ChannelsFirst, grad).into_iter();
        let row = |[x0, y0, x1, y1]: [f64; 4]| [0.0, x0, y0, x1, y1];
        Ok(slopes.flat_map(row).map(|slope| T::from_f64(slope * self.spatial_scale)).collect())
    }

    fn box_gradient(&self, features: &Tensor, rois: &Tensor, grad: &Tensor) -> CandleResult<Tensor> {
        self.run([features, rois, &gradient_for(features, grad)?])
    }

    fn map_gradient(&self, features: &Tensor, rois: &Tensor, grad: &Tensor) -> CandleResult<Tensor> {
        let inner = !features.device().is_cpu();
        let op = MapGradient { pool: *self, map: features.shape().clone(), inner };
        let found = op.run([&gradient_for(features, grad)?, rois])?;
        if inner { found.permute((0, 3, 1, 2)) } else { Ok(found) }
    }
}

/// Checks the number of bins and the scale.
pub(crate) fn check_settings(op: &'static str, out: (usize, usize), spatial_scale: f64) -> Result<()> {
    let refuse = |reason: String| Err(Error::Argument { op, reason });
    if out.0 == 0 || out.1 == 0 {
        return refuse(format!("the output needs at least one bin each way, not {out:?}"));
    }
    if !(spatial_scale.is_finite() && spatial_scale > 0.0) {
        return refuse(format!("spatial_scale must be positive and finite, not {spatial_scale}"));
    }
    Ok(())
}

/// Returns a map in an order that the kernels read: on a GPU with the channels innermost, on the CPU in either order.
fn readable(features: &Tensor) -> Result<Tensor> {
    let innermost = features.stride().get(1) == Some(&1) && !features.is_contiguous();
    if features.device().is_cpu() && !innermost {
        Ok(features.contiguous()?)
    } else {
        channels_last(features)
    }
}

/// Returns a gradient (R, C, ph, pw), on a GPU with the channels innermost.
fn gradient_for(features: &Tensor, grad: &Tensor) -> CandleResult<Tensor> {
    match features.device().is_cpu() {
        true => grad.contiguous(),
        false => channels_last(&grad.detach()).map_err(candle_core::Error::wrap),
    }
}

impl<const N: usize> Kernel<N> for RoiPool {
    const NAME: &'static str = "RoI pooling";
    const STRIDED: bool = true;

    fn shape(&self, arguments: [&Shape; N]) -> CandleResult<Shape> {
        let ((_, channels, _, _), (boxes, _)) = (arguments[0].dims4()?, arguments[1].dims2()?);
        Ok(if N == 2 { Shape::from((boxes, channels, self.out.0, self.out.1)) } else { arguments[1].clone() })
    }

    fn cpu(&self, arguments: [Argument<'_>; N]) -> CandleResult<CpuStorage> {
        let (features, rois) = (arguments[0], arguments[1]);
        match arguments.get(2) {
            None => by_type!(self.axes.op(), [rois], |[rois]| self.pooled(features, rois)?),
            Some(grad) => {
                by_type!(self.axes.op(), [rois, *grad], |numbers| self.slopes_in_image(features, numbers)?)
            }
        }
    }

    #[cfg(feature = "cuda")]
    fn cuda(&self, arguments: [cuda::Argument<'_>; N]) -> cuda::Made {
        let (map, rois, grad) = (arguments[0], arguments[1], arguments.get(2).copied());
        cuda::by_type!(rois, self.axes.op(), T => {
            let weights = Weights::<T>::new(self, rois, map.1.shape(), grad.is_some())?;
            match grad {
                None => weights.forward(map, rois),
                Some(grad) => weights.backward_boxes(grad, map, rois, self.spatial_scale),
            }
        })
    }

    fn gradients(&self, arguments: [&Tensor; N], _: &Tensor, grad: &Tensor) -> Gradients<N> {
        let (features, rois) = (arguments[0], arguments[1]);
        let of_features = features.track_op().then(|| self.map_gradient(features, rois, grad));
        let of_rois = rois.track_op().then(|| match self.axes.moves() {
            true => self.box_gradient(features, rois, grad),
            // A tracked intermediate must get a gradient.
            false => rois.zeros_like(),
        });
        let mut gradients = [const { None }; N];
        (gradients[0], gradients[1]) = (of_features.transpose()?, of_rois.transpose()?);
        Ok(gradients)
    }
}

/// Kernel `(gradient of the pooled boxes, rois) -> gradient of the map`, as (N, C, H, W), or with `inner`, on a GPU, as (N,
/// H, W, C).
struct MapGradient {
    pool: RoiPool,
    /// Shape (N, C, H, W).
    map: Shape,
    inner: bool,
}

impl Kernel<2> for MapGradient {
    const STRIDED: bool = true;

    const NAME: &'static str = "RoI pooling";

    fn shape(&self, _: [&Shape; 2]) -> CandleResult<Shape> {
        let (n, c, h, w) = self.map.dims4()?;
        Ok(if self.inner { Shape::from((n, h, w, c)) } else { self.map.clone() })
    }

    fn cpu(&self, arguments: [Argument<'_>; 2]) -> CandleResult<CpuStorage> {
        by_type!(self.pool.axes.op(), arguments, |[grad, rois]| self
            .pool
            .feature_gradient(&self.map, rois, grad)?)
    }

    #[cfg(feature = "cuda")]
    fn cuda(&self, [grad, rois]: [cuda::Argument<'_>; 2]) -> cuda::Made {
        let Self { pool, map, .. } = self;
        cuda::by_type!(rois, pool.axes.op(), T => {
            Weights::<T>::new(pool, rois, map, false)?.backward_map(grad, rois)
        })
    }
}
