//! Pooling boxes on a GPU: what PrRoIPool and RoIAlign share (`roi.cu`).

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::cudarc::driver::CudaSlice;
use candle_core::{CudaStorage, DType, Layout, Result, Shape};

use super::op::{Axes, RoiPool};
use crate::cuda::{
    Argument, Element, count, elements, from_first, launch, sizes, strides, unsupported, unwritten,
};

/// The sizes that all kernels take: boxes, images, the map's height and width, the output's.
pub(crate) type Sizes = [i32; 6];

/// The one-dimensional weights of all boxes, by bin.
pub(crate) struct Weights<T> {
    /// First pixel and end, for each box and each bin of y and then of x.
    pub spans: CudaSlice<i32>,
    /// A row of weights for each of those.
    pub tables: CudaSlice<T>,
    pub axes: Sizes,
}

impl<T: Element> Weights<T> {
    /// Room for the weights of boxes (R, 5) on a map (N, C, H, W), and for their slopes where wanted; to be
    /// filled by the operation's kernel. Gives the number of rows too.
    pub fn new(rois: Argument<'_>, map: &Shape, out: (usize, usize), slopes: bool) -> Result<(Self, usize)> {
        let device = rois.0.device();
        let ((boxes, _), (images, _, height, width)) = (rois.1.shape().dims2()?, map.dims4()?);
        let rows = boxes * (out.0 + out.1);
        let table = boxes * (out.0 * height + out.1 * width) * if slopes { 3 } else { 1 };
        let (spans, tables) = (unwritten(device, 2 * rows)?, unwritten(device, table)?);
        Ok((Self { spans, tables, axes: sizes([boxes, images, height, width, out.0, out.1])? }, rows))
    }

    fn bins(&self) -> usize {
        (self.axes[4] * self.axes[5]) as usize
    }

    /// The pooled boxes (R, C, ph, pw).
    pub fn forward(&self, map: Argument<'_>, rois: Argument<'_>) -> Result<CudaStorage> {
        let device = map.0.device();
        let [boxes, images, height, width, out_h, out_w] = &self.axes;
        let channels = map.1.shape().dims4()?.1;
        let (features, rows) = (from_first::<T>(map.0, map.1)?, elements::<T>(rois.0, rois.1)?);
        let [image, row, column] = inner_strides(map.1)?;
        let len = *boxes as usize * channels * self.bins();
        let [c] = sizes([channels])?;
        let mut out = unwritten::<T>(device, len)?;
        launch!(device, ROI::"roi_forward", T, *boxes as usize * channels.div_ceil(POOLED) * THREADS;
            &features, &rows, &self.spans, &self.tables, &mut out, &c, &image, &row, &column,
            boxes, images, height, width, out_h, out_w);
        Ok(CudaStorage::wrap_cuda_slice(out, device.clone()))
    }

    /// The gradient in the map (N, H, W, C) from that of the pooled boxes.
    pub fn backward_map(&self, grad: Argument<'_>, rois: Argument<'_>) -> Result<CudaStorage> {
        let device = grad.0.device();
        let [boxes, images, height, width, out_h, out_w] = &self.axes;
        let channels = grad.1.shape().dims4()?.1;
        let (g, rows) = (from_first::<T>(grad.0, grad.1)?, elements::<T>(rois.0, rois.1)?);
        let [g_box, g_bin] = bin_strides(grad.1)?;
        let mut reaches = unwritten::<i32>(device, 5 * *boxes as usize)?;
        launch!(device, ROI::"roi_reach", T, *boxes as usize;
            &rows, &self.spans, &mut reaches, boxes, images, height, width, out_h, out_w);
        let blocks =
            (*images * *height) as usize * (*width as usize).div_ceil(SIDE) * channels.div_ceil(CHUNK);
        let [c] = sizes([channels])?;
        let len = (*images * *height * *width) as usize * channels;
        let mut d_map = unwritten::<T>(device, count(len)? as usize)?;
        launch!(device, ROI::"roi_backward_map", T, blocks * THREADS;
            &g, &reaches, &self.spans, &self.tables, &mut d_map, &c, &g_box, &g_bin,
            boxes, images, height, width, out_h, out_w);
        Ok(CudaStorage::wrap_cuda_slice(d_map, device.clone()))
    }

    /// The gradient in the boxes (R, 5) from that of the pooled ones; the weights have slopes. `scale` is
    /// that of the boxes.
    pub fn backward_boxes(
        &self,
        grad: Argument<'_>,
        map: Argument<'_>,
        rois: Argument<'_>,
        scale: f64,
    ) -> Result<CudaStorage> {
        let device = grad.0.device();
        let [boxes, images, height, width, out_h, out_w] = &self.axes;
        let channels = map.1.shape().dims4()?.1;
        let (g, features) = (from_first::<T>(grad.0, grad.1)?, from_first::<T>(map.0, map.1)?);
        let rows = elements::<T>(rois.0, rois.1)?;
        let [g_box, g_bin] = bin_strides(grad.1)?;
        let [image, row, column] = inner_strides(map.1)?;
        let each = *out_h as usize * channels.div_ceil(SUMMED);
        let ([c, each_box], len) = (sizes([channels, each])?, *boxes as usize * each);
        let mut shares = unwritten::<T>(device, 4 * len)?;
        launch!(device, ROI::"roi_backward_boxes", T, len;
            &g, &features, &rows, &self.spans, &self.tables, &mut shares, &c, &image, &row, &column,
            &g_box, &g_bin, boxes, images, height, width, out_h, out_w);
        let len = 5 * *boxes as usize;
        let mut d_rois = unwritten::<T>(device, len)?;
        launch!(device, ROI::"roi_add_shares", T, len * THREADS; &shares, &mut d_rois, &each_box, &scale);
        Ok(CudaStorage::wrap_cuda_slice(d_rois, device.clone()))
    }
}

/// The sizes of the kernels' blocks, as in `roi.cu`.
const THREADS: usize = 256;
const SIDE: usize = 8;
const POOLED: usize = 64;
const CHUNK: usize = 256;
const SUMMED: usize = 4;

/// The strides of a map (N, C, H, W) with the channels innermost by image, row and column.
fn inner_strides(layout: &Layout) -> Result<[i64; 3]> {
    let ([image, channel, row, column], (_, channels, _, _)) = (strides(layout)?, layout.shape().dims4()?);
    if channel != 1 && channels > 1 {
        candle_core::bail!("the channels must be innermost, not with strides {:?}", layout.stride());
    }
    Ok([image, row, column])
}

/// The strides of a gradient (R, C, ph, pw) with the channels innermost by box and bin.
fn bin_strides(layout: &Layout) -> Result<[i64; 2]> {
    let ([boxes, row, column], (_, _, _, out_w)) = (inner_strides(layout)?, layout.shape().dims4()?);
    if row != column * out_w as i64 {
        candle_core::bail!("bins must follow each other, not with strides {:?}", layout.stride());
    }
    Ok([boxes, column])
}

/// The pooled boxes.
pub(super) fn forward<A: Axes>(
    pool: &RoiPool<A>,
    map: Argument<'_>,
    rois: Argument<'_>,
) -> Result<CudaStorage> {
    match rois.0.dtype() {
        DType::F32 => A::weigh::<f32>(pool, rois, map.1.shape(), false)?.forward(map, rois),
        DType::F64 => A::weigh::<f64>(pool, rois, map.1.shape(), false)?.forward(map, rois),
        other => unsupported(A::OP, other),
    }
}

/// The gradient in a map of this shape (N, C, H, W), as (N, H, W, C).
pub(super) fn backward_map<A: Axes>(
    pool: &RoiPool<A>,
    map: &Shape,
    [grad, rois]: [Argument<'_>; 2],
) -> Result<CudaStorage> {
    match rois.0.dtype() {
        DType::F32 => A::weigh::<f32>(pool, rois, map, false)?.backward_map(grad, rois),
        DType::F64 => A::weigh::<f64>(pool, rois, map, false)?.backward_map(grad, rois),
        other => unsupported(A::OP, other),
    }
}

/// The gradient in the boxes (R, 5).
pub(super) fn backward_boxes<A: Axes>(
    pool: &RoiPool<A>,
    [map, rois, grad]: [Argument<'_>; 3],
) -> Result<CudaStorage> {
    let (shape, scale) = (map.1.shape(), pool.spatial_scale);
    match rois.0.dtype() {
        DType::F32 => A::weigh::<f32>(pool, rois, shape, true)?.backward_boxes(grad, map, rois, scale),
        DType::F64 => A::weigh::<f64>(pool, rois, shape, true)?.backward_boxes(grad, map, rois, scale),
        other => unsupported(A::OP, other),
    }
}
