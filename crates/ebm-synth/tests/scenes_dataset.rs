//! Scenes on disk: the set is whole, reproducible and in COCO format, or absent.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::Path;

use ebm_data::Error;
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::decode::read_image;
use ebm_seed::Key;
use ebm_synth::scenes::{SceneConfig, generate, read_attributes, render_scene};

fn small() -> SceneConfig {
    SceneConfig { width: 96, height: 64, size: 12.0..=30.0, ..SceneConfig::default() }
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
fn the_set_is_what_coco_readers_expect() {
    let temp = tempfile::tempdir().unwrap();
    let set = generate(&temp.path().join("set"), &small(), 12, Key::new(5)).unwrap();
    assert!(!set.reused);
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
fn attributes_are_read_as_they_were_made() {
    let temp = tempfile::tempdir().unwrap();
    let set = generate(&temp.path().join("set"), &small(), 6, Key::new(5)).unwrap();
    let read = read_attributes(&set.annotations).unwrap();
    let made = (0..6).flat_map(|index| render_scene(&small(), Key::new(5).index(index)).unwrap().1);
    let mut thin = 0;
    let made: Vec<_> = made.collect();
    assert_eq!(read.len(), made.len());
    for (index, ((id, found), object)) in read.iter().zip(&made).enumerate() {
        assert_eq!((*id, found.thin_part), (index as u64 + 1, object.thin_part));
        assert_eq!((found.occlusion, found.truncation), (object.occlusion, object.truncation));
        assert_eq!((found.blur, found.fading_side), (object.blur, object.fading_side));
        thin += usize::from(found.thin_part.is_some());
    }
    assert!(thin > 0 && thin < made.len());

    let without = fs::read_to_string(&set.annotations).unwrap().replace("\"blur\"", "\"blue\"");
    fs::write(&set.annotations, without).unwrap();
    let error = read_attributes(&set.annotations).unwrap_err();
    assert!(matches!(error, Error::Format { .. }), "{error}");
    assert!(
        error.to_string().contains("annotations.json") && error.to_string().contains("`blur`"),
        "{error}"
    );
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
fn bytes_depend_neither_on_count_nor_on_threads() {
    let temp = tempfile::tempdir().unwrap();
    let make = |name: &str, count: usize, threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| generate(&temp.path().join(name), &small(), count, Key::new(9))).unwrap()
    };
    let (one, four, fewer) = (make("one", 9, 1), make("four", 9, 4), make("fewer", 4, 2));
    assert_eq!(fs::read(&one.annotations).unwrap(), fs::read(&four.annotations).unwrap());
    assert_eq!(files(&one.images), files(&four.images));
    assert_eq!(files(&one.images)[..4], files(&fewer.images));
}

#[test]
fn a_whole_set_is_reused_and_anything_else_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("deep/set");
    let first = generate(&dir, &small(), 3, Key::new(1)).unwrap();
    let written = fs::metadata(&first.annotations).unwrap().modified().unwrap();
    let again = generate(&dir, &small(), 3, Key::new(1)).unwrap();
    assert!(again.reused && again.images == first.images);
    assert_eq!(fs::metadata(&first.annotations).unwrap().modified().unwrap(), written);

    let refused = |config: &SceneConfig, count, seed| match generate(&dir, config, count, Key::new(seed)) {
        Err(Error::Argument { name: "dir", detail }) => detail,
        other => panic!("{other:?}"),
    };
    assert!(refused(&small(), 4, 1).contains("another"));
    assert!(refused(&small(), 3, 2).contains("another"));
    assert!(refused(&SceneConfig { noise: 1.0, ..small() }, 3, 1).contains("another"));
    let image = first.images.join("000002.jpg");
    let bytes = fs::read(&image).unwrap();
    fs::write(&image, &bytes[..bytes.len() / 2]).unwrap();
    assert!(refused(&small(), 3, 1).contains("cut short"));
    fs::remove_file(&image).unwrap();
    assert!(refused(&small(), 3, 1).contains("missing"));
    fs::remove_file(dir.join("scenes.json")).unwrap();
    assert!(refused(&small(), 3, 1).contains("no generated scenes"));
    // Refusals leave nothing beside the directory.
    assert_eq!(fs::read_dir(temp.path().join("deep")).unwrap().count(), 1);
}

#[test]
fn an_empty_directory_is_filled_and_a_killed_run_is_no_obstacle() {
    let temp = tempfile::tempdir().unwrap();
    fs::create_dir(temp.path().join("set")).unwrap();
    fs::create_dir_all(temp.path().join(".set.partial/images")).unwrap();
    fs::write(temp.path().join(".set.lock"), "4194305").unwrap();
    let set = generate(&temp.path().join("set"), &small(), 2, Key::new(1)).unwrap();
    assert_eq!(files(&set.images).len(), 2);
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
}

/// What another process, in this container or another, is making stays, and is waited for.
#[test]
fn of_several_who_make_the_same_set_one_does() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("set");
    let made = || generate(&dir, &small(), 3, Key::new(1)).unwrap();
    let reused = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(made)).collect();
        threads.into_iter().map(|thread| usize::from(thread.join().unwrap().reused)).sum::<usize>()
    });
    assert_eq!((reused, files(&made().images).len()), (3, 3));
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
}

#[test]
fn a_failure_is_typed_and_leaves_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("file");
    fs::write(&file, b"in the way").unwrap();
    for dir in [file.join("set"), file.clone()] {
        let error = generate(&dir, &small(), 2, Key::new(1)).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
    }
    let zero = generate(&temp.path().join("set"), &small(), 0, Key::new(1)).unwrap_err();
    assert!(matches!(zero, Error::Argument { name: "count", .. }), "{zero}");
    let invalid = SceneConfig { blur: -1.0, ..small() };
    let error = generate(&temp.path().join("set"), &invalid, 2, Key::new(1)).unwrap_err();
    assert!(matches!(error, Error::Argument { name: "blur", .. }), "{error}");
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
}
