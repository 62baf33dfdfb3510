//! One fixture for each class of defect, each found; sound datasets, without any.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{golden, picture, write_json};
use ebm_data::Error;
use ebm_data::check::{Benchmark, CheckOptions, Checked, biwi, coco, sequences, utkface};
use ebm_data::encode::{write_jpeg, write_png};
use ebm_data::quarantine::DefectCode;
use ebm_testing::fixture;
use serde_json::{Value, json};

const OPTIONS: CheckOptions = CheckOptions { decode: true };

const NONE: [DefectCode; 0] = [];

/// A sound dataset of two images with two objects in a folder of its own.
struct Fixture {
    dir: tempfile::TempDir,
    file: Value,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a.jpg", "b.jpg"] {
            write_jpeg(&dir.path().join(name), &picture(60, 40), 90).unwrap();
        }
        let image = |id: u64, name: &str| json!({"id": id, "file_name": name, "width": 60, "height": 40});
        let object = |id: u64| {
            json!({"id": id, "image_id": 1, "category_id": 7, "bbox": [5, 6, 10, 20], "area": 150, "iscrowd": 0,
                "segmentation": [[5, 6, 15, 6, 15, 26, 10, 16]]})
        };
        let mut plain = object(2);
        plain["segmentation"] = json!([]);
        plain["area"] = json!(200.5);
        let categories = json!([{"id": 7, "name": "thing"}, {"id": 9, "name": "other"}]);
        let images = json!([image(1, "a.jpg"), image(2, "b.jpg")]);
        // The polygon's area by hand: the triangle (5,6) (15,6) (15,26) less the one with (10,16), which is
        // on its side.
        let mut first = object(1);
        first["area"] = json!(100);
        Self { dir, file: json!({"images": images, "annotations": [first, plain], "categories": categories}) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn check_text(&self, text: &str) -> ebm_data::Result<Checked> {
        let annotations = self.path("annotations.json");
        fs::write(&annotations, text).unwrap();
        coco(&annotations, self.dir.path(), &OPTIONS)
    }

    fn codes(&self) -> Vec<DefectCode> {
        codes(&self.check_text(&self.file.to_string()).unwrap())
    }
}

fn codes(checked: &Checked) -> Vec<DefectCode> {
    checked.quarantine.defects.iter().map(|defect| defect.code).collect()
}

/// The codes after a change of the annotation file or of the images.
fn after(change: impl FnOnce(&mut Fixture)) -> Vec<DefectCode> {
    let mut fixture = Fixture::new();
    change(&mut fixture);
    fixture.codes()
}

/// The codes when a field of the first annotation is another.
fn object(key: &str, value: Value) -> Vec<DefectCode> {
    after(|fixture| fixture.file["annotations"][0][key] = value)
}

/// The codes when a field of the first image is another.
fn image(key: &str, value: Value) -> Vec<DefectCode> {
    after(|fixture| fixture.file["images"][0][key] = value)
}

/// The codes when the first image's file holds these bytes.
fn content(bytes: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Vec<DefectCode> {
    after(|fixture| {
        let path = fixture.path("a.jpg");
        fs::write(&path, bytes(fs::read(&path).unwrap())).unwrap();
    })
}

#[test]
fn a_sound_dataset_has_no_defect() {
    let fixture = Fixture::new();
    let checked = fixture.check_text(&fixture.file.to_string()).unwrap();
    assert_eq!((checked.samples, codes(&checked)), (4, Vec::new()), "{:?}", checked.quarantine.defects);
    checked.verdict(Path::new("a")).unwrap();
}

#[test]
fn classes_of_images() {
    use DefectCode::*;
    assert_eq!(after(|fixture| fs::remove_file(fixture.path("a.jpg")).unwrap()), [MissingFile]);
    assert_eq!(content(|_| b"<html>not found</html>".to_vec()), [UnreadableImage]);
    assert_eq!(content(|bytes| bytes[..bytes.len() / 2].to_vec()), [TruncatedImage]);
    assert_eq!(content(|bytes| bytes[..40].to_vec()), [TruncatedImage]);
    assert_eq!(content(|_| Vec::new()), [EmptyFile]);
    assert_eq!(image("width", json!(61)), [SizeMismatch]);
    for name in ["grey.jpg", "cmyk.jpg", "grey.png", "grey16.png", "rgba.png", "grey_alpha.png"] {
        let found = after(|fixture| {
            fs::copy(golden("images").join(name), fixture.path("a.jpg")).unwrap();
            fixture.file["images"][0]["width"] = json!(41);
            fixture.file["images"][0]["height"] = json!(29);
        });
        assert_eq!(found, [NotRgb8], "{name}");
    }
    for name in ["rgb.png", "palette.png", "progressive.jpg", "rgb_420.jpg", "exif_rotated.jpg"] {
        let found = after(|fixture| {
            fs::copy(golden("images").join(name), fixture.path("a.jpg")).unwrap();
            fixture.file["images"][0]["width"] = json!(41);
            fixture.file["images"][0]["height"] = json!(29);
        });
        assert_eq!(found, NONE, "{name}");
    }
    assert_eq!(image("height", json!(0)), [BadImageSize]);
    assert_eq!(image("height", json!("40")), [StringNumber]);
    assert_eq!(image("file_name", json!("../a.jpg")), [BadFileName]);
}

#[test]
fn classes_of_ids() {
    use DefectCode::*;
    assert_eq!(image("id", json!(2)), [DuplicateImageId, OrphanImage, OrphanImage]);
    assert_eq!(image("file_name", json!("b.jpg")), [DuplicateFileName]);
    assert_eq!(object("id", json!(2)), [DuplicateAnnotationId]);
    assert_eq!(object("image_id", json!(99)), [OrphanImage]);
    assert_eq!(object("category_id", json!(99)), [OrphanCategory]);
    assert_eq!(object("id", json!(1.5)), [BadId]);
    assert_eq!(object("image_id", json!(-1)), [BadId]);
    assert_eq!(object("category_id", json!(null)), [BadId]);
    assert_eq!(object("id", json!("1")), [StringNumber]);
    let category = |key: &str, value: Value| after(|fixture| fixture.file["categories"][1][key] = value);
    assert_eq!(category("id", json!(7)), [BadCategory]);
    assert_eq!(category("name", json!("thing")), [BadCategory]);
    assert_eq!(category("id", json!("9")), [StringNumber]);
}

#[test]
fn classes_of_boxes() {
    use DefectCode::*;
    let bbox = |bbox: Value| {
        after(|fixture| {
            fixture.file["annotations"][1]["bbox"] = bbox;
            fixture.file["annotations"][1]["area"] = json!(null);
        })
    };
    assert_eq!(bbox(json!([1, null, 3, 4])), [BoxNotFinite]);
    assert_eq!(bbox(json!([1, "NaN", 3, 4])), [BoxNotFinite]);
    assert_eq!(bbox(json!([1, 2, 0, 4])), [BoxEmpty]);
    assert_eq!(bbox(json!([1, 2, 3, -4])), [BoxEmpty]);
    assert_eq!(bbox(json!([60, 2, 3, 4])), [BoxOutside]);
    assert_eq!(bbox(json!([-9, 2, 9, 4])), [BoxOutside]);
    assert_eq!(bbox(json!([55, 2, 9, 4])), [BoxClipped]);
    assert_eq!(bbox(json!([-0.5, 2, 9, 4])), NONE);
    assert_eq!(bbox(json!([0, 0, 601, 4])), [BoxTooLarge]);
    assert_eq!(bbox(json!([2e6, 0, 6, 4])), [BoxTooLarge]);
    assert_eq!(bbox(json!([1, 2, 3])), [BoxArity]);
    assert_eq!(bbox(json!({"x": 1})), [BoxArity]);
    assert_eq!(bbox(json!([1, 2, "3", 4])), [StringNumber]);
    // As Python writes them.
    for word in ["NaN", "Infinity", "-Infinity"] {
        let fixture = Fixture::new();
        let text = fixture.file.to_string().replacen("[5,6,10,20]", &format!("[5,{word},10,20]"), 1);
        assert!(text.contains(word));
        assert_eq!(codes(&fixture.check_text(&text).unwrap()), [BoxNotFinite], "{word}");
    }
}

#[test]
fn classes_of_areas_and_flags() {
    use DefectCode::*;
    assert_eq!(object("area", json!(0)), [BadArea]);
    assert_eq!(object("area", json!(-3)), [BadArea]);
    assert_eq!(object("area", json!([1])), [BadArea]);
    assert_eq!(object("area", json!("100")), [StringNumber]);
    assert_eq!(object("area", json!(102)), [AreaMismatch]);
    // As good: the area of the box, and within one per cent.
    assert_eq!(object("area", json!(200)), NONE);
    assert_eq!(object("area", json!(100.9)), NONE);
    let fixture = Fixture::new();
    for word in ["NaN", "Infinity"] {
        let text = fixture.file.to_string().replacen("\"area\":", &format!("\"area\":{word},\"was\":"), 1);
        assert_eq!(codes(&fixture.check_text(&text).unwrap()), [BadArea], "{word}");
    }
    assert_eq!(object("iscrowd", json!(2)), [BadCrowdFlag]);
    assert_eq!(object("iscrowd", json!("0")), [StringNumber]);
}

#[test]
fn one_record_may_have_many_defects() {
    use DefectCode::*;
    let found = after(|fixture| {
        fixture.file["annotations"][0] =
            json!({"id": "1", "image_id": 99, "category_id": 5, "bbox": [1], "area": -1, "iscrowd": 3});
    });
    assert_eq!(found, [StringNumber, OrphanImage, OrphanCategory, BadCrowdFlag, BoxArity, BadArea]);
}

#[test]
fn defects_are_an_error_with_their_number() {
    let mut fixture = Fixture::new();
    fixture.file["annotations"][0]["area"] = json!(-1);
    let checked = fixture.check_text(&fixture.file.to_string()).unwrap();
    let error = checked.verdict(Path::new("a.json")).unwrap_err();
    assert!(matches!(error, Error::Defective { defects: 1, samples: 4, .. }), "{error}");
    let [defect] = &checked.quarantine.defects[..] else { unreachable!() };
    assert_eq!((defect.sample.as_str(), defect.detail.as_str()), ("annotation 1", "area is -1"));
    assert_eq!(defect.code.to_string(), "bad_area");
    for text in ["", "[]", "{}", "{\"images\": 3}"] {
        assert!(matches!(fixture.check_text(text), Err(Error::Json { .. })), "{text}");
    }
}

#[test]
fn published_annotations_have_no_defect() {
    let dir = fixture("coco");
    let annotations = dir.join("annotations/instances_val2017.json");
    let checked = coco(&annotations, &dir.join("val2017"), &OPTIONS).unwrap();
    // Four images and 24 annotations.
    assert_eq!((checked.samples, &checked.quarantine.defects[..]), (28, &[][..]));
}

#[test]
fn classes_of_faces() {
    use DefectCode::*;
    let dir = tempfile::tempdir().unwrap();
    let save = |name: &str| write_jpeg(&dir.path().join(name), &picture(20, 20), 90).unwrap();
    save("34_0_1_20170117.jpg");
    assert_eq!(codes(&utkface(dir.path(), &OPTIONS).unwrap()), NONE);
    save("121_0_1_20170117.jpg");
    save("x_0_1_20170117.jpg");
    fs::write(dir.path().join("35_0_1_20170117.jpg"), b"").unwrap();
    let checked = utkface(dir.path(), &OPTIONS).unwrap();
    assert_eq!((checked.samples, codes(&checked)), (4, vec![BadAge, BadAge, EmptyFile]));
}

#[test]
fn classes_of_poses() {
    use DefectCode::*;
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("01");
    fs::create_dir(&folder).unwrap();
    let camera = "500 0 320\n0 500 240\n0 0 1\n\n0 0 0 0\n\n1 0 0\n0 1 0\n0 0 1\n\n0 0 0\n\n640 480\n";
    fs::write(folder.join("rgb.cal"), camera).unwrap();
    let frame = |number: usize, pose: &str| {
        write_png(&folder.join(format!("frame_{number:05}_rgb.png")), &picture(64, 48)).unwrap();
        fs::write(folder.join(format!("frame_{number:05}_pose.txt")), pose).unwrap();
    };
    frame(1, "1 0 0\n0 1 0\n0 0 1\n\n0 0 1000\n");
    assert_eq!(codes(&biwi(dir.path(), &OPTIONS).unwrap()), NONE);
    frame(2, "1 0 0\n0 2 0\n0 0 1\n\n0 0 1000\n");
    frame(3, "1 0 0\n0 nan 0\n0 0 1\n\n0 0 1000\n");
    frame(4, "1 0 0\n0 1 0\n0 0 1\n\n0 0 1000\n");
    fs::remove_file(folder.join("frame_00004_rgb.png")).unwrap();
    assert_eq!(codes(&biwi(dir.path(), &OPTIONS).unwrap()), [NotRotation, BadPose, MissingFile]);
}

#[test]
fn classes_of_sequences() {
    use DefectCode::*;
    let dir = tempfile::tempdir().unwrap();
    let make = |name: &str, frames: usize, boxes: usize| {
        let folder = dir.path().join("sequences").join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all(dir.path().join("anno")).unwrap();
        for i in 1..=frames {
            write_jpeg(&folder.join(format!("{i:05}.jpg")), &picture(20, 20), 90).unwrap();
        }
        fs::write(dir.path().join(format!("anno/nfs_{name}.txt")), "1,2,3,4\n".repeat(boxes)).unwrap();
        folder
    };
    let check = || codes(&sequences(dir.path(), &Benchmark::Nfs, &OPTIONS).unwrap());
    // All defective is no error.
    make("short", 2, 3);
    assert_eq!(check(), [FrameCount]);
    make("short", 3, 3);
    assert_eq!(check(), NONE);
    let folder = make("sound", 3, 3);
    fs::write(folder.join("00002.jpg"), b"garbage").unwrap();
    assert_eq!(check(), [UnreadableImage]);
    fs::write(dir.path().join("anno/nfs_sound.txt"), "1,2,3\n").unwrap();
    assert_eq!(check(), [BadAnnotation]);
    write_json(&dir.path().join("unrelated.json"), &json!({}));
    assert_eq!(check(), [BadAnnotation]);
}
