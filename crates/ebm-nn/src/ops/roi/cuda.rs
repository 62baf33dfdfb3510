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
    /// Room for the weights of boxes (R, 5) on a map (N, C, H, W), and for their slopes where wanted; to be filled by the operation's
    /// kernel. Gives the number of rows too.
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
        let [image, channel, row, column] = strides(map.1)?;
        let inner = i32::from(channel == 1);
        let len = *boxes as usize * channels * self.bins();
        let [c] = sizes([channels])?;
        let mut out = unwritten::<T>(device, len)?;
        launch!(device, ROI::"roi_forward", T, len;
            &features, &rows, &self.spans, &self.tables, &mut out, &c, &inner, &image, &channel, &row, &column,
            boxes, images, height, width, out_h, out_w);
        Ok(CudaStorage::wrap_cuda_slice(out, device.clone()))
    }

    /// The gradient in the map from that of the pooled boxes, as (N, C, H, W), or where `inner` as (N, H, W, C).
    pub fn backward_map(&self, grad: Argument<'_>, rois: Argument<'_>, inner: bool) -> Result<CudaStorage> {
        let device = grad.0.device();
        let [boxes, images, height, width, out_h, out_w] = &self.axes;
        let channels = grad.1.shape().dims4()?.1;
        let (g, rows) = (from_first::<T>(grad.0, grad.1)?, elements::<T>(rois.0, rois.1)?);
        let [g_box, g_channel, g_bin] = bin_strides(grad.1)?;
        let mut reaches = unwritten::<i32>(device, 5 * *boxes as usize)?;
        launch!(device, ROI::"roi_reach", T, *boxes as usize;
            &rows, &self.spans, &mut reaches, boxes, images, height, width, out_h, out_w);
        let blocks =
            (*images * *height) as usize * (*width as usize).div_ceil(TILE) * channels.div_ceil(CHUNK);
        let [c, inner] = sizes([channels, usize::from(inner)])?;
        let len = (*images * *height * *width) as usize * channels;
        let mut d_map = unwritten::<T>(device, count(len)? as usize)?;
        launch!(device, ROI::"roi_backward_map", T, blocks * THREADS;
            &g, &reaches, &self.spans, &self.tables, &mut d_map, &c, &inner, &g_box, &g_channel, &g_bin,
            boxes, images, height, width, out_h, out_w);
        Ok(CudaStorage::wrap_cuda_slice(d_map, device.clone()))
    }

    /// The gradient in the boxes (R, 5) from that of the pooled ones; the weights have slopes. `scale` is that of the boxes.
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
        let [g_box, g_channel, g_bin] = bin_strides(grad.1)?;
        let [image, channel, row, column] = strides(map.1)?;
        let each = *out_h as usize * channels;
        let ([c, each_box], len) = (sizes([channels, each])?, *boxes as usize * each);
        let mut shares = unwritten::<T>(device, 4 * len)?;
        launch!(device, ROI::"roi_backward_boxes", T, len;
            &g, &features, &rows, &self.spans, &self.tables, &mut shares, &c, &image, &channel, &row, &column,
            &g_box, &g_channel, &g_bin, boxes, images, height, width, out_h, out_w);
        let len = 5 * *boxes as usize;
        let mut d_rois = unwritten::<T>(device, len)?;
        launch!(device, ROI::"roi_add_shares", T, len * THREADS; &shares, &mut d_rois, &each_box, &scale);
        Ok(CudaStorage::wrap_cuda_slice(d_rois, device.clone()))
    }
}

/// Threads of a block of `roi_backward_map` and `roi_add_shares`, and the pixels and channels of the first's: as in `roi.cu`.
const THREADS: usize = 256;
const TILE: usize = 8;
const CHUNK: usize = THREADS / TILE * 8;

/// The strides of a gradient (R, C, ph, pw) by box, channel and bin.
fn bin_strides(layout: &Layout) -> Result<[i64; 3]> {
    let [boxes, channels, row, column] = strides(layout)?;
    let (_, _, _, out_w) = layout.shape().dims4()?;
    if row != column * out_w as i64 {
        candle_core::bail!(
            "the bins of a gradient must follow each other, not with strides {:?}",
            layout.stride()
        );
    }
    Ok([boxes, channels, column])
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

/// The gradient in a map of this shape (N, C, H, W), as that, or where `inner` as (N, H, W, C).
pub(super) fn backward_map<A: Axes>(
    pool: &RoiPool<A>,
    map: &Shape,
    (grad, rois): (Argument<'_>, Argument<'_>),
    inner: bool,
) -> Result<CudaStorage> {
    match rois.0.dtype() {
        DType::F32 => A::weigh::<f32>(pool, rois, map, false)?.backward_map(grad, rois, inner),
        DType::F64 => A::weigh::<f64>(pool, rois, map, false)?.backward_map(grad, rois, inner),
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
