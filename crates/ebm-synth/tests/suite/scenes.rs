//! Scenes in memory and on disk: what they are like, reproducible and in COCO format.

use std::fs;

use ebm_base::Key;
use ebm_data::Error;
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::decode::read_image;
use ebm_synth::scenes::{CATEGORIES, SceneConfig, SceneObject, generate, render_scene};
use proptest::prelude::*;

fn small() -> SceneConfig {
    SceneConfig { width: 96, height: 64, size: 12.0..=30.0, ..SceneConfig::default() }
}

fn objects(scenes: u64) -> Vec<Vec<SceneObject>> {
    (0..scenes)
        .map(|index| render_scene(&SceneConfig::default(), Key::new(11).index(index)).unwrap().1)
        .collect()
}

#[test]
fn a_key_fixes_every_pixel() {
    let draw =
        |seed: u64, index: u64| render_scene(&SceneConfig::default(), Key::new(seed).index(index)).unwrap();
    assert_eq!(draw(1, 4), draw(1, 4));
    assert_ne!(draw(1, 4).0, draw(1, 5).0);
    assert_ne!(draw(1, 4).0, draw(2, 4).0);
}

#[test]
fn categories_are_balanced_and_objects_touch() {
    let scenes = objects(100);
    let all: Vec<&SceneObject> = scenes.iter().flatten().collect();
    let share = |count: usize| count as f32 / all.len() as f32;
    for id in 1..=CATEGORIES.len() {
        let share = share(all.iter().filter(|object| object.category_id == id).count());
        assert!((share - 1.0 / 6.0).abs() < 0.05, "{} has a share of {share}", CATEGORIES[id - 1]);
    }
    let at_border = |[x, y, w, h]: [usize; 4]| x == 0 || y == 0 || x + w == 160 || y + h == 160;
    assert!((0.1..0.5).contains(&share(all.iter().filter(|object| at_border(object.bbox)).count())));
    let meet =
        |a: [usize; 4], b: [usize; 4]| (0..2).all(|i| a[i] < b[i] + b[i + 2] && b[i] < a[i] + a[i + 2]);
    let meets = |scene: &[SceneObject], at: usize| {
        scene.iter().enumerate().any(|(other, object)| other != at && meet(object.bbox, scene[at].bbox))
    };
    let met: usize = scenes.iter().map(|scene| (0..scene.len()).filter(|&at| meets(scene, at)).count()).sum();
    assert!(share(met) > 0.3, "{}", share(met));
}

#[test]
fn invalid_configurations_are_refused_by_name() {
    let base = SceneConfig::default;
    let cases = [
        ("width", SceneConfig { width: 8, ..base() }),
        ("height", SceneConfig { height: 100_000, ..base() }),
        ("objects", SceneConfig { objects: 0..=3, ..base() }),
        ("objects", SceneConfig { objects: std::ops::RangeInclusive::new(5, 3), ..base() }),
        ("size", SceneConfig { size: 2.0..=40.0, ..base() }),
        ("size", SceneConfig { size: 40.0..=20.0, ..base() }),
        ("size", SceneConfig { size: 40.0..=140.0, ..base() }),
        ("size", SceneConfig { size: 40.0..=f32::NAN, ..base() }),
        ("noise", SceneConfig { noise: f32::NAN, ..base() }),
    ];
    for (field, config) in cases {
        match render_scene(&config, Key::new(0)) {
            Err(Error::Argument { name, .. }) => assert_eq!(name, field),
            other => panic!("{field}: {other:?}"),
        }
    }
    let temp = tempfile::tempdir().unwrap();
    for (field, count, noise) in [("count", 0, 1.0), ("noise", 2, -1.0)] {
        let error = generate(&temp.path().join("set"), &SceneConfig { noise, ..small() }, count, Key::new(1))
            .unwrap_err();
        assert!(matches!(error, Error::Argument { name, .. } if name == field), "{error}");
    }
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
}

#[test]
fn the_set_is_what_coco_readers_expect() {
    let temp = tempfile::tempdir().unwrap();
    let set = generate(&temp.path().join("set"), &small(), 12, Key::new(5)).unwrap();
    let data = CocoDataset::load(&set.annotations, &set.images, &LoadOptions::new(Purpose::Eval)).unwrap();
    assert_eq!((data.images.len(), data.quarantine.defects.len()), (12, 0));
    let names: Vec<&str> = data.categories.iter().map(|category| category.name.as_str()).collect();
    assert_eq!(names, CATEGORIES);
    for (index, image) in data.images.iter().enumerate() {
        let (scene, objects) = render_scene(&small(), Key::new(5).index(index as u64)).unwrap();
        assert_eq!(image.objects.len(), objects.len());
        for (read, made) in image.objects.iter().zip(&objects) {
            let [x, y, w, h] = made.bbox;
            assert_eq!(read.bbox, [x, y, x + w, y + h].map(|side| side as f32));
            assert_eq!(read.label, made.category_id);
        }
        let decoded = read_image(&set.images.join(format!("{:06}.jpg", index + 1))).unwrap();
        let pairs = decoded.pixels.iter().zip(&scene.pixels);
        let error: f32 = pairs.map(|(&a, &b)| f32::from(a.abs_diff(b))).sum();
        assert!(error / (scene.pixels.len() as f32) < 8.0, "JPEG changes the pixels by {error} in all");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn boxes_lie_inside_the_image(seed in any::<u64>(), width in 40usize..200, height in 40usize..200) {
        let config = SceneConfig { width, height, size: 10.0..=24.0, ..SceneConfig::default() };
        let (image, objects) = render_scene(&config, Key::new(seed)).unwrap();
        prop_assert_eq!(image.pixels.len(), 3 * width * height);
        prop_assert!((1..=8).contains(&objects.len()));
        for SceneObject { bbox: [x, y, w, h], area, .. } in objects {
            prop_assert!(w >= 3 && h >= 3 && x + w <= width && y + h <= height);
            prop_assert!(area > 0 && area <= w * h);
        }
    }
}
