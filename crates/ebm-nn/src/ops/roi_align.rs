//! RoIAlign: the mean of bilinear samples on a regular grid in each bin.

#[cfg(feature = "cuda")]
mod cuda;

use candle_core::{CpuStorage, CustomOp2, DType, Layout, Shape, Storage, Tensor};

use super::roi::{self, AxisWeights, BoxWeights, Real, Roi, check_arguments, check_rois, features_of, parse};
use super::storage::elements;
use crate::error::Result;

const OP: &str = "roi_align";

/// RoIAlign (He et al. 2017, "Mask R-CNN") with torchvision's conventions.
///
/// `features` (N, C, H, W), `rois` (R, 5) with rows (image index, x0, y0, x1, y1) in pixels of the image, `out` = (ph, pw),
/// `spatial_scale` = map pixels per image pixel; the result is (R, C, ph, pw). f32 or f64.
/// Each bin averages `sampling_ratio`² samples, or ⌈box size / bins⌉ each way where it is 0. With `aligned` the box is
/// shifted by half a pixel; without, as in the detector, a box is at least one pixel wide and high.
/// Samples further than one pixel outside the map count as zero, nearer ones take the border's value.
///
/// Differentiable in `features` only; the coordinates' gradient is zero, as in torchvision. Channels-last views (see
/// [`channels_last`](crate::ops::channels_last)) are read in place.
///
/// # Errors
/// [`Error::Argument`](crate::Error::Argument) where shapes or types do not fit, `out` has a zero, the scale is not positive and
/// finite, or (on the CPU) a row of `rois` is not finite or names an image that is not in the batch.
pub fn roi_align(
    features: &Tensor,
    rois: &Tensor,
    out: (usize, usize),
    spatial_scale: f64,
    sampling_ratio: usize,
    aligned: bool,
) -> Result<Tensor> {
    let images = check_arguments(OP, features, rois, out, spatial_scale)?;
    let rois = rois.contiguous()?;
    check_rois(OP, &rois, images)?;
    let features = if features.permute((0, 2, 3, 1))?.is_contiguous() {
        features.clone()
    } else {
        features.contiguous()?
    };
    Ok(features.apply_op2(&rois, RoiAlign { out, spatial_scale, sampling_ratio, aligned })?)
}

struct RoiAlign {
    out: (usize, usize),
    spatial_scale: f64,
    sampling_ratio: usize,
    aligned: bool,
}

impl RoiAlign {
    /// The weights are separable: a sample's bilinear weights are a product, and the grid is a product.
    fn fill<T: Real>(&self, (height, width): (usize, usize)) -> impl Fn(&Roi, &mut BoxWeights<T>) + Sync {
        move |roi, to| {
            self.axis(roi.y, self.out.0, height, &mut to.y);
            self.axis(roi.x, self.out.1, width, &mut to.x);
        }
    }

    fn axis<T: Real>(&self, (start, end): (f64, f64), bins: usize, size: usize, to: &mut AxisWeights<T>) {
        to.clear();
        let shift = if self.aligned { 0.5 } else { 0.0 };
        let start = start - shift;
        let length = (end - shift - start).max(if self.aligned { f64::NEG_INFINITY } else { 1.0 });
        let bin_length = length / bins as f64;
        let grid =
            if self.sampling_ratio > 0 { self.sampling_ratio as f64 } else { bin_length.ceil().max(0.0) };
        let step = bin_length / grid;
        for bin in 0..bins {
            let origin = start + bin as f64 * bin_length;
            // Of a grid that reaches far outside, only the samples in [-1, size] are visited.
            let (skipped, visited) = if self.sampling_ratio > 0 {
                (0.0, self.sampling_ratio)
            } else {
                let skipped = ((-2.0 - origin) / step).floor().clamp(0.0, grid);
                (skipped, (grid - skipped).min(2.0 * size as f64 + 8.0) as usize)
            };
            for sample in 0..visited {
                let position = origin + (skipped + sample as f64 + 0.5) * step;
                add_sample(position, size, 1.0 / grid, to);
            }
            to.end_row();
        }
    }
}

/// Adds the two weights of linear interpolation at `position`, which is clamped to the map if less than a pixel outside.
fn add_sample<T: Real>(position: f64, size: usize, weight: f64, to: &mut AxisWeights<T>) {
    if size == 0 || !(-1.0..=size as f64).contains(&position) {
        return;
    }
    let position = position.clamp(0.0, (size - 1) as f64);
    let low = position as usize;
    let fraction = position - low as f64;
    to.add(low, weight * (1.0 - fraction));
    if fraction > 0.0 {
        to.add(low + 1, weight * fraction);
    }
}

impl RoiAlign {
    fn forward<T: Real>(
        &self,
        (features, features_layout): (&CpuStorage, &Layout),
        (rois, rois_layout): (&CpuStorage, &Layout),
    ) -> candle_core::Result<CpuStorage> {
        let map = features_of::<T>(features, features_layout)?;
        let (n, _, h, w) = map.shape();
        let boxes = parse(OP, elements::<T>(rois, rois_layout)?, n, self.spatial_scale)
            .map_err(candle_core::Error::wrap)?;
        Ok(T::to_cpu_storage_owned(roi::forward(&map, &boxes, self.out, self.fill((h, w)))))
    }

    fn backward<T: Real>(
        &self,
        features: &Tensor,
        rois: &Tensor,
        grad: &Tensor,
    ) -> candle_core::Result<Tensor> {
        let shape @ (n, _, h, w) = features.dims4()?;
        let grad = grad.contiguous()?;
        let (grad, grad_layout) = grad.storage_and_layout();
        let (rois, rois_layout) = rois.storage_and_layout();
        let (Storage::Cpu(grad), Storage::Cpu(rois)) = (&*grad, &*rois) else {
            return Err(candle_core::Error::BackwardNotSupported { op: OP }.bt());
        };
        let boxes = parse(OP, elements::<T>(rois, rois_layout)?, n, self.spatial_scale)
            .map_err(candle_core::Error::wrap)?;
        let grad = elements::<T>(grad, grad_layout)?;
        let found = roi::backward_features(shape, &boxes, self.out, grad, self.fill((h, w)));
        Tensor::from_vec(found, shape, features.device())
    }
}

impl CustomOp2 for RoiAlign {
    fn name(&self) -> &'static str {
        OP
    }

    fn cpu_fwd(
        &self,
        features: &CpuStorage,
        features_layout: &Layout,
        rois: &CpuStorage,
        rois_layout: &Layout,
    ) -> candle_core::Result<(CpuStorage, Shape)> {
        let (features, rois) = ((features, features_layout), (rois, rois_layout));
        let result = match features.0 {
            CpuStorage::F64(_) => self.forward::<f64>(features, rois)?,
            _ => self.forward::<f32>(features, rois)?,
        };
        let (_, c, _, _) = features_layout.shape().dims4()?;
        let (boxes, _) = rois_layout.shape().dims2()?;
        Ok((result, Shape::from((boxes, c, self.out.0, self.out.1))))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        features: &candle_core::CudaStorage,
        features_layout: &Layout,
        rois: &candle_core::CudaStorage,
        rois_layout: &Layout,
    ) -> candle_core::Result<(candle_core::CudaStorage, Shape)> {
        let (_, c, _, _) = features_layout.shape().dims4()?;
        let (boxes, _) = rois_layout.shape().dims2()?;
        let result = self.cuda_forward((features, features_layout), (rois, rois_layout))?;
        Ok((result, Shape::from((boxes, c, self.out.0, self.out.1))))
    }

    fn bwd(
        &self,
        features: &Tensor,
        rois: &Tensor,
        _res: &Tensor,
        grad: &Tensor,
    ) -> candle_core::Result<(Option<Tensor>, Option<Tensor>)> {
        let of_features = match (features.track_op(), features.dtype()) {
            (false, _) => None,
            #[cfg(feature = "cuda")]
            _ if features.device().is_cuda() => {
                let grad = roi::cuda::gradient_for(features, grad)?;
                Some(roi::cuda::d_map(features, rois, &grad, |rois, grad, inner| {
                    self.cuda_backward(features.shape(), rois, grad, inner)
                })?)
            }
            (true, DType::F64) => Some(self.backward::<f64>(features, rois, grad)?),
            (true, _) => Some(self.backward::<f32>(features, rois, grad)?),
        };
        // A tracked intermediate must get a gradient.
        let of_rois = if rois.track_op() { Some(rois.zeros_like()?) } else { None };
        Ok((of_features, of_rois))
    }
}
