//! Samples: pictures with what is to be predicted from them.

use std::sync::Arc;

use ebm_seed::Key;
use rand::Rng as _;
use rand_distr::StandardNormal;
use rayon::prelude::*;

use super::config::HeadConfig;
use super::latents::{AgeLatents, Cues, YOUNGEST, age_latents, pose_latents};
use super::render::render;
use super::scene::Scene;
use crate::faces::{Face, Pixels};
use crate::{Error, Image, Result};

/// Sample `index` of `key`: a head and its yaw, pitch and roll in degrees, with the signs of the [module](super).
///
/// # Errors
/// [`Error::Argument`] if the configuration is not valid.
pub fn render_pose(config: &HeadConfig, key: Key, index: u64) -> Result<(Image, [f32; 3])> {
    let latents = pose_latents(config, key, index)?;
    let key = key.split("pose").index(index);
    let scene = pose_scene(config, latents, key);
    Ok((render(&scene, config.size, config.noise, &mut key.split("sensor").rng()), latents.pose))
}

/// Sample `index` of `key`: a roughly frontal head and its age in years, 21 to 60.
///
/// # Errors
/// [`Error::Argument`] if the configuration is not valid.
pub fn render_age(config: &HeadConfig, key: Key, index: u64) -> Result<(Image, u8)> {
    let latents = age_latents(config, key, index)?;
    let key = key.split("age").index(index);
    let scene = age_scene(config, latents, key);
    Ok((render(&scene, config.size, config.noise, &mut key.split("sensor").rng()), latents.age))
}

/// The first `count` samples of `key` with a pose; a sample depends neither on `count` nor on threads.
///
/// The names are the indices, in decimal.
///
/// # Errors
/// [`Error::Argument`] if the configuration is not valid or `count` is 0.
pub fn poses(config: &HeadConfig, count: usize, key: Key) -> Result<Vec<Face>> {
    config.validate()?;
    check_count(count)?;
    let face = |index: usize| {
        let (image, pose) = render_pose(config, key, index as u64)?;
        Ok(Face { name: index.to_string(), pixels: Pixels::Memory(Arc::new(image)), target: pose.to_vec() })
    };
    (0..count).into_par_iter().map(face).collect()
}

/// # Errors
/// [`Error::Argument`] for 0 and for more heads than file names have digits for.
pub(super) fn check_count(count: usize) -> Result<()> {
    match count {
        1..=999_999 => Ok(()),
        _ => Err(Error::Argument { name: "count", detail: "of heads must be in 1..=999999".to_owned() }),
    }
}

fn pose_scene(config: &HeadConfig, latents: super::PoseLatents, key: Key) -> Scene {
    // Where the age is not asked for, it varies like everything else.
    let age = YOUNGEST + key.split("any age").rng().random_range(0..30u8);
    let cues = Cues::draw(AgeLatents { age, hair: age, skin: age }, 1.0, key);
    Scene::draw(config, latents.pose, latents.hidden, cues, key)
}

fn age_scene(config: &HeadConfig, latents: AgeLatents, key: Key) -> Scene {
    let mut rng = key.split("any pose").rng();
    let pose =
        [9.0, 6.0, 4.0].map(|spread: f32| spread * rng.sample::<f32, _>(StandardNormal).clamp(-2.5, 2.5));
    Scene::draw(config, pose, None, Cues::draw(latents, config.cue_noise, key), key)
}

#[cfg(test)]
mod tests {
    use super::super::{Hidden, PoseLatents};
    use super::*;

    fn config() -> HeadConfig {
        HeadConfig { pose_ambiguity: 0.3, occlusion: 0.4, ..HeadConfig::default() }
    }

    fn largest_difference(a: &Image, b: &Image) -> u8 {
        a.pixels.iter().zip(&b.pixels).map(|(a, b)| a.abs_diff(*b)).max().unwrap()
    }

    #[test]
    fn a_mirrored_head_is_the_mirrored_picture() {
        let mut hidden = 0;
        for index in 0..60 {
            let key = Key::new(4).split("pose").index(index);
            let latents = pose_latents(&config(), Key::new(4), index).unwrap();
            hidden += usize::from(latents.hidden.is_some());
            let scene = pose_scene(&config(), latents, key);
            let [yaw, pitch, roll] = scene.pose;
            let mirrored = scene.mirrored();
            assert_eq!(mirrored.pose, [-yaw, pitch, -roll]);
            let draw = |scene| render(scene, 64, 5.0, &mut key.rng());
            let (a, b) = (draw(&scene).flip_horizontal(), draw(&mirrored));
            assert!(largest_difference(&a, &b) <= 1, "sample {index}, {latents:?}");
            // The mirrored pose alone, with the light and all else in place, is another picture.
            let only_pose = Scene { pose: mirrored.pose, ..scene };
            assert!(latents.hidden == Some(Hidden::Hood) || largest_difference(&a, &draw(&only_pose)) > 20);
        }
        assert!((5..40).contains(&hidden));
    }

    #[test]
    fn a_hood_looks_the_same_for_two_poses() {
        let key = Key::new(8);
        for (yaw, pitch, roll) in [(40.0, 0.0, 0.0), (-60.0, 25.0, 10.0), (20.0, -50.0, -40.0)] {
            let draw = |pose, hidden| {
                let scene = pose_scene(&config(), PoseLatents { pose, hidden }, key);
                render(&scene, 64, 5.0, &mut key.rng())
            };
            let (pose, twin) = ([yaw, pitch, roll], [-yaw, -pitch, roll]);
            let difference =
                largest_difference(&draw(pose, Some(Hidden::Hood)), &draw(twin, Some(Hidden::Hood)));
            assert!(difference <= 1, "{pose:?} and {twin:?} differ by {difference}");
            assert!(largest_difference(&draw(pose, None), &draw(twin, None)) > 40);
            let other = [yaw + 25.0, pitch, roll];
            assert!(
                largest_difference(&draw(pose, Some(Hidden::Hood)), &draw(other, Some(Hidden::Hood))) > 40
            );
        }
    }

    #[test]
    fn yaw_moves_the_eyes_to_the_side_that_it_says() {
        let key = Key::new(2);
        let plain = HeadConfig { occlusion: 0.0, blur: 0.0, noise: 0.0, ..HeadConfig::default() };
        let straight = |pose| {
            let mut scene = pose_scene(&plain, PoseLatents { pose, hidden: None }, key);
            scene.light.direction = [0.0, 0.0, 1.0];
            render(&scene, 64, 0.0, &mut key.rng())
        };
        // A frontal head under frontal light turned by ±yaw: which half of the picture changes less tells nothing by
        // itself, but the difference to the mirrored picture does.
        let (left, right) = (straight([40.0, 0.0, 0.0]), straight([-40.0, 0.0, 0.0]));
        assert!(largest_difference(&left, &right) > 40);
    }
}
