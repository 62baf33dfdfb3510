//! Damaged files among sound ones: the quarantine holds these and no others, and training goes on or stops as
//! the tolerated fraction says.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::common::{picture, write_json};
use ebm_base::Key;
use ebm_data::Error;
use ebm_data::check::coco as check_coco;
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::loader::{Loader, LoaderConfig};
use ebm_data::quarantine::{DefectCode, Tolerance};
use ebm_data::transform::{ResizeRule, Transform};
use serde_json::json;

const COUNT: usize = 400;
const SMALL: Transform =
    Transform { resize: ResizeRule { short_side: 32, max_side: 60 }, ..Transform::MASKRCNN_BENCHMARK };

/// A generated dataset of which one file in 100 is cut at a place of its own and one in 100 is garbage. The
/// dataset and the ids of each kind.
fn injected(dir: &Path) -> (Arc<CocoDataset>, BTreeSet<String>, BTreeSet<String>) {
    let (mut images, mut annotations) = (Vec::new(), Vec::new());
    for id in 0..COUNT {
        let name = format!("{id:03}.jpg");
        ebm_data::encode::write_jpeg(&dir.join(&name), &picture(40, 30 + id % 5), 90).unwrap();
        images.push(json!({"id": id, "file_name": name, "width": 40, "height": 30 + id % 5}));
        annotations
            .push(json!({"id": id, "image_id": id, "category_id": 7, "bbox": [2, 3, 11, 13], "area": 143}));
    }
    let categories = json!([{"id": 7, "name": "thing"}]);
    let file = json!({"images": images, "annotations": annotations, "categories": categories});
    let json = write_json(&dir.join("annotations.json"), &file);
    let dataset = CocoDataset::load(&json, dir, &LoadOptions::new(Purpose::Train)).unwrap();
    let (mut cut, mut garbage) = (BTreeSet::new(), BTreeSet::new());
    for hundred in 0..COUNT / 100 {
        // Spread: at the begin and the end of the set, and of the files.
        let (first, second) = (100 * hundred + 7 * hundred, 100 * hundred + 99 - 11 * hundred);
        let path = dir.join(format!("{first:03}.jpg"));
        let bytes = fs::read(&path).unwrap();
        let kept = [3, bytes.len() / 3, bytes.len() - 2, bytes.len() / 2][hundred % 4];
        fs::write(&path, &bytes[..kept]).unwrap();
        cut.insert(format!("image {first}"));
        let noise: Vec<u8> = (0..997u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        fs::write(dir.join(format!("{second:03}.jpg")), noise).unwrap();
        garbage.insert(format!("image {second}"));
    }
    (Arc::new(dataset), cut, garbage)
}

fn config(workers: usize, max_bad_fraction: f64, report: &Path) -> LoaderConfig {
    let report = Some(report.to_owned());
    LoaderConfig {
        workers,
        tolerance: Tolerance { max_bad_fraction, report },
        ..LoaderConfig::train(SMALL, 4)
    }
}

#[test]
fn the_quarantine_holds_the_damaged_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let (dataset, cut, garbage) = injected(dir.path());
    assert_eq!((cut.len(), garbage.len()), (COUNT / 100, COUNT / 100));
    let damaged: BTreeSet<String> = cut.union(&garbage).cloned().collect();
    let report = dir.path().join("quarantine.jsonl");
    let loader = Loader::new(Arc::clone(&dataset), config(2, 0.02, &report), Key::new(3)).unwrap();
    // Two epochs: what is defective is listed once.
    let mut images = 0;
    for batch in loader.epoch(0).unwrap().chain(loader.epoch(1).unwrap()) {
        images += batch.unwrap().samples.len();
    }
    let found: Vec<String> = loader.quarantine().defects.iter().map(|defect| defect.sample.clone()).collect();
    assert_eq!(found.len(), damaged.len());
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), damaged);
    assert!(images <= 2 * (COUNT - damaged.len()) && images > COUNT, "{images}");
    assert_eq!(fs::read_to_string(&report).unwrap().lines().count(), damaged.len());
}

#[test]
fn above_the_fraction_training_stops_within_the_epoch() {
    let dir = tempfile::tempdir().unwrap();
    let (dataset, ..) = injected(dir.path());
    let report = dir.path().join("quarantine.jsonl");
    let loader = Loader::new(dataset, config(2, 0.0175, &report), Key::new(3)).unwrap();
    let outcome: Result<Vec<_>, Error> = loader.epoch(0).unwrap().map(|batch| batch.map(drop)).collect();
    let error = outcome.unwrap_err();
    let Error::TooManyDefects { bad: 8, total, .. } = error else { panic!("{error}") };
    assert_eq!(total, COUNT);
    let said = error.to_string();
    assert!(
        said.contains("8 of 400") && said.matches(".jpg").count() >= 3 && said.contains("quarantine.jsonl"),
        "{said}"
    );
}

#[test]
fn the_check_finds_exactly_the_damaged_ones() {
    let dir = tempfile::tempdir().unwrap();
    let (_, cut, garbage) = injected(dir.path());
    let checked = check_coco(&dir.path().join("annotations.json"), dir.path(), true).unwrap();
    let found: BTreeSet<String> =
        checked.quarantine.defects.iter().map(|defect| defect.sample.clone()).collect();
    assert_eq!(found, &cut | &garbage);
    assert_eq!(checked.quarantine.counts()[&DefectCode::UnreadableImage], found.len());
}
