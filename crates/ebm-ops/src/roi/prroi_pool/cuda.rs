//! PrRoIPool's weights on a GPU.

use candle_core::backend::BackendStorage;
use candle_core::{Result, Shape};

use super::Precise;
use crate::cuda::{Argument, Element, elements, launch};
use crate::roi::RoiPool;
use crate::roi::cuda::Weights;

/// The weights of all boxes, and their slopes where wanted.
pub(super) fn weigh<T: Element>(
    pool: &RoiPool<Precise>,
    rois: Argument<'_>,
    map: &Shape,
    slopes: bool,
) -> Result<Weights<T>> {
    let (mut weights, rows) = Weights::<T>::new(rois, map, pool.out, slopes)?;
    let boxes = elements::<T>(rois.0, rois.1)?;
    let [r, images, height, width, out_h, out_w] = &weights.axes;
    let slopes = i32::from(slopes);
    launch!(rois.0.device(), PRROI_POOL::"prroi_weights", T, rows;
        &boxes, &mut weights.spans, &mut weights.tables, &pool.spatial_scale, &slopes, r, images, height, width, out_h, out_w);
    Ok(weights)
}
