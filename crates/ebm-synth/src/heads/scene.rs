//! Everything that is in one picture, before it is drawn.

use ebm_seed::Key;
use rand::Rng as _;

use super::config::HeadConfig;
use super::geometry::{Vec3, View, normalised};
use super::identity::{Identity, Rgb};
use super::latents::{Cues, Hidden};
use super::surroundings::{Backdrop, Occluder};

/// Who is in the picture.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    /// A head on a neck.
    Person(Box<Identity>),
    /// An ellipsoid of one colour.
    Hood {
        /// Its half axes.
        radii: Vec3,
        /// Its colour.
        color: Rgb,
    },
}

/// A directed light and one from everywhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct Light {
    pub(super) direction: Vec3,
    pub(super) strength: f32,
    pub(super) ambient: f32,
    /// Light that the lens scatters over the whole picture.
    pub(super) veil: f32,
}

/// One picture, in units of half a head's height from the head's middle: right, up, towards the viewer.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub(super) subject: Subject,
    pub(super) pose: [f32; 3],
    /// Where the head's middle is in the picture.
    pub(super) offset: [f32; 2],
    /// Half the picture's side.
    pub(super) half_side: f32,
    pub(super) light: Light,
    pub(super) clothes: Rgb,
    pub(super) backdrop: Backdrop,
    pub(super) occluders: Vec<Occluder>,
    /// Standard deviation in 64ths of the picture's side.
    pub(super) blur: f32,
    /// 1, or −1 if all textures, and what is flat, run from right to left.
    pub(super) side: f32,
}

impl Scene {
    /// A head in `pose` that shows `cues`.
    pub(super) fn draw(
        config: &HeadConfig,
        pose: [f32; 3],
        hidden: Option<Hidden>,
        cues: Cues,
        key: Key,
    ) -> Self {
        let mut rng = key.split("scene").rng();
        let against_light = matches!(hidden, Some(Hidden::Hood | Hidden::Darkness));
        let direction = normalised([
            rng.random_range(-0.9..=0.9),
            rng.random_range(-0.2..=0.9),
            rng.random_range(0.35..=1.0),
        ]);
        let light = if against_light {
            Light {
                direction,
                strength: rng.random_range(0.0..=0.03),
                ambient: rng.random_range(0.005..=0.03),
                veil: rng.random_range(0.0..=0.06),
            }
        } else {
            let ambient = rng.random_range(0.2..=0.5);
            Light { direction, strength: rng.random_range(0.6..=1.0), ambient, veil: 0.0 }
        };
        let subject = if hidden == Some(Hidden::Hood) {
            let radii =
                [rng.random_range(0.74..=0.86), rng.random_range(1.05..=1.15), rng.random_range(0.95..=1.08)];
            Subject::Hood { radii, color: [rng.random_range(0.005..=0.03); 3] }
        } else {
            Subject::Person(Box::new(Identity::draw(cues, key)))
        };
        let mut occluders = Vec::new();
        if hidden == Some(Hidden::Board) {
            let [x, y, _] = View::of_pose(pose).to_picture([0.0, -0.15, 0.7]);
            occluders.push(Occluder::board([x, y], &mut rng));
        } else if rng.random_bool(f64::from(config.occlusion)) {
            occluders.push(Occluder::draw(&mut rng));
        }
        Self {
            subject,
            pose,
            offset: [rng.random_range(-0.14..=0.14), rng.random_range(-0.14..=0.14)],
            half_side: rng.random_range(1.35..=1.65),
            light,
            clothes: super::identity::random_color(&mut rng),
            backdrop: Backdrop::draw(against_light, key),
            occluders,
            blur: config.blur * rng.random_range(0.0f32..=1.0).powi(2),
            side: 1.0,
        }
    }

    /// The picture as a mirror shows it: yaw, roll and all places to the left and right change sign.
    #[cfg(test)]
    pub(super) fn mirrored(&self) -> Self {
        let [yaw, pitch, roll] = self.pose;
        let [x, y, z] = self.light.direction;
        Self {
            pose: [-yaw, pitch, -roll],
            offset: [-self.offset[0], self.offset[1]],
            light: Light { direction: [-x, y, z], ..self.light },
            side: -self.side,
            ..self.clone()
        }
    }
}
