//! What kind of heads to make.

use serde::{Deserialize, Serialize};

use ebm_data::{Error, Result};

/// The largest yaw, pitch and roll of a head, in degrees either way.
pub const POSE_LIMITS: [f32; 3] = [75.0, 60.0, 50.0];

/// The distribution of generated heads. Probabilities are in 0..=1.
///
/// In a configuration file every key is optional; unknown keys are errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HeadConfig {
    /// Columns and rows of each image; FSA-Net's images of poses have 64, UTKFace's of ages 200.
    pub size: usize,
    /// Standard deviations of yaw, pitch and roll in degrees, before values beyond [`POSE_LIMITS`] are drawn
    /// again.
    pub pose_spread: [f32; 3],
    /// Probability that the cues to a head's pose are hidden; see [`Hidden`](super::Hidden).
    pub pose_ambiguity: f32,
    /// Probability that hair or skin shows another age than the head's own; see
    /// [`AgeLatents`](super::AgeLatents).
    pub age_ambiguity: f32,
    /// Factor on the errors that each cue to the age has by itself.
    pub cue_noise: f32,
    /// Probability of a strip or fingers over a part of the head.
    pub occlusion: f32,
    /// The largest standard deviation of the blur, in 64ths of the image's side.
    pub blur: f32,
    /// Standard deviation of the sensor noise at mid-grey, in 8-bit levels.
    pub noise: f32,
}

impl Default for HeadConfig {
    fn default() -> Self {
        Self {
            size: 64,
            pose_spread: [32.0, 22.0, 14.0],
            pose_ambiguity: 0.15,
            age_ambiguity: 0.2,
            cue_noise: 1.0,
            occlusion: 0.25,
            blur: 0.9,
            noise: 5.0,
        }
    }
}

impl HeadConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// [`Error::Argument`] with the first field that is out of range.
    pub fn validate(&self) -> Result<()> {
        let spread_ok = self.pose_spread.iter().all(|value| (0.0..=90.0).contains(value));
        check("size", (16..=1024).contains(&self.size), "must be in 16..=1024 pixels")?;
        check("pose_spread", spread_ok, "must be in 0..=90 degrees")?;
        check("pose_ambiguity", is_probability(self.pose_ambiguity), "must be in 0..=1")?;
        check("age_ambiguity", is_probability(self.age_ambiguity), "must be in 0..=1")?;
        check("cue_noise", (0.0..=4.0).contains(&self.cue_noise), "must be in 0..=4")?;
        check("occlusion", is_probability(self.occlusion), "must be in 0..=1")?;
        check("blur", (0.0..=8.0).contains(&self.blur), "must be in 0..=8")?;
        check("noise", (0.0..=64.0).contains(&self.noise), "must be in 0..=64 levels")
    }
}

fn is_probability(value: f32) -> bool {
    (0.0..=1.0).contains(&value)
}

fn check(field: &'static str, valid: bool, requirement: &str) -> Result<()> {
    match valid {
        true => Ok(()),
        false => Err(Error::Argument { name: field, detail: format!("of generated heads {requirement}") }),
    }
}
