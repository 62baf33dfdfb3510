//! The raw frames of BIWI: `hpdb/01` to `hpdb/24`, one folder per recording.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::camera::{Camera, MAX_TEXT_BYTES, numbers};
use super::check_angles;
use super::rotation::{Matrix, angles, check_rotation};
use crate::error::{Error, Result};
use crate::faces::{Face, Faces, Pixels, Tolerance};
use crate::files::{names_in, read_limited};
use crate::quarantine::{DefectCode, Finding};

/// A side of the crop for [`load_frames`]: a head with some room around it.
pub const SIDE_MM: f64 = 300.;

/// Reads the frames below `root`, in the order of their names: `01/frame_00003`.
///
/// A folder whose name is a number is a recording. It holds `rgb.cal`, the colour camera; and, per frame,
/// `frame_00003_rgb.png` and `frame_00003_pose.txt`: a 3×3 rotation and the head's centre in millimetres, in
/// the depth camera's system. Targets are yaw, pitch and roll in degrees, by FSA-Net's formulas.
///
/// The crop is a square around the projected centre, of `side_mm` millimetres at the head's distance.
/// FSA-Net cropped what a face detector found instead: for its figures use its files ([`super::faces_of_arrays`]).
///
/// A frame is defective if its image or pose is missing, the pose is not twelve numbers, its matrix is not a
/// rotation (within 10⁻³), or the head is not in view.
///
/// # Errors
/// [`Error::Io`] for what cannot be read, [`Error::Format`] for a folder without frames or a calibration that
/// is none, [`Error::TooManyDefects`] above the tolerated fraction, [`Error::Argument`] for a side or a fraction
/// out of its domain.
pub fn load_frames(root: &Path, side_mm: f64, tolerance: &Tolerance) -> Result<Faces> {
    if !(side_mm > 0. && side_mm.is_finite()) {
        let detail = format!("{side_mm} is no length; give millimetres, such as 300");
        return Err(Error::Argument { name: "side_mm", detail });
    }
    let mut collected = Faces::default();
    let mut found = false;
    for recording in names_in(root)? {
        let folder = root.join(&recording);
        if !recording.bytes().all(|byte| byte.is_ascii_digit()) || !folder.is_dir() {
            continue;
        }
        let frames = frames(&folder)?;
        if frames.is_empty() {
            continue;
        }
        found = true;
        let camera = Camera::read(&folder.join("rgb.cal"))?;
        for (frame, files) in frames {
            let name = format!("{recording}/{frame}");
            let pose = folder.join(format!("{frame}{POSE}"));
            let outcome = read_frame(&folder, &frame, &pose, files, &camera, side_mm)
                .map(|(pixels, target)| Face { name: name.clone(), pixels, target });
            collected.push(&pose, &name, outcome);
        }
    }
    if !found {
        let detail = format!("no folder such as 01 with frames such as frame_00003{IMAGE}");
        return Err(Error::format(root, "the folder hpdb of BIWI", detail));
    }
    collected.within(tolerance)
}

const IMAGE: &str = "_rgb.png";
const POSE: &str = "_pose.txt";

/// Which of a frame's files there are: image, pose.
type Files = [bool; 2];

/// The frames of a folder by name.
fn frames(folder: &Path) -> Result<BTreeMap<String, Files>> {
    let mut frames = BTreeMap::<String, Files>::new();
    for name in names_in(folder)? {
        for (index, suffix) in [IMAGE, POSE].iter().enumerate() {
            if let Some(frame) = name.strip_suffix(suffix).filter(|frame| frame.starts_with("frame_")) {
                frames.entry(frame.to_owned()).or_default()[index] = true;
            }
        }
    }
    Ok(frames)
}

fn read_frame(
    folder: &Path,
    frame: &str,
    pose: &Path,
    [has_image, has_pose]: Files,
    camera: &Camera,
    side_mm: f64,
) -> std::result::Result<(Pixels, Vec<f32>), Finding> {
    let path: PathBuf = folder.join(format!("{frame}{IMAGE}"));
    for (there, file) in [(has_image, path.as_path()), (has_pose, pose)] {
        if !there {
            return Err(Finding::new(DefectCode::MissingFile, file.display().to_string()));
        }
    }
    let (matrix, center) =
        read_pose(pose).map_err(|detail| Finding::new(DefectCode::BadAnnotation, detail))?;
    check_rotation(&matrix).map_err(|detail| Finding::new(DefectCode::BadAnnotation, detail))?;
    let target = check_angles(angles(&matrix))?;
    let region =
        camera.region(&center, side_mm).map_err(|detail| Finding::new(DefectCode::BadBox, detail))?;
    Ok((Pixels::Region { path, region }, target))
}

fn read_pose(path: &Path) -> std::result::Result<(Matrix, [f64; 3]), String> {
    let bytes = read_limited(path, MAX_TEXT_BYTES).map_err(|error| error.to_string())?;
    let rows = numbers(&bytes)?;
    let rows: Option<Vec<[f64; 3]>> = rows.iter().map(|row| row.as_slice().try_into().ok()).collect();
    match rows.as_deref() {
        Some(&[a, b, c, center]) => Ok(([a, b, c], center)),
        _ => Err("not four rows of three numbers".to_owned()),
    }
}
