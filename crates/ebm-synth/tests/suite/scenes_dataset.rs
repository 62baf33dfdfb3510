//! Scenes on disk: the set is whole, reproducible and in COCO format, or absent.

use std::fs;

use ebm_data::Error;
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::decode::read_image;
use ebm_seed::Key;
use ebm_synth::scenes::{SceneConfig, generate, render_scene};

fn small() -> SceneConfig {
    SceneConfig { width: 96, height: 64, size: 12.0..=30.0, ..SceneConfig::default() }
}

#[test]
fn the_set_is_what_coco_readers_expect() {
    let temp = tempfile::tempdir().unwrap();
    let set = generate(&temp.path().join("set"), &small(), 12, Key::new(5)).unwrap();
    assert!(!set.reused && generate(&temp.path().join("set"), &small(), 12, Key::new(5)).unwrap().reused);
    let data = CocoDataset::load(&set.annotations, &set.images, &LoadOptions::new(Purpose::Eval)).unwrap();
    assert_eq!((data.images.len(), data.categories.len(), data.quarantine.defects.len()), (12, 6, 0));
    for (index, image) in data.images.iter().enumerate() {
        let (scene, objects) = render_scene(&small(), Key::new(5).index(index as u64)).unwrap();
        assert_eq!(image.objects.len(), objects.len());
        for (read, made) in image.objects.iter().zip(&objects) {
            let [x, y, w, h] = made.bbox;
            for (a, b) in read.bbox.iter().zip([x, y, x + w, y + h]) {
                assert!((a - b).abs() < 1e-4, "{read:?} is not {made:?}");
            }
            assert_eq!(read.label, made.category_id);
        }
        let decoded = read_image(&set.images.join(format!("{:06}.jpg", index + 1))).unwrap();
        let pairs = decoded.pixels.iter().zip(&scene.pixels);
        let error: f32 = pairs.map(|(&a, &b)| f32::from(a.abs_diff(b))).sum();
        assert!(error / (scene.pixels.len() as f32) < 6.0, "JPEG changes the pixels by {error} in all");
    }
    let text = fs::read_to_string(&set.annotations).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let annotations = json["annotations"].as_array().unwrap();
    assert!(annotations.len() >= 12);
    for annotation in annotations {
        assert!(annotation["area"].as_f64().unwrap() > 0.0 && annotation["iscrowd"] == 0);
        assert!(annotation["occlusion"].is_number() && annotation["blur"].is_number());
    }
    assert_eq!(json["categories"][4]["name"], "mug");
}

#[test]
fn annotations_have_the_attributes_that_were_made() {
    let temp = tempfile::tempdir().unwrap();
    let set = generate(&temp.path().join("set"), &small(), 6, Key::new(5)).unwrap();
    let json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&set.annotations).unwrap()).unwrap();
    let made = (0..6).flat_map(|index| render_scene(&small(), Key::new(5).index(index)).unwrap().1);
    let made: Vec<_> = made.collect();
    let read = json["annotations"].as_array().unwrap();
    assert_eq!(read.len(), made.len());
    for (found, object) in read.iter().zip(&made) {
        let number = |name: &str| found[name].as_f64().map(|value| value as f32);
        assert_eq!(
            [number("occlusion"), number("truncation")],
            [Some(object.occlusion), Some(object.truncation)]
        );
        assert_eq!((number("blur"), number("thin_part")), (Some(object.blur), object.thin_part));
        assert_eq!(found["fading_side"], object.fading_side);
    }
    let thin = read.iter().filter(|found| found.get("thin_part").is_some()).count();
    assert!(thin > 0 && thin < read.len());
}

#[test]
fn files_are_baseline_jpeg() {
    let temp = tempfile::tempdir().unwrap();
    let set = generate(&temp.path().join("set"), &small(), 1, Key::new(0)).unwrap();
    let bytes = fs::read(set.images.join("000001.jpg")).unwrap();
    assert!(bytes.starts_with(&[0xFF, 0xD8]) && bytes.ends_with(&[0xFF, 0xD9]));
    // SOF0 with the length of three components, 8 bits, 64 rows, 96 columns.
    assert!(bytes.windows(9).any(|w| w == [0xFF, 0xC0, 0, 17, 8, 0, 64, 0, 96]));
}

#[test]
fn a_failure_is_typed_and_leaves_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let zero = generate(&temp.path().join("set"), &small(), 0, Key::new(1)).unwrap_err();
    assert!(matches!(zero, Error::Argument { name: "count", .. }), "{zero}");
    let invalid = SceneConfig { blur: -1.0, ..small() };
    let error = generate(&temp.path().join("set"), &invalid, 2, Key::new(1)).unwrap_err();
    assert!(matches!(error, Error::Argument { name: "blur", .. }), "{error}");
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
}
