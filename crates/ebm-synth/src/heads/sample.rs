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
use ebm_data::faces::{Face, Pixels};
use ebm_data::{Error, Image, Result};

/// Sample `index` of `key`: a head and its yaw, pitch and roll in degrees, with the signs of the
/// [module](super).
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
            let only_pose = Scene { pose: mirrored.pose, ..scene.clone() };
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

    /// A head under frontal light, not blurred, that shows these ages.
    fn plain(pose: [f32; 3], hair: u8, skin: u8, key: Key) -> Image {
        let config = HeadConfig { cue_noise: 0.0, ..HeadConfig::default() };
        let mut scene = age_scene(&config, AgeLatents { age: hair, hair, skin }, key);
        (scene.pose, scene.offset, scene.half_side, scene.blur) = (pose, [0.0; 2], 1.5, 0.0);
        scene.light.direction = [0.0, 0.0, 1.0];
        scene.occluders.clear();
        render(&scene, 64, 0.0, &mut key.rng())
    }

    #[test]
    fn the_face_turns_to_where_yaw_and_pitch_say() {
        // Skin is red and grey hair is not: where is more redness with one angle than with its opposite?
        let place_of_gain = |pose: [f32; 3]| {
            let (mut moment, mut total) = ([0.0; 2], 0.0);
            for index in 0..12 {
                let key = Key::new(2).index(index);
                let (a, b) = (plain(pose, 60, 22, key), plain(pose.map(|angle| -angle), 60, 22, key));
                for (place, (a, b)) in a.pixels.chunks(3).zip(b.pixels.chunks(3)).enumerate() {
                    let gain: f32 = f32::from(a[0]) - f32::from(a[2]) - f32::from(b[0]) + f32::from(b[2]);
                    moment[0] += gain * ((place % 64) as f32 - 31.5);
                    moment[1] += gain * ((place / 64) as f32 - 31.5);
                    total += gain.abs();
                }
            }
            moment.map(|value| value / total)
        };
        let [x, y] = place_of_gain([45.0, 0.0, 0.0]);
        assert!(x < -2.0 && y.abs() < 2.0, "positive yaw moves the skin by ({x}, {y})");
        let [x, y] = place_of_gain([0.0, 35.0, 0.0]);
        assert!(y < -2.0 && x.abs() < 2.0, "positive pitch moves the skin by ({x}, {y})");
    }

    #[test]
    fn the_two_groups_of_cues_show_in_places_of_their_own() {
        // Rows of the crown, and of the middle of the face.
        let (crown, face) = (7usize..14, 26usize..44);
        let level = |image: &Image, rows: &std::ops::Range<usize>| {
            let pixels = rows.clone().flat_map(|y| (22..42).map(move |x| 3 * (64 * y + x)));
            let values: Vec<f32> = pixels.map(|at| f32::from(image.pixels[at])).collect();
            values.iter().sum::<f32>() / values.len() as f32
        };
        let (mut grey, mut lines) = (0.0, 0.0);
        for index in 0..20 {
            let frontal = |hair, skin| plain([0.0; 3], hair, skin, Key::new(11).index(index));
            let (young, old_hair, old_skin) = (frontal(22, 22), frontal(60, 22), frontal(22, 60));
            assert_eq!(
                level(&old_skin, &crown),
                level(&young, &crown),
                "skin changes the crown of head {index}"
            );
            grey += level(&old_hair, &crown) - level(&young, &crown);
            lines += level(&young, &face) - level(&old_skin, &face);
        }
        assert!(grey / 20.0 > 40.0, "grey hair brightens by {}", grey / 20.0);
        assert!(lines / 20.0 > 3.0, "old skin darkens by {}", lines / 20.0);
    }
}
