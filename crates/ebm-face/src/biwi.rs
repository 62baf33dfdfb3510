//! BIWI in the npz files of FSA-Net: `BIWI_train.npz` and `BIWI_test.npz`.

use std::path::Path;

use candle_core::npy::NpzTensors;
use candle_core::{DType, Tensor};
use ebm_data::faces::{Faces, Tolerance, biwi};

use crate::{Error, Result};

/// Maximum size of an array, in bytes. BIWI's training images take 130 MB.
const MAX_BYTES: usize = 2 << 30;

/// Reads faces and poses from an npz file in FSA-Net's format, stored or deflated.
///
/// The arrays are `image`, `uint8 (N, H, W, 3)`, and `pose`, `float64` or `float32 (N, 3)`. Other arrays are ignored.
/// [`biwi::faces_of_arrays`] converts them. The checksums of the archive are not verified.
///
/// # Errors
/// [`Error::Data`] when the file is missing, is no such archive, lacks an array, or exceeds `tolerance`.
pub fn read_npz(path: &Path, tolerance: &Tolerance) -> Result<Faces> {
    let fail = |detail: String| {
        let expected = "an npz file of faces and poses";
        Error::Data(ebm_data::Error::format(path, expected, detail))
    };
    let metadata = std::fs::metadata(path);
    let metadata = metadata.map_err(|source| ebm_data::Error::io("read", path, source))?;
    if !metadata.is_file() {
        return Err(fail("it is no regular file".to_owned()));
    }
    let arrays = NpzTensors::new(path).map_err(|error| fail(error.to_string()))?;
    let array = |name: &str, types: &[DType]| -> Result<Tensor> {
        let fail = |detail: String| fail(format!("array `{name}`: {detail}"));
        let (shape, dtype) = arrays.get_shape_and_dtype(name).map_err(|error| fail(error.to_string()))?;
        let bytes =
            shape.dims().iter().try_fold(dtype.size_in_bytes(), |product, &side| product.checked_mul(side));
        if !types.contains(&dtype) || bytes.is_none_or(|bytes| bytes > MAX_BYTES) {
            return Err(fail(format!("{dtype:?} of the shape {shape:?} is not read")));
        }
        arrays.get(name).map_err(|error| fail(error.to_string()))?.ok_or_else(|| fail("missing".to_owned()))
    };
    let images = array("image", &[DType::U8])?;
    let poses = array("pose", &[DType::F64, DType::F32])?.to_dtype(DType::F64)?;
    let shape = images.dims4().map_err(|error| fail(error.to_string()))?;
    let poses: Vec<[f64; 3]> = match poses.dims() {
        [_, 3] => poses.flatten_all()?.to_vec1::<f64>()?.as_chunks().0.to_vec(),
        other => return Err(fail(format!("array `pose`: shape {other:?} is not (N, 3)"))),
    };
    let images = images.flatten_all()?.to_vec1::<u8>()?;
    Ok(biwi::faces_of_arrays(path, &images, shape.into(), &poses, tolerance)?)
}
