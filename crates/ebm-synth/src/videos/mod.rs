//! Generated videos of one target each, with exact boxes, made for comparing trackers on a small budget.
//!
//! The target is a textured figure with decals. It runs along a smooth curve, now fast, now slow, while it
//! grows, shrinks, turns and is stretched in one direction. What makes it hard to track, or its box hard to
//! tell:
//!
//! * other objects, half of them with the target's shape and pattern in similar colours, that come near it;
//! * strips and patches that pass in front of it, or stand where it passes, and hide a part of it;
//! * handles and antennas: thin parts that decide where the box ends;
//! * a camera that pans, zooms and rolls over a cluttered world;
//! * light that changes in strength, colour and direction, motion blur, sensor noise, JPEG compression;
//! * in a few videos, an excursion out of the frame: there the box is NaN.
//!
//! Colours and textures are drawn independently of the shape.
//!
//! | file | what it holds |
//! |---|---|
//! | `config` | [`VideoConfig`] and its validation |
//! | `motion` | smooth random numbers and curves |
//! | `affine` | where a figure lies in a frame; the exact box of a transformed figure |
//! | `look` | a figure, its texture and decals, drawn |
//! | `actor` | an object through time |
//! | `camera` | the camera and the light |
//! | `cast` | target, distractors, occluders |
//! | `video` | [`Video`]: boxes and frames |
//! | `dataset` | [`generate`]: files in OTB's layout |
//!
//! Figures, textures and layers are those of `drawing`, backgrounds those of [`scenes`](crate::scenes).
//!
//! Every draw comes from a [`Key`](ebm_seed::Key) split by purpose. The bytes of a video depend on its key
//! and configuration alone; across platforms they may differ where the system's `sin`, `cos`, `exp` and
//! `powf` do.

mod actor;
mod affine;
mod camera;
mod cast;
mod config;
mod dataset;
mod look;
mod motion;
mod video;

pub use config::VideoConfig;
pub use dataset::generate;
pub use video::Video;
