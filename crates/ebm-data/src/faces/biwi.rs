//! BIWI: heads with their pose, from the arrays of FSA-Net's npz files, `BIWI_train.npz` and `BIWI_test.npz`.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::faces::{Face, Faces, Pixels};
use crate::image::Image;
use crate::quarantine::{DefectCode, Finding, Tolerance};

/// Makes faces from the images and poses of the npz file at `path`, which `ebm-face` reads.
///
/// `images` has the shape `shape`, `[N, H, W, 3]`, blue first (as OpenCV reads files), and is converted to RGB.
/// `poses` has yaw, pitch and roll of the N images in degrees. A face's name is its position with six digits:
/// `000012`. A pose is defective if an angle is not finite or beyond 180 degrees.
///
/// # Errors
/// [`Error::Data`] for arrays that are empty or do not fit together; [`Error::TooManyDefects`] above the tolerated
/// fraction; [`Error::Argument`] for a fraction out of its domain.
pub fn faces_of_arrays(
    path: &Path,
    images: &[u8],
    shape: [usize; 4],
    poses: &[[f64; 3]],
    tolerance: &Tolerance,
) -> Result<Faces> {
    tolerance.validate()?;
    let mut faces = Faces::default();
    let [count, height, width, channels] = shape;
    let bytes = shape.iter().try_fold(1usize, |product, &side| product.checked_mul(side));
    if channels != 3 || count != poses.len() || images.is_empty() || bytes != Some(images.len()) {
        let detail =
            format!("images of the shape {shape:?} and {} poses; N, H, W, 3 and N wanted", poses.len());
        return Err(Error::format(path, "an npz file of faces and poses", detail));
    }
    for (index, (bgr, &pose)) in images.chunks_exact(height * width * 3).zip(poses).enumerate() {
        let name = format!("{index:06}");
        let rgb = bgr.chunks_exact(3).flat_map(|pixel| pixel.iter().rev().copied()).collect();
        let pixels = Pixels::Memory(Arc::new(Image::new(width, height, rgb)?));
        let outcome = if pose.iter().all(|angle| angle.abs() <= 180.) {
            Ok(Face { name: name.clone(), pixels, target: pose.map(|angle| angle as f32).to_vec() })
        } else {
            let [yaw, pitch, roll] = pose;
            let detail = format!("yaw {yaw}, pitch {pitch}, roll {roll}: not three angles up to 180 degrees");
            Err(Finding::new(DefectCode::BadAnnotation, detail))
        };
        faces.push(path, &name, outcome);
    }
    faces.check_tolerance(tolerance)
}
