//! One fixture for each kind of defect, each found; sound datasets, without any.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::picture;
use ebm_data::Error;
use ebm_data::check::{Checked, coco};
use ebm_data::encode::write_jpeg;
use ebm_data::quarantine::DefectCode;
use ebm_testing::fixture;
use serde_json::{Value, json};

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
        let object = |id: u64| json!({"id": id, "image_id": 1, "category_id": 7, "bbox": [5, 6, 10, 20]});
        let categories = json!([{"id": 7, "name": "thing"}, {"id": 9, "name": "other"}]);
        let images = json!([image(1, "a.jpg"), image(2, "b.jpg")]);
        Self {
            dir,
            file: json!({"images": images, "annotations": [object(1), object(2)], "categories": categories}),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn check_text(&self, text: &str) -> ebm_data::Result<Checked> {
        let annotations = self.path("annotations.json");
        fs::write(&annotations, text).unwrap();
        coco(&annotations, self.dir.path(), true)
    }

    fn codes(&self) -> Vec<DefectCode> {
        codes(&self.check_text(&self.file.to_string()).unwrap())
    }
}

fn codes(checked: &Checked) -> Vec<DefectCode> {
    checked.quarantine.defects.iter().map(|defect| defect.code).collect()
}

#[test]
fn a_sound_dataset_has_no_defect() {
    let fixture = Fixture::new();
    let checked = fixture.check_text(&fixture.file.to_string()).unwrap();
    assert_eq!((checked.samples, codes(&checked)), (4, Vec::new()), "{:?}", checked.quarantine.defects);
    checked.verdict(Path::new("a")).unwrap();
}

/// The codes when a field of the first record of an array is another.
fn with(array: &str, key: &str, value: Value) -> Vec<DefectCode> {
    let mut fixture = Fixture::new();
    fixture.file[array][0][key] = value;
    fixture.codes()
}

#[test]
fn every_kind_is_found() {
    use DefectCode::*;
    let fixture = Fixture::new();
    fs::remove_file(fixture.path("a.jpg")).unwrap();
    assert_eq!(fixture.codes(), [MissingFile]);
    let fixture = Fixture::new();
    let (path, whole) = (fixture.path("a.jpg"), fs::read(fixture.path("a.jpg")).unwrap());
    for bytes in [&b"<html>not found</html>"[..], &whole[..whole.len() / 2], &whole[..40], &[]] {
        fs::write(&path, bytes).unwrap();
        assert_eq!(fixture.codes(), [UnreadableImage], "{} bytes", bytes.len());
    }
    let annotations = fixture.path("annotations.json");
    assert_eq!(codes(&coco(&annotations, fixture.dir.path(), false).unwrap()), Vec::new());
    assert_eq!(with("images", "width", json!(61)), [SizeMismatch]);
    for bbox in [[1, 2, 0, 4], [1, 2, 3, -4], [60, 2, 3, 4], [-9, 2, 9, 4], [0, 0, 601, 4]] {
        assert_eq!(with("annotations", "bbox", json!(bbox)), [BadBox], "{bbox:?}");
    }
    assert_eq!(with("annotations", "bbox", json!([55, 2, 9, 4])), Vec::new(), "a part may be outside");
    assert_eq!(with("images", "file_name", json!("b.jpg")), [DuplicateId]);
    assert_eq!(with("annotations", "id", json!(2)), [DuplicateId]);
    assert_eq!(with("annotations", "image_id", json!(99)), [UnknownImage]);
    assert_eq!(with("annotations", "category_id", json!(99)), [UnknownCategory]);
    assert_eq!(with("annotations", "bbox", json!([1, null, 3, 4])), [BadAnnotation]);
    assert_eq!(with("images", "height", json!("40")), [BadAnnotation]);
    // As Python writes them.
    for word in ["NaN", "Infinity", "-Infinity"] {
        let fixture = Fixture::new();
        let text = fixture.file.to_string().replacen("[5,6,10,20]", &format!("[5,{word},10,20]"), 1);
        assert!(text.contains(word));
        assert_eq!(codes(&fixture.check_text(&text).unwrap()), [BadAnnotation], "{word}");
    }
}

#[test]
fn defects_are_an_error_with_their_number() {
    let mut fixture = Fixture::new();
    fixture.file["annotations"][0]["area"] = json!(-1);
    let checked = fixture.check_text(&fixture.file.to_string()).unwrap();
    let error = checked.verdict(Path::new("a.json")).unwrap_err();
    assert!(
        matches!(error, Error::Data(..)) && error.to_string().contains("1 defects in 4 samples"),
        "{error}"
    );
    let [defect] = &checked.quarantine.defects[..] else { unreachable!() };
    assert_eq!((defect.sample.as_str(), defect.detail.as_str()), ("annotation 1", "area is -1"));
    assert_eq!(defect.code.to_string(), "bad_annotation");
    for text in ["", "[]", "{}", "{\"images\": 3}"] {
        assert!(matches!(fixture.check_text(text), Err(Error::Data(..))), "{text}");
    }
}

#[test]
fn published_annotations_have_no_defect() {
    let dir = fixture("coco");
    let annotations = dir.join("annotations/instances_val2017.json");
    let checked = coco(&annotations, &dir.join("val2017"), true).unwrap();
    // Four images and 24 annotations.
    assert_eq!((checked.samples, &checked.quarantine.defects[..]), (28, &[][..]));
}
