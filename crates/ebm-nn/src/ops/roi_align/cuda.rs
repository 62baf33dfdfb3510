//! RoIAlign on a GPU.

use candle_core::backend::BackendStorage;
use candle_core::{CudaStorage, Result, Shape};

use super::{OP, RoiAlign};
use crate::ops::cuda::{Element, by_type, elements, launch, sizes};
use crate::ops::roi::cuda::{Argument, Weights};

fn weigh<T: Element>(op: &RoiAlign, rois: Argument<'_>, map: &Shape) -> Result<Weights<T>> {
    let (mut weights, rows) = Weights::<T>::new(rois, map, op.out, false)?;
    let boxes = elements::<T>(rois.0, rois.1)?;
    let [r, images, height, width, out_h, out_w] = &weights.axes;
    let [ratio, aligned] = sizes([op.sampling_ratio, usize::from(op.aligned)])?;
    let scale = op.spatial_scale;
    launch!(rois.0.device(), ROI_ALIGN::"roi_align_weights", T, rows;
        &boxes, &mut weights.spans, &mut weights.tables, &scale, &ratio, &aligned,
        r, images, height, width, out_h, out_w);
    Ok(weights)
}

impl RoiAlign {
    /// The pooled boxes (R, C, ph, pw).
    pub(super) fn cuda_forward(&self, map: Argument<'_>, rois: Argument<'_>) -> Result<CudaStorage> {
        fn run<T: Element>(op: &RoiAlign, map: Argument<'_>, rois: Argument<'_>) -> Result<CudaStorage> {
            weigh::<T>(op, rois, map.1.shape())?.forward(map, rois)
        }
        by_type!(map.0, OP, run(self, map, rois))
    }

    /// The gradient in a map of this shape, as (N, C, H, W), or where `inner` as (N, H, W, C).
    pub(super) fn cuda_backward(
        &self,
        shape: &Shape,
        rois: Argument<'_>,
        grad: Argument<'_>,
        inner: bool,
    ) -> Result<CudaStorage> {
        fn run<T: Element>(
            op: &RoiAlign,
            shape: &Shape,
            rois: Argument<'_>,
            grad: Argument<'_>,
            inner: bool,
        ) -> Result<CudaStorage> {
            weigh::<T>(op, rois, shape)?.backward_map(grad, rois, inner)
        }
        by_type!(grad.0, OP, run(self, shape, rois, grad, inner))
    }
}
