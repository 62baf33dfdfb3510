//! Boxes and frames of OTB.

use std::path::Path;

use ebm_data::sequences::otb::{Annotation, annotations};
use ebm_data::sequences::{Dataset, Rect, SequenceOptions};
use ebm_data::{Error, Result};
use ebm_testing::files;

fn write(dir: &Path, file: &str, boxes: usize) {
    let lines: String = (1..=boxes).map(|i| format!("{i},2,30,40\n")).collect();
    files::write(dir, file, &lines);
}

fn of<'a>(all: &'a [Annotation], name: &str) -> &'a Result<Vec<Rect>> {
    &all.iter().find(|(sequence, _)| sequence.name == name).unwrap().1
}

#[test]
fn both_layouts_are_read_and_what_does_not_count_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "Jogging/groundtruth_rect.2.txt", 307);
    write(dir.path(), "skating2-1/groundtruth_rect.txt", 473);
    write(dir.path(), "Tiger1/groundtruth_rect.txt", 354);
    write(dir.path(), "deer/groundtruth_rect.txt", 70);
    let all = annotations(dir.path()).unwrap();
    assert_eq!(of(&all, "Jogging.2").as_ref().unwrap().len(), 307);
    assert_eq!(of(&all, "Skating2.1").as_ref().unwrap().len(), 473);
    let tiger = of(&all, "Tiger1").as_ref().unwrap();
    assert_eq!((tiger.len(), tiger[0]), (349, [6., 2., 30., 40.]));
    let short = of(&all, "Deer").as_ref().unwrap_err().to_string();
    assert!(short.contains("70 boxes for the 71 frames of Deer"), "{short}");
    assert!(matches!(of(&all, "Jogging.1"), Err(Error::Io { .. })));
}

#[test]
fn a_folder_of_something_else_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert!(annotations(dir.path()).unwrap_err().to_string().contains("Basketball"));
    assert!(matches!(annotations(&dir.path().join("absent")), Err(Error::Io { .. })));
}

#[test]
fn every_folder_with_boxes_is_a_sequence_however_alike_their_names() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["car-1", "car_1", "notes"] {
        let images = dir.path().join(name).join("img");
        std::fs::create_dir_all(&images).unwrap();
        for frame in ["0003.jpg", "0004.png"] {
            std::fs::write(images.join(frame), "").unwrap();
        }
    }
    for name in ["car-1", "car_1"] {
        std::fs::write(dir.path().join(name).join("groundtruth_rect.txt"), "1,2,30,40\n2,2,30,40\n").unwrap();
    }
    let found = Dataset::Own.load(dir.path(), &SequenceOptions::train()).unwrap();
    let names: Vec<_> = found.sequences.iter().map(|s| (s.name.as_str(), s.frames.len())).collect();
    assert_eq!(names, [("car-1", 2), ("car_1", 2)]);
}
