//! RoIAlign's weights on a GPU.

use candle_core::backend::BackendStorage;
use candle_core::{Result, Shape};

use super::RoiAlign;
use crate::cuda::{Argument, Element, elements, launch, sizes};
use crate::roi::RoiPool;
use crate::roi::cuda::Weights;

/// The weights of all boxes; there are no slopes.
pub(super) fn weigh<T: Element>(
    pool: &RoiPool<RoiAlign>,
    rois: Argument<'_>,
    map: &Shape,
    slopes: bool,
) -> Result<Weights<T>> {
    let (mut weights, rows) = Weights::<T>::new(rois, map, pool.out, slopes)?;
    let boxes = elements::<T>(rois.0, rois.1)?;
    let [r, images, height, width, out_h, out_w] = &weights.axes;
    let [ratio, aligned] = sizes([pool.axes.sampling_ratio, usize::from(pool.axes.aligned)])?;
    launch!(rois.0.device(), ROI_ALIGN::"roi_align_weights", T, rows;
        &boxes, &mut weights.spans, &mut weights.tables, &pool.spatial_scale, &ratio, &aligned,
        r, images, height, width, out_h, out_w);
    Ok(weights)
}
