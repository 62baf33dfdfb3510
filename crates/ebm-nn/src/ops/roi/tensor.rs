//! From candle's storage to slices.

use std::borrow::Cow;

use candle_core::{CpuStorage, DType, Layout, Storage, Tensor};

use super::super::storage::elements;
use super::channels_last::ChannelsLast;
use super::rois::parse;
use super::simd::Real;
use crate::error::{Error, Result};

/// Checks shapes, types and settings that PrRoIPool and RoIAlign have in common; gives N.
pub(crate) fn check_arguments(
    op: &'static str,
    features: &Tensor,
    rois: &Tensor,
    out: (usize, usize),
    spatial_scale: f64,
) -> Result<usize> {
    let refuse = |reason: String| Err(Error::Argument { op, reason });
    let &[images, _, _, _] = features.dims() else {
        return refuse(format!("features must be (N, C, H, W), not {:?}", features.dims()));
    };
    let &[_, 5] = rois.dims() else {
        return refuse(format!("rois must be (R, 5): image, x0, y0, x1, y1; not {:?}", rois.dims()));
    };
    if !matches!(features.dtype(), DType::F32 | DType::F64) || features.dtype() != rois.dtype() {
        let (features, rois) = (features.dtype(), rois.dtype());
        return refuse(format!(
            "features and rois must both be f32 or both f64, not {features:?} and {rois:?}"
        ));
    }
    check_settings(op, out, spatial_scale)?;
    Ok(images)
}

/// Checks the number of bins and the scale.
pub(crate) fn check_settings(op: &'static str, out: (usize, usize), spatial_scale: f64) -> Result<()> {
    let refuse = |reason: String| Err(Error::Argument { op, reason });
    if out.0 == 0 || out.1 == 0 {
        return refuse(format!("the output needs at least one bin each way, not {out:?}"));
    }
    if !(spatial_scale.is_finite() && spatial_scale > 0.0) {
        return refuse(format!("spatial_scale must be positive and finite, not {spatial_scale}"));
    }
    Ok(())
}

/// Checks the box rows where they can be read without a transfer.
pub(crate) fn check_rois(op: &'static str, rois: &Tensor, images: usize) -> Result<()> {
    let (storage, layout) = rois.storage_and_layout();
    if let Storage::Cpu(storage) = &*storage {
        match storage {
            CpuStorage::F64(_) => parse(op, elements::<f64>(storage, layout)?, images, 1.0)?,
            _ => parse(op, elements::<f32>(storage, layout)?, images, 1.0)?,
        };
    }
    Ok(())
}

/// A map in either layout: borrowed where the channels are innermost already, copied where it is contiguous.
pub(crate) fn features_of<'a, T: Real>(
    storage: &'a CpuStorage,
    layout: &Layout,
) -> candle_core::Result<ChannelsLast<'a, T>> {
    let shape = layout.shape().dims4()?;
    let innermost = layout.permute(&[0, 2, 3, 1])?;
    if innermost.is_contiguous() {
        return ChannelsLast::new(Cow::Borrowed(elements::<T>(storage, &innermost)?), shape)
            .map_err(candle_core::Error::wrap);
    }
    ChannelsLast::from_channels_first(elements::<T>(storage, layout)?, shape)
        .map_err(candle_core::Error::wrap)
}
