//! What is to be predicted from a head, and what hides it.

use ebm_seed::Key;
use rand::Rng as _;
use rand_distr::{Beta, Distribution as _, StandardNormal};

use super::config::{HeadConfig, POSE_LIMITS};
use ebm_data::{Error, Result};

/// What hides the cues to a pose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// A hood without texture over the whole head, against the light: an ellipsoid's silhouette is all that
    /// is seen. It is the same for (yaw, pitch, roll) and (−yaw, −pitch, roll), which is the second mode of
    /// p(pose | image).
    Hood,
    /// The light comes from behind: the outline tells the pose roughly, the face hardly shows.
    Darkness,
    /// A board over most of the face.
    Board,
}

/// A pose and what hides it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoseLatents {
    /// Yaw, pitch and roll in degrees, with the signs of the [module](super).
    pub pose: [f32; 3],
    /// What hides the cues to it, if anything does.
    pub hidden: Option<Hidden>,
}

/// The pose of sample `index` of `key`, without its picture.
///
/// # Errors
/// [`Error::Argument`] if the configuration is not valid.
pub fn pose_latents(config: &HeadConfig, key: Key, index: u64) -> Result<PoseLatents> {
    config.validate()?;
    let mut rng = key.split("pose").index(index).split("label").rng();
    let mut angle = |axis: usize| loop {
        let degrees = config.pose_spread[axis] * rng.sample::<f32, _>(StandardNormal);
        if degrees.abs() <= POSE_LIMITS[axis] {
            return degrees;
        }
    };
    let pose = [angle(0), angle(1), angle(2)];
    // Two modes are as frequent as the two ways to a wide one.
    let hidden = rng.random_bool(f64::from(config.pose_ambiguity)).then(|| match rng.random_range(0u8..4) {
        0 | 1 => Hidden::Hood,
        2 => Hidden::Darkness,
        _ => Hidden::Board,
    });
    Ok(PoseLatents { pose, hidden })
}

/// An age and the ages that hair and skin show.
///
/// The three are equal but for a fraction [`HeadConfig::age_ambiguity`] of the heads. There, either the hair
/// (dyed, or grey early) or the skin (made up, or weathered) shows another age from the same distribution, 12
/// years or more away. As nothing tells which of the two it is, p(age | image) has a mode at the age that the
/// hair shows and one at the age that the skin shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgeLatents {
    /// The age in years, 21 to 60.
    pub age: u8,
    /// The age that colour and line of the hair, and the beard, show.
    pub hair: u8,
    /// The age that wrinkles, folds, bags and jowls show.
    pub skin: u8,
}

/// The youngest age, and how many there are.
pub(super) const YOUNGEST: u8 = 21;
const AGES: u8 = 40;
/// Ages that contradict each other are so many years apart: closer ones would melt into one mode.
const CONTRADICTION: u8 = 12;

/// The age of sample `index` of `key`, without its picture.
///
/// # Errors
/// [`Error::Argument`] if the configuration is not valid.
pub fn age_latents(config: &HeadConfig, key: Key, index: u64) -> Result<AgeLatents> {
    config.validate()?;
    let mut rng = key.split("age").index(index).split("label").rng();
    // Mean 35 and skewed to the young, as UTKFace's ages from 21 to 60.
    let years = Beta::new(1.15f32, 2.0)
        .map_err(|error| Error::Argument { name: "age", detail: error.to_string() })?;
    let mut draw = || YOUNGEST + ((years.sample(&mut rng) * f32::from(AGES)) as u8).min(AGES - 1);
    let age = draw();
    let other = loop {
        let other = draw();
        if other.abs_diff(age) >= CONTRADICTION {
            break other;
        }
    };
    let ambiguous = rng.random_bool(f64::from(config.age_ambiguity));
    let (hair, skin) = match (ambiguous, rng.random_bool(0.5)) {
        (false, _) => (age, age),
        (true, false) => (other, age),
        (true, true) => (age, other),
    };
    Ok(AgeLatents { age, hair, skin })
}

/// How strongly each cue to the age shows: about 0 at the youngest age, 1 at the oldest, with errors of its
/// own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cues {
    pub(super) grey: f32,
    pub(super) hairline: f32,
    pub(super) forehead: f32,
    pub(super) eyes: f32,
    pub(super) folds: f32,
    pub(super) bags: f32,
    pub(super) jowls: f32,
}

impl Cues {
    /// The cues of a head: each is that of its group's age plus an error of the standard deviation given
    /// here, in years.
    pub(super) fn draw(latents: AgeLatents, noise: f32, key: Key) -> Self {
        let mut rng = key.split("cues").rng();
        let mut cue = |age: u8, deviation: f32| {
            let seen = f32::from(age) + noise * deviation * rng.sample::<f32, _>(StandardNormal);
            ((seen - f32::from(YOUNGEST)) / f32::from(AGES)).clamp(-0.15, 1.3)
        };
        Self {
            grey: cue(latents.hair, 6.0),
            hairline: cue(latents.hair, 9.0),
            forehead: cue(latents.skin, 9.0),
            eyes: cue(latents.skin, 9.0),
            folds: cue(latents.skin, 8.0),
            bags: cue(latents.skin, 10.0),
            jowls: cue(latents.skin, 11.0),
        }
    }
}
