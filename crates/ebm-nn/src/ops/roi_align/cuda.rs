//! RoIAlign's weights on a GPU.

use candle_core::{Result, Shape};

use super::RoiAlign;
use crate::cuda::{Argument, Element, elements, launch, sizes};
use crate::ops::roi::cuda::Weights;

/// The weights of all boxes; there are no slopes.
pub(super) fn weigh<T: Element>(
    op: &RoiAlign,
    rois: Argument<'_>,
    map: &Shape,
    (out, scale): ((usize, usize), f64),
    slopes: bool,
) -> Result<Weights<T>> {
    let (mut weights, rows) = Weights::<T>::new(rois, map, out, slopes)?;
    let boxes = elements::<T>(rois.0, rois.1)?;
    let [r, images, height, width, out_h, out_w] = &weights.axes;
    let [ratio, aligned] = sizes([op.sampling_ratio, usize::from(op.aligned)])?;
    launch!(rois.0.device(), ROI_ALIGN::"roi_align_weights", T, rows;
        &boxes, &mut weights.spans, &mut weights.tables, &scale, &ratio, &aligned,
        r, images, height, width, out_h, out_w);
    Ok(weights)
}
