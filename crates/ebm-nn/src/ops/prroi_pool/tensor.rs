//! PrRoIPool on tensors.

use std::borrow::Cow;
use std::sync::OnceLock;

use candle_core::{CpuStorage, CustomOp2, DType, Layout, Shape, Storage, Tensor};

use super::super::roi::{ChannelsLast, Real, check_arguments, check_rois, features_of};
use super::super::storage::elements;
use super::{OP, cpu};
use crate::error::{Error, Result};

/// Precise RoI pooling (Jiang et al. 2018, "Acquisition of Localization Confidence for Accurate Object Detection").
///
/// `features` (N, C, H, W), `rois` (R, 5) with rows (image index, x0, y0, x1, y1) in pixels of the image, `out` = (ph, pw),
/// `spatial_scale` = map pixels per image pixel; the result is (R, C, ph, pw). f32 or f64. Differentiable once, in `features` and
/// in the four coordinates; a gradient is computed only for an argument that is tracked.
///
/// Channels-last views (see [`channels_last`](crate::ops::channels_last)) are read in place. Of other maps a
/// channels-last copy is made in each call, and kept for the backward pass where `rois` is tracked.
///
/// # Errors
/// [`Error::Argument`](crate::Error::Argument) where shapes or types do not fit, `out` has a zero, the scale is not positive and
/// finite, or (on the CPU) a row of `rois` is not finite or names an image that is not in the batch.
pub fn prroi_pool(
    features: &Tensor,
    rois: &Tensor,
    out: (usize, usize),
    spatial_scale: f64,
) -> Result<Tensor> {
    let images = check_arguments(OP, features, rois, out, spatial_scale)?;
    let rois = rois.contiguous()?;
    check_rois(OP, &rois, images)?;
    let features = if features.permute((0, 2, 3, 1))?.is_contiguous() {
        features.clone()
    } else {
        features.contiguous()?
    };
    let keep_copy = rois.track_op();
    Ok(features.apply_op2(&rois, PrRoiPool { out, spatial_scale, keep_copy, copy: OnceLock::new() })?)
}

/// The gradient of [`prroi_pool`] in `rois` alone, (R, 5), from `grad` (R, C, ph, pw): what refinement by hand goes back through.
/// The first column is 0, and no history is recorded.
///
/// # Errors
/// As [`prroi_pool`], and where `grad` is not of that shape and type.
pub fn prroi_pool_box_gradient(
    features: &Tensor,
    rois: &Tensor,
    out: (usize, usize),
    spatial_scale: f64,
    grad: &Tensor,
) -> Result<Tensor> {
    let images = check_arguments(OP, features, rois, out, spatial_scale)?;
    let rois = rois.contiguous()?.detach();
    check_rois(OP, &rois, images)?;
    let (_, channels, _, _) = features.dims4()?;
    let expected = [rois.dim(0)?, channels, out.0, out.1];
    if grad.dims() != expected || grad.dtype() != features.dtype() {
        let reason = format!(
            "expected a gradient {expected:?} of {:?}, got {:?} of {:?}",
            features.dtype(),
            grad.dims(),
            grad.dtype()
        );
        return Err(Error::Argument { op: OP, reason });
    }
    let op = PrRoiPool { out, spatial_scale, keep_copy: false, copy: OnceLock::new() };
    #[cfg(feature = "cuda")]
    if features.device().is_cuda() {
        let grad = super::super::roi::cuda::gradient_for(features, grad)?;
        return Ok(op.cuda_backward_rois(features, &rois, &grad)?);
    }
    let grad = grad.contiguous()?;
    Ok(match features.dtype() {
        DType::F64 => op.backward_rois::<f64>(features, &rois, &grad)?,
        _ => op.backward_rois::<f32>(features, &rois, &grad)?,
    })
}

struct PrRoiPool {
    out: (usize, usize),
    spatial_scale: f64,
    keep_copy: bool,
    /// The map with the channels innermost, from the forward pass.
    copy: OnceLock<CpuStorage>,
}

impl PrRoiPool {
    fn forward<T: Real>(
        &self,
        (features, features_layout): (&CpuStorage, &Layout),
        (rois, rois_layout): (&CpuStorage, &Layout),
    ) -> candle_core::Result<CpuStorage> {
        let map = features_of::<T>(features, features_layout)?;
        let rois = elements::<T>(rois, rois_layout)?;
        let result =
            cpu::forward(&map, rois, self.out, self.spatial_scale).map_err(candle_core::Error::wrap)?;
        if let (true, Cow::Owned(copy)) = (self.keep_copy, map.into_data()) {
            // A second forward of the same operation has the same map.
            let _ = self.copy.set(T::to_cpu_storage_owned(copy));
        }
        Ok(T::to_cpu_storage_owned(result))
    }

    #[cfg(feature = "cuda")]
    fn setting(&self) -> super::cuda::Setting {
        super::cuda::Setting { out: self.out, spatial_scale: self.spatial_scale }
    }

    #[cfg(feature = "cuda")]
    fn cuda_backward(
        &self,
        features: &Tensor,
        rois: &Tensor,
        grad: &Tensor,
    ) -> candle_core::Result<(Option<Tensor>, Option<Tensor>)> {
        use super::super::roi::cuda::{d_map, gradient_for};
        let grad = gradient_for(features, grad)?;
        let of_rois = rois.track_op().then(|| self.cuda_backward_rois(features, rois, &grad));
        let of_features = features.track_op().then(|| {
            d_map(features, rois, &grad, |rois, grad, inner| {
                super::cuda::backward_features(features.shape(), rois, self.setting(), grad, inner)
            })
        });
        Ok((of_features.transpose()?, of_rois.transpose()?))
    }

    /// `grad` is of [`gradient_for`](super::super::roi::cuda::gradient_for).
    #[cfg(feature = "cuda")]
    fn cuda_backward_rois(
        &self,
        features: &Tensor,
        rois: &Tensor,
        grad: &Tensor,
    ) -> candle_core::Result<Tensor> {
        let (g, r, f) = (grad.storage_and_layout(), rois.storage_and_layout(), features.storage_and_layout());
        let (Storage::Cuda(g0), Storage::Cuda(r0), Storage::Cuda(f0)) = (&*g.0, &*r.0, &*f.0) else {
            return Err(candle_core::Error::BackwardNotSupported { op: OP }.bt());
        };
        let found = super::cuda::backward_rois((f0, f.1), (r0, r.1), self.setting(), (g0, g.1))?;
        Ok(crate::ops::cuda::tensor(found, rois.shape()))
    }

    fn backward<T: Real>(
        &self,
        features: &Tensor,
        rois: &Tensor,
        grad: &Tensor,
    ) -> candle_core::Result<(Option<Tensor>, Option<Tensor>)> {
        let shape = features.dims4()?;
        let grad = grad.contiguous()?;
        let of_features = features.track_op().then(|| {
            let ((grad, grad_layout), (boxes, boxes_layout)) =
                (grad.storage_and_layout(), rois.storage_and_layout());
            let (Storage::Cpu(grad), Storage::Cpu(boxes)) = (&*grad, &*boxes) else {
                return Err(candle_core::Error::BackwardNotSupported { op: OP }.bt());
            };
            let (grad, boxes) = (elements::<T>(grad, grad_layout)?, elements::<T>(boxes, boxes_layout)?);
            let found = cpu::backward_features(shape, boxes, self.out, self.spatial_scale, grad);
            Tensor::from_vec(found.map_err(candle_core::Error::wrap)?, shape, features.device())
        });
        let of_rois = rois.track_op().then(|| self.backward_rois::<T>(features, rois, &grad));
        Ok((of_features.transpose()?, of_rois.transpose()?))
    }

    /// `grad` is contiguous.
    fn backward_rois<T: Real>(
        &self,
        features: &Tensor,
        rois: &Tensor,
        grad: &Tensor,
    ) -> candle_core::Result<Tensor> {
        let wrap = |error: Error| candle_core::Error::wrap(error);
        let (grad, grad_layout) = grad.storage_and_layout();
        let (boxes, boxes_layout) = rois.storage_and_layout();
        let (map, map_layout) = features.storage_and_layout();
        let (Storage::Cpu(grad), Storage::Cpu(boxes), Storage::Cpu(map)) = (&*grad, &*boxes, &*map) else {
            return Err(candle_core::Error::BackwardNotSupported { op: OP }.bt());
        };
        let (grad, boxes) = (elements::<T>(grad, grad_layout)?, elements::<T>(boxes, boxes_layout)?);
        let map = match self.copy.get() {
            Some(copy) => ChannelsLast::new(copy.as_slice::<T>()?, features.dims4()?).map_err(wrap)?,
            None => features_of::<T>(map, map_layout)?,
        };
        let found = cpu::backward_rois(&map, boxes, self.out, self.spatial_scale, grad).map_err(wrap)?;
        Tensor::from_vec(found, rois.shape(), rois.device())
    }
}

impl CustomOp2 for PrRoiPool {
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
        let result = super::cuda::forward((features, features_layout), (rois, rois_layout), self.setting())?;
        Ok((result, Shape::from((boxes, c, self.out.0, self.out.1))))
    }

    fn bwd(
        &self,
        features: &Tensor,
        rois: &Tensor,
        _res: &Tensor,
        grad: &Tensor,
    ) -> candle_core::Result<(Option<Tensor>, Option<Tensor>)> {
        #[cfg(feature = "cuda")]
        if features.device().is_cuda() {
            return self.cuda_backward(features, rois, grad);
        }
        match features.dtype() {
            candle_core::DType::F64 => self.backward::<f64>(features, rois, grad),
            _ => self.backward::<f32>(features, rois, grad),
        }
    }
}
