//! Pooling boxes on a GPU: the code that PrRoIPool and RoIAlign share (`roi.cu`).

use candle_core::cuda_backend::cudarc::driver::CudaSlice;
use candle_core::{Layout, Result, Shape};

use super::op::{Axes, RoiPool};
use crate::cuda::{
    self, Argument, Element, Made, count, elements, from_first, launch, made, sizes, strides, unwritten,
};

/// One-dimensional weights of all boxes, by bin.
pub(crate) struct Weights<T> {
    /// First pixel and end, for each box and each bin of y and then of x.
    spans: CudaSlice<i32>,
    /// Row of weights for each span.
    tables: CudaSlice<T>,
    /// Number of boxes, number of images, height and width of the map, height and width of the output.
    axes: [i32; 6],
}

impl<T: Element> Weights<T> {
    /// Computes the weights of boxes (R, 5) on a map (N, C, H, W), and their slopes if `slopes`.
    pub fn new(pool: &RoiPool, rois: Argument<'_>, map: &Shape, slopes: bool) -> Result<Self> {
        let (device, out, scale) = (cuda::device(rois), pool.out, &pool.spatial_scale);
        let ((boxes, _), (images, _, height, width)) = (rois.1.shape().dims2()?, map.dims4()?);
        let rows = boxes * (out.0 + out.1);
        let table = boxes * (out.0 * height + out.1 * width) * if slopes { 3 } else { 1 };
        let (mut spans, mut tables) = (unwritten::<i32>(device, 2 * rows)?, unwritten::<T>(device, table)?);
        let axes = sizes([boxes, images, height, width, out.0, out.1])?;
        let ([r, n, h, w, out_h, out_w], boxes) = (&axes, elements::<T>(rois)?);
        match pool.axes {
            Axes::Precise => {
                let slopes = i32::from(slopes);
                launch!(device, PRROI_POOL::"prroi_weights", T, rows;
                    &boxes, &mut spans, &mut tables, scale, &slopes, r, n, h, w, out_h, out_w);
            }
            Axes::Align { sampling_ratio, aligned } => {
                let [ratio, aligned] = sizes([sampling_ratio, usize::from(aligned)])?;
                launch!(device, ROI_ALIGN::"roi_align_weights", T, rows;
                    &boxes, &mut spans, &mut tables, scale, &ratio, &aligned, r, n, h, w, out_h, out_w);
            }
        }
        Ok(Self { spans, tables, axes })
    }

    fn bins(&self) -> usize {
        (self.axes[4] * self.axes[5]) as usize
    }

    /// Returns the pooled boxes (R, C, ph, pw).
    pub fn forward(&self, map: Argument<'_>, rois: Argument<'_>) -> Made {
        let device = cuda::device(map);
        let [boxes, images, height, width, out_h, out_w] = &self.axes;
        let channels = map.1.shape().dims4()?.1;
        let (features, rows) = (from_first::<T>(map)?, elements::<T>(rois)?);
        let [image, row, column] = inner_strides(map.1)?;
        let len = *boxes as usize * channels * self.bins();
        let [c] = sizes([channels])?;
        made!(device, ROI::"roi_forward", T, *boxes as usize * channels.div_ceil(POOLED) * THREADS => len;
            &features, &rows, &self.spans, &self.tables; &c, &image, &row, &column,
            boxes, images, height, width, out_h, out_w)
    }

    /// Returns the gradient in the map (N, H, W, C) from the gradient in the pooled boxes.
    pub fn backward_map(&self, grad: Argument<'_>, rois: Argument<'_>) -> Made {
        let device = cuda::device(grad);
        let [boxes, images, height, width, out_h, out_w] = &self.axes;
        let channels = grad.1.shape().dims4()?.1;
        let (g, rows) = (from_first::<T>(grad)?, elements::<T>(rois)?);
        let [g_box, g_bin] = bin_strides(grad.1)?;
        let mut reaches = unwritten::<i32>(device, 5 * *boxes as usize)?;
        launch!(device, ROI::"roi_reach", T, *boxes as usize;
            &rows, &self.spans, &mut reaches, boxes, images, height, width, out_h, out_w);
        let blocks =
            (*images * *height) as usize * (*width as usize).div_ceil(SIDE) * channels.div_ceil(CHUNK);
        let [c] = sizes([channels])?;
        let len = (*images * *height * *width) as usize * channels;
        made!(device, ROI::"roi_backward_map", T, blocks * THREADS => count(len)? as usize;
            &g, &reaches, &self.spans, &self.tables; &c, &g_box, &g_bin,
            boxes, images, height, width, out_h, out_w)
    }

    /// Returns the gradient in the boxes (R, 5) from the gradient in the pooled boxes. The weights must have slopes. `scale`
    /// is the spatial scale of the boxes.
    pub fn backward_boxes(
        &self,
        grad: Argument<'_>,
        map: Argument<'_>,
        rois: Argument<'_>,
        scale: f64,
    ) -> Made {
        let device = cuda::device(grad);
        let [boxes, images, height, width, out_h, out_w] = &self.axes;
        let channels = map.1.shape().dims4()?.1;
        let (g, features) = (from_first::<T>(grad)?, from_first::<T>(map)?);
        let rows = elements::<T>(rois)?;
        let [g_box, g_bin] = bin_strides(grad.1)?;
        let [image, row, column] = inner_strides(map.1)?;
        let each = *out_h as usize * channels.div_ceil(SUMMED);
        let ([c, each_box], len) = (sizes([channels, each])?, *boxes as usize * each);
        let mut shares = unwritten::<T>(device, 4 * len)?;
        launch!(device, ROI::"roi_backward_boxes", T, len;
            &g, &features, &rows, &self.spans, &self.tables, &mut shares, &c, &image, &row, &column,
            &g_box, &g_bin, boxes, images, height, width, out_h, out_w);
        let len = 5 * *boxes as usize;
        made!(device, ROI::"roi_add_shares", T, len * THREADS => len; &shares; &each_box, &scale)
    }
}

/// Sizes of the kernels' blocks, as in `roi.cu`.
const THREADS: usize = 256;
const SIDE: usize = 8;
const POOLED: usize = 64;
const CHUNK: usize = 256;
const SUMMED: usize = 4;

/// Returns the strides by image, row and column of a map (N, C, H, W) with the channels innermost.
fn inner_strides(layout: &Layout) -> Result<[i64; 3]> {
    let ([image, channel, row, column], (_, channels, _, _)) = (strides(layout)?, layout.shape().dims4()?);
    if channel != 1 && channels > 1 {
        candle_core::bail!("the channels must be innermost, not with strides {:?}", layout.stride());
    }
    Ok([image, row, column])
}

/// Returns the strides by box and bin of a gradient (R, C, ph, pw) with the channels innermost.
fn bin_strides(layout: &Layout) -> Result<[i64; 2]> {
    let ([boxes, row, column], (_, _, _, out_w)) = (inner_strides(layout)?, layout.shape().dims4()?);
    if row != column * out_w as i64 {
        candle_core::bail!("bins must follow each other, not with strides {:?}", layout.stride());
    }
    Ok([boxes, column])
}
