//! PrRoIPool on a GPU.

use candle_core::backend::BackendStorage;
use candle_core::{CudaStorage, Result, Shape};

use super::OP;
use crate::ops::cuda::{Element, by_type, elements, launch};
use crate::ops::roi::cuda::{Argument, Weights};

/// The number of bins and the scale of a pooling.
#[derive(Clone, Copy)]
pub(super) struct Setting {
    pub out: (usize, usize),
    pub spatial_scale: f64,
}

fn weigh<T: Element>(rois: Argument<'_>, map: &Shape, setting: Setting, slopes: bool) -> Result<Weights<T>> {
    let (mut weights, rows) = Weights::<T>::new(rois, map, setting.out, slopes)?;
    let boxes = elements::<T>(rois.0, rois.1)?;
    let [r, images, height, width, out_h, out_w] = &weights.axes;
    let (scale, slopes) = (setting.spatial_scale, i32::from(slopes));
    launch!(rois.0.device(), PRROI_POOL::"prroi_weights", T, rows;
        &boxes, &mut weights.spans, &mut weights.tables, &scale, &slopes, r, images, height, width, out_h, out_w);
    Ok(weights)
}

/// The pooled boxes (R, C, ph, pw).
pub(super) fn forward(map: Argument<'_>, rois: Argument<'_>, setting: Setting) -> Result<CudaStorage> {
    fn run<T: Element>(map: Argument<'_>, rois: Argument<'_>, setting: Setting) -> Result<CudaStorage> {
        weigh::<T>(rois, map.1.shape(), setting, false)?.forward(map, rois)
    }
    by_type!(map.0, OP, run(map, rois, setting))
}

/// The gradient in a map of this shape, as (N, C, H, W), or where `inner` as (N, H, W, C).
pub(super) fn backward_features(
    shape: &Shape,
    rois: Argument<'_>,
    setting: Setting,
    grad: Argument<'_>,
    inner: bool,
) -> Result<CudaStorage> {
    fn run<T: Element>(
        shape: &Shape,
        rois: Argument<'_>,
        setting: Setting,
        grad: Argument<'_>,
        inner: bool,
    ) -> Result<CudaStorage> {
        weigh::<T>(rois, shape, setting, false)?.backward_map(grad, rois, inner)
    }
    by_type!(grad.0, OP, run(shape, rois, setting, grad, inner))
}

/// The gradient in the boxes (R, 5).
pub(super) fn backward_rois(
    map: Argument<'_>,
    rois: Argument<'_>,
    setting: Setting,
    grad: Argument<'_>,
) -> Result<CudaStorage> {
    fn run<T: Element>(
        map: Argument<'_>,
        rois: Argument<'_>,
        setting: Setting,
        grad: Argument<'_>,
    ) -> Result<CudaStorage> {
        weigh::<T>(rois, map.1.shape(), setting, true)?.backward_boxes(grad, map, rois, setting.spatial_scale)
    }
    by_type!(grad.0, OP, run(map, rois, setting, grad))
}
