//! Discs in place of faces, for tests and quick checks of age and pose experiments. Results say nothing about faces.
//!
//! The radius encodes the age, 21 to 60 years. Two dots encode the pose in degrees: the larger moves left with yaw
//! and up with pitch, the smaller at the crown turns clockwise with roll. Mirroring gives (−yaw, pitch, −roll).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ebm_base::{Key, Rng};
use ebm_data::encode::write_png;
use ebm_data::faces::{Face, Pixels};
use ebm_data::files::{create_dir, write_atomic};
use ebm_data::{Image, Result};
use rand::Rng as _;
use rayon::prelude::*;

use crate::drawing::{Canvas, Mask, Surface, check, place, regular};
use crate::generated_dir::{Kind, make};

/// Largest yaw, pitch and roll, in degrees either way.
pub const POSE_LIMITS: [f32; 3] = [75.0, 60.0, 50.0];
const YOUNGEST: u8 = 21;
const OLDEST: u8 = 60;
const IMAGES: &str = "images";
const SPLIT: &str = "split.csv";
const KIND: Kind = Kind { what: "faces", manifest: "faces.json", digest: "age digest", version: 3 };

/// Paths of the generated pictures with ages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedAges {
    /// Directory of the images.
    pub images: PathBuf,
    /// Split file `,file,age` in the format of Cao et al., whose ages count from 21.
    pub split: PathBuf,
}

/// Writes `count` pictures of `size` × `size` pixels with ages to PNG files in `dir`, or reuses existing ones.
///
/// # Errors
/// [`ebm_data::Error::Argument`] if `size` or `count` is out of range or `dir` holds anything else;
/// [`ebm_data::Error::Io`] or [`ebm_data::Error::Failure`] if a file cannot be written.
pub fn generate_ages(dir: &Path, size: usize, count: usize, key: Key) -> Result<GeneratedAges> {
    check_faces(size, count)?;
    let age_of = |index: usize| key.split("age").index(index as u64).rng().random_range(YOUNGEST..=OLDEST);
    let name = |index: usize| format!("{}_0_0_{index:06}.png", age_of(index));
    let files = |dir: &Path| {
        (0..count).map(|index| dir.join(IMAGES).join(name(index))).chain([dir.join(SPLIT)]).collect()
    };
    let write = |dir: &Path| {
        let images = dir.join(IMAGES);
        create_dir(&images)?;
        (0..count).into_par_iter().try_for_each(|index| {
            let radius = 0.15 + 0.25 * f32::from(age_of(index) - YOUNGEST) / f32::from(OLDEST - YOUNGEST);
            let picture = draw(size, radius, [0.0; 3], &mut key.split("picture").index(index as u64).rng());
            write_png(&images.join(name(index)), &picture)
        })?;
        let lines: Vec<String> = (0..count)
            .map(|index| format!("{index},{},{}\n", name(index), age_of(index) - YOUNGEST))
            .collect();
        write_atomic(&dir.join(SPLIT), format!(",file,age\n{}", lines.concat()).as_bytes())
    };
    make(dir, &KIND, &size, count, key, files, write)?;
    Ok(GeneratedAges { images: dir.join(IMAGES), split: dir.join(SPLIT) })
}

/// Returns `count` pictures of `size` × `size` pixels with yaw, pitch and roll in degrees, named by their index.
///
/// # Errors
/// [`ebm_data::Error::Argument`] if `size` or `count` is out of range.
pub fn poses(size: usize, count: usize, key: Key) -> Result<Vec<Face>> {
    check_faces(size, count)?;
    let face = |index: usize| {
        let mut rng = key.split("pose").index(index as u64).rng();
        let pose = POSE_LIMITS.map(|limit| rng.random_range(-limit..=limit));
        let picture = draw(size, 0.35, pose, &mut rng);
        Ok(Face { name: index.to_string(), pixels: Pixels::Memory(Arc::new(picture)), target: pose.to_vec() })
    };
    (0..count).into_par_iter().map(face).collect()
}

fn check_faces(size: usize, count: usize) -> Result<()> {
    check("faces", [("size", (16..=1024).contains(&size), "be in 16..=1024 pixels")])?;
    check("faces", [("count", (1..=999_999).contains(&count), "be in 1..=999999")])
}

/// Draws a disc of this radius, in units of the side, near the middle of a noisy picture.
fn draw(size: usize, radius: f32, pose: [f32; 3], rng: &mut Rng) -> Image {
    let side = size as f32;
    let mut shades = || [(); 3].map(|()| rng.random_range(40.0f32..=215.0));
    let (ground, disc) = (shades(), shades());
    let dot = disc.map(|shade| if shade > 128.0 { shade - 80.0 } else { shade + 80.0 });
    let center = [(); 2].map(|()| side * rng.random_range(0.45..=0.55));
    let [yaw, pitch, roll] = pose.map(|degrees| degrees.to_radians().sin());
    let crown = [0.8 * roll, -0.8 * (1.0 - roll * roll).sqrt()];
    let mut canvas = Canvas::new(size, size, &Surface::plain(ground));
    for (middle, part, color) in
        [([0.0; 2], 1.0, disc), ([-0.6 * yaw, -0.6 * pitch], 0.22, dot), (crown, 0.14, dot)]
    {
        let at = [0, 1].map(|axis| center[axis] + radius * side * middle[axis]);
        let mask = Mask::new(&place(&regular(48, 1.0), at, part * radius * side));
        canvas.paint(&mask, &Surface::plain(color), at, 1.0);
    }
    canvas.expose(12.0, rng)
}
