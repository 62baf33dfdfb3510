//! What kind of videos to make.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use ebm_data::{Error, Result};

/// The distribution of videos. Lengths are in pixels, times in frames, probabilities in 0..=1.
///
/// In a configuration file every key is optional; unknown keys are errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VideoConfig {
    /// Columns of each frame.
    pub width: usize,
    /// Rows of each frame.
    pub height: usize,
    /// Frames of each video.
    pub frames: usize,
    /// Nominal diameter of the target in the first frame, before its handle or antenna is added; small ones
    /// are more frequent.
    pub size: RangeInclusive<f32>,
    /// The most other objects; about half of them look much like the target.
    pub distractors: usize,
    /// The most things that pass in front of the target.
    pub occluders: usize,
    /// The largest fraction of the target that is hidden in any frame; in the first one hardly anything is.
    pub max_occlusion: f32,
    /// The most that a target's middle moves from a frame to the next; uniform in its logarithm from video to
    /// video. (The box moves a little against that as the target turns.)
    pub speed: RangeInclusive<f32>,
    /// The largest factor by which the target grows or shrinks against the first frame.
    pub scale_change: f32,
    /// The largest factor by which its aspect ratio changes.
    pub aspect_change: f32,
    /// The largest angle by which it turns, in degrees.
    pub rotation: f32,
    /// How far the camera pans either way, in units of the frame's sides. It also zooms by up to half as
    /// much, or 15 %, and rolls by up to 0.3 of it, or 0.1 radians.
    pub camera: f32,
    /// The amount of clutter in the background, 0..=1.
    pub clutter: f32,
    /// The largest factor by which the light changes.
    pub illumination: f32,
    /// Probability that the shutter stays open long enough to smear what moves.
    pub motion_blur: f32,
    /// Probability that the target leaves the frame for a few frames.
    pub absence: f32,
    /// Standard deviation of the sensor noise at mid-grey, in 8-bit levels; videos have 0.3 to 1 of it.
    pub noise: f32,
    /// JPEG quality, 1..=100; from 90 on, chroma is not subsampled.
    pub jpeg_quality: u8,
}

impl Default for VideoConfig {
    fn default() -> Self {
        Self {
            width: 240,
            height: 180,
            frames: 60,
            size: 26.0..=60.0,
            distractors: 5,
            occluders: 3,
            max_occlusion: 0.75,
            speed: 1.5..=10.0,
            scale_change: 2.0,
            aspect_change: 2.0,
            rotation: 150.0,
            camera: 0.3,
            clutter: 0.7,
            illumination: 1.5,
            motion_blur: 0.4,
            absence: 0.08,
            noise: 6.0,
            jpeg_quality: 90,
        }
    }
}

impl VideoConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// [`Error::Argument`] with the first field that is out of range.
    pub fn validate(&self) -> Result<()> {
        let shorter = self.width.min(self.height) as f32;
        let (size, speed) = (&self.size, &self.speed);
        let factor = |value: f32, most: f32| (1.0..=most).contains(&value);
        let probability = |value: f32| (0.0..=1.0).contains(&value);
        check("width", (64..=4096).contains(&self.width), "must be in 64..=4096 pixels")?;
        check("height", (64..=4096).contains(&self.height), "must be in 64..=4096 pixels")?;
        check("frames", (2..=9999).contains(&self.frames), "must be in 2..=9999")?;
        check("size", *size.start() >= 8.0, "must start at 8 pixels or more")?;
        check("size", size.start() <= size.end(), "must not end before it starts")?;
        check("size", *size.end() <= 0.4 * shorter, "must end at 0.4 of the frame's shorter side or less")?;
        check("distractors", self.distractors <= 50, "must be 50 or less")?;
        check("occluders", self.occluders <= 50, "must be 50 or less")?;
        check("max_occlusion", (0.0..=0.95).contains(&self.max_occlusion), "must be in 0..=0.95")?;
        check("speed", *speed.start() > 0.0, "must start above 0 pixels per frame")?;
        check("speed", speed.start() <= speed.end(), "must not end before it starts")?;
        check("speed", *speed.end() <= shorter, "must end at the frame's shorter side or less")?;
        check("scale_change", factor(self.scale_change, 2.5), "must be in 1..=2.5")?;
        check("aspect_change", factor(self.aspect_change, 4.0), "must be in 1..=4")?;
        check("rotation", (0.0..=3600.0).contains(&self.rotation), "must be in 0..=3600 degrees")?;
        check("camera", (0.0..=2.0).contains(&self.camera), "must be in 0..=2 of a side")?;
        check("clutter", probability(self.clutter), "must be in 0..=1")?;
        check("illumination", factor(self.illumination, 4.0), "must be in 1..=4")?;
        check("motion_blur", probability(self.motion_blur), "must be in 0..=1")?;
        check("absence", probability(self.absence), "must be in 0..=1")?;
        check("noise", (0.0..=64.0).contains(&self.noise), "must be in 0..=64 levels")?;
        check("jpeg_quality", (1..=100).contains(&self.jpeg_quality), "must be in 1..=100")
    }
}

fn check(field: &'static str, valid: bool, requirement: &str) -> Result<()> {
    match valid {
        true => Ok(()),
        false => Err(Error::Argument { name: field, detail: format!("of a video {requirement}") }),
    }
}
