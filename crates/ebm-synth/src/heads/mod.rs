//! Generated heads with a known pose or age, so that both experiments run without a download.
//!
//! A head is a handful of ellipsoids (skull, face, chin, cheeks, jowls, nose, ears, hair) met by parallel
//! rays, with eyes, brows, mouth, beard, wrinkles and glasses painted on, lit from a random direction in
//! front of a random background.
//!
//! # Pose
//! Yaw, pitch and roll in degrees, as FSA-Net's files of BIWI have them. Seen by the viewer of the picture:
//!
//! * positive **yaw** turns the face towards the picture's **left** edge: the nose points left;
//! * positive **pitch** turns the face **up**: the nose points to the top, the forehead recedes;
//! * positive **roll** tilts the head **clockwise**: the crown moves to the picture's right edge.
//!
//! With axes to the right, down and away from the viewer, and R the matrix that turns the camera's
//! coordinates into the head's (the transpose of a BIWI pose file's), roll = −atan2(R₁₀, R₀₀), yaw =
//! −atan2(−R₂₀, √(R₂₁² + R₂₂²)) and pitch = atan2(R₂₁, R₂₂). A mirrored picture therefore has the pose (−yaw,
//! pitch, −roll).
//!
//! For a fraction [`HeadConfig::pose_ambiguity`] the cues are [`Hidden`]: half of these have two modes.
//!
//! # Age
//! 21 to 60 years. Greying and hairline tell it, and, independently, forehead lines, crow's feet, folds, bags
//! and jowls; each with an error of its own, so that no predictor is exact. For a fraction
//! [`HeadConfig::age_ambiguity`] the two groups contradict each other: see [`AgeLatents`].
//!
//! | file | what it holds |
//! |---|---|
//! | `config` | [`HeadConfig`] and its validation |
//! | `latents` | what is to be predicted, and what hides it |
//! | `geometry` | rotation, ellipsoids, rays |
//! | `noise` | value noise in space |
//! | `identity`, `paint` | one head: its parts and hair; its skin |
//! | `surroundings` | backgrounds and occluders |
//! | `scene`, `render` | one picture, and its pixels |
//! | `sample` | [`render_pose`], [`render_age`], [`poses`] |
//! | `dataset` | [`generate_ages`]: PNG files, `split.csv`, `heads.json` |
//!
//! Every draw comes from a [`Key`](ebm_seed::Key) split by purpose. The bytes of a head depend on its key,
//! index and configuration alone; across platforms they may differ where the system's `sin`, `cos`, `exp` and
//! `powf` do.

mod config;
mod dataset;
mod geometry;
mod identity;
mod latents;
mod noise;
mod paint;
mod render;
mod sample;
mod scene;
mod surroundings;

pub use config::{HeadConfig, POSE_LIMITS};
pub use dataset::{GeneratedAges, generate_ages};
pub use latents::{AgeLatents, Hidden, PoseLatents, age_latents, pose_latents};
pub use sample::{poses, render_age, render_pose};
