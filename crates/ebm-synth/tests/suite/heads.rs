//! Generated heads: reproducible, distributed as stated, and on disk whole or absent.

use std::fs;
use std::path::Path;

use ebm_data::Error;
use ebm_data::decode::read_image;
use ebm_data::faces::{Face, Pixels};
use ebm_seed::Key;
use ebm_synth::heads::{
    HeadConfig, Hidden, POSE_LIMITS, age_latents, generate_ages, pose_latents, poses, render_age, render_pose,
};

fn small() -> HeadConfig {
    HeadConfig { size: 32, ..HeadConfig::default() }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(path).unwrap()))
        .collect();
    found.sort();
    found
}

#[test]
fn poses_are_centred_broad_and_within_their_limits() {
    const COUNT: u64 = 4000;
    let config = HeadConfig::default();
    let all: Vec<_> = (0..COUNT).map(|i| pose_latents(&config, Key::new(1), i).unwrap()).collect();
    for (axis, limit) in POSE_LIMITS.into_iter().enumerate() {
        assert!(all.iter().all(|latents| latents.pose[axis].abs() <= limit));
        let center = mean(all.iter().map(|latents| f64::from(latents.pose[axis])));
        let spread = mean(all.iter().map(|latents| f64::from(latents.pose[axis]).powi(2))).sqrt();
        let stated = f64::from(config.pose_spread[axis]);
        assert!(center.abs() < 0.07 * stated, "axis {axis} has mean {center}");
        // Cutting the tails off makes it narrower.
        assert!((0.8 * stated..1.02 * stated).contains(&spread), "axis {axis} has deviation {spread}");
    }
    let fraction = |which| mean(all.iter().map(|latents| f64::from(latents.hidden == which)));
    assert!((fraction(None) - 0.85).abs() < 0.02);
    assert!((fraction(Some(Hidden::Hood)) - 0.075).abs() < 0.015);
    assert!((fraction(Some(Hidden::Darkness)) - 0.0375).abs() < 0.012);
    assert!((fraction(Some(Hidden::Board)) - 0.0375).abs() < 0.012);
    for probability in [0.0, 1.0] {
        let config = HeadConfig { pose_ambiguity: probability, ..HeadConfig::default() };
        let hidden = (0..50).map(|i| pose_latents(&config, Key::new(1), i).unwrap().hidden.is_some());
        assert!(hidden.into_iter().all(|hidden| hidden == (probability == 1.0)));
    }
}

#[test]
fn ages_are_skewed_to_the_young_and_some_contradict_themselves() {
    const COUNT: u64 = 6000;
    let config = HeadConfig::default();
    let all: Vec<_> = (0..COUNT).map(|i| age_latents(&config, Key::new(1), i).unwrap()).collect();
    assert!(all.iter().all(|latents| (21..=60).contains(&latents.age)));
    assert!([21, 60].iter().all(|&end| all.iter().any(|latents| latents.age == end)));
    let center = mean(all.iter().map(|latents| f64::from(latents.age)));
    assert!((center - 35.0).abs() < 1.0, "mean age {center}");
    let young = mean(all.iter().map(|latents| f64::from(u8::from(f64::from(latents.age) < center))));
    assert!(young > 0.52, "{young} are younger than the mean");
    for latents in &all {
        assert!(latents.hair == latents.age || latents.skin == latents.age, "{latents:?}");
        let apart = latents.hair.abs_diff(latents.skin);
        assert!(apart == 0 || apart >= 12, "{latents:?}");
    }
    let contradicting = |by: fn(&ebm_synth::heads::AgeLatents) -> u8| {
        mean(all.iter().map(|latents| f64::from(u8::from(by(latents) != latents.age))))
    };
    assert!((contradicting(|latents| latents.hair) - 0.1).abs() < 0.015);
    assert!((contradicting(|latents| latents.skin) - 0.1).abs() < 0.015);
}

#[test]
fn a_sample_depends_on_key_index_and_configuration_alone() {
    let pixels = |face: &Face| match &face.pixels {
        Pixels::Memory(image) => image.as_ref().clone(),
        other => panic!("{other:?}"),
    };
    let make = |count: usize, threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| poses(&small(), count, Key::new(3))).unwrap()
    };
    let (many, few) = (make(12, 3), make(5, 1));
    assert_eq!(many[..5], few[..]);
    for (index, face) in many.iter().enumerate() {
        let (image, pose) = render_pose(&small(), Key::new(3), index as u64).unwrap();
        assert_eq!((pixels(face), &face.target[..], &face.name), (image, &pose[..], &index.to_string()));
        assert_eq!(pose, pose_latents(&small(), Key::new(3), index as u64).unwrap().pose);
    }
    assert!(many.windows(2).all(|pair| pixels(&pair[0]) != pixels(&pair[1])));
    assert_ne!(
        render_pose(&small(), Key::new(4), 0).unwrap(),
        render_pose(&small(), Key::new(3), 0).unwrap()
    );
    assert_eq!(render_age(&small(), Key::new(3), 7).unwrap(), render_age(&small(), Key::new(3), 7).unwrap());
}

#[test]
fn files_are_what_utkface_readers_expect() {
    let temp = tempfile::tempdir().unwrap();
    let set = generate_ages(&temp.path().join("ages"), &small(), 15, Key::new(5)).unwrap();
    assert!(!set.reused);
    let split = fs::read_to_string(&set.split).unwrap();
    let mut lines = split.lines();
    assert_eq!(lines.next(), Some(",file,age"));
    for (index, line) in lines.enumerate() {
        let (image, age) = render_age(&small(), Key::new(5), index as u64).unwrap();
        let name = format!("{age}_0_0_{index:06}.png");
        assert_eq!(line, format!("{index},{name},{}", age - 21));
        assert_eq!(read_image(&set.images.join(name)).unwrap(), image);
    }
    assert_eq!((split.lines().count(), files(&set.images).len()), (16, 15));
}

#[test]
fn failures_are_typed_and_leave_nothing() {
    let temp = tempfile::tempdir().unwrap();
    for count in [0, 1_000_000] {
        let error = poses(&small(), count, Key::new(1)).unwrap_err();
        assert!(matches!(error, Error::Argument { name: "count", .. }), "{error}");
    }
    let invalid: [(&str, HeadConfig); 8] = [
        ("size", HeadConfig { size: 8, ..small() }),
        ("pose_spread", HeadConfig { pose_spread: [f32::NAN, 1.0, 1.0], ..small() }),
        ("pose_ambiguity", HeadConfig { pose_ambiguity: 1.5, ..small() }),
        ("age_ambiguity", HeadConfig { age_ambiguity: -0.1, ..small() }),
        ("cue_noise", HeadConfig { cue_noise: f32::INFINITY, ..small() }),
        ("occlusion", HeadConfig { occlusion: f32::NAN, ..small() }),
        ("blur", HeadConfig { blur: -1.0, ..small() }),
        ("noise", HeadConfig { noise: 100.0, ..small() }),
    ];
    for (field, config) in invalid {
        let found = generate_ages(&temp.path().join("ages"), &config, 2, Key::new(1));
        assert!(matches!(found, Err(Error::Argument { name, .. }) if name == field), "{field}: {found:?}");
        assert!(
            render_pose(&config, Key::new(1), 0).is_err() && render_age(&config, Key::new(1), 0).is_err()
        );
    }
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
}

#[test]
fn a_configuration_file_needs_only_what_differs() {
    let config: HeadConfig = serde_json::from_str(r#"{"size": 200}"#).unwrap();
    assert_eq!(config, HeadConfig { size: 200, ..HeadConfig::default() });
    assert!(serde_json::from_str::<HeadConfig>(r#"{"sizes": 200}"#).is_err());
}
