//! BIWI: heads with their pose, as FSA-Net's npz files or as the raw frames.
//!
//! A pose is yaw, pitch and roll in degrees.

mod arrays;
mod camera;
mod frames;
mod rotation;

pub use arrays::faces_of_arrays;
pub use frames::{SIDE_MM, load_frames};

use crate::quarantine::{DefectCode, Finding};

/// The pose as a target, or why it is none: an angle that is not finite or beyond 180 degrees.
fn check_angles(angles: [f64; 3]) -> Result<Vec<f32>, Finding> {
    if angles.iter().all(|angle| angle.abs() <= 180.) {
        return Ok(angles.map(|angle| angle as f32).to_vec());
    }
    let [yaw, pitch, roll] = angles;
    let detail = format!("yaw {yaw}, pitch {pitch}, roll {roll}: not three angles up to 180 degrees");
    Err(Finding::new(DefectCode::BadAnnotation, detail))
}
