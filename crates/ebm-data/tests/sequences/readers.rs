//! Each layout, written and read; each defect, listed without harm to the others.

use std::path::Path;

use ebm_data::Error;
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::quarantine::DefectCode::{self, BadAnnotation, MissingFile};
use ebm_data::sequences::{Dataset, Frames, LASOT_TEST, Rect, SequenceOptions, Sequences, UAV123, coco};
use ebm_testing::files::write;
use ebm_testing::fixture;

use crate::common::write_dataset;

/// Empty files: readers do not look into them.
fn write_frames(root: &Path, folder: &str, digits: usize, numbers: std::ops::Range<usize>) {
    for n in numbers {
        write(root, &format!("{folder}/{n:0digits$}.jpg"), "");
    }
}

fn lines(count: usize) -> String {
    (0..count).map(|i| format!("{i},2,3,4\n")).collect()
}

fn names(sequences: &Sequences) -> Vec<&str> {
    sequences.sequences.iter().map(|sequence| &*sequence.name).collect()
}

fn defects(sequences: &Sequences) -> Vec<(&str, DefectCode)> {
    let defects = &sequences.quarantine.defects;
    defects.iter().map(|d| (d.sample.strip_prefix("sequence ").unwrap(), d.code)).collect()
}

fn first_and_last(sequences: &Sequences, place: usize) -> [String; 2] {
    let frames = &sequences.sequences[place].frames;
    [0, frames.len() - 1].map(|i| {
        let path = frames.path(i).unwrap();
        let parts: Vec<_> = path.iter().map(|part| part.to_str().unwrap()).collect();
        parts[parts.len() - 2..].join("/")
    })
}

#[test]
fn ones_own() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write_frames(root, "Gymnastics/img", 5, 1..4);
    write(root, "Gymnastics/groundtruth_rect.txt", "1\t2\t3\t4\n5\t6\t7\t8\n1\t2\t3\t4\n");
    write_frames(root, "short/img", 5, 1..3);
    write(root, "short/groundtruth_rect.txt", &lines(3));
    write_frames(root, "unlabelled/img", 5, 1..3);
    write(root, "gone/groundtruth_rect.txt", &lines(3));
    write_frames(root, "torn/img", 5, 1..3);
    write(root, "torn/groundtruth_rect.txt", "1\t2\t3\t4\n5\t6\n");
    let read = Dataset::Own.load(root, &SequenceOptions::benchmark()).unwrap();
    assert_eq!(names(&read), ["Gymnastics"]);
    assert_eq!(read.sequences[0].boxes[1], [5., 6., 7., 8.]);
    assert_eq!(first_and_last(&read, 0), ["img/00001.jpg", "img/00003.jpg"]);
    let expected = ["gone", "short", "torn"].map(|name| (name, BadAnnotation));
    assert_eq!(defects(&read), expected);
    assert!(read.quarantine.defects[2].detail.contains("line 2: 2 numbers"));
    let mut options = SequenceOptions::train();
    options.tolerance.max_bad_fraction = 0.75;
    options.tolerance.report = Some(root.join("report.jsonl"));
    assert_eq!(names(&Dataset::Own.load(root, &options).unwrap()), ["Gymnastics"]);
    assert_eq!(std::fs::read_to_string(root.join("report.jsonl")).unwrap().lines().count(), 3);
    options.tolerance.max_bad_fraction = 0.7;
    let error = Dataset::Own.load(root, &options).unwrap_err();
    assert!(matches!(error, Error::TooManyDefects { bad: 3, total: 4, .. }), "{error}");
}

#[test]
fn whoever_looks_at_the_ends_alone_does_not_see_a_gap() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    for frame in [1, 3] {
        write_frames(root, "data_seq/UAV123/gap", 6, frame..frame + 1);
    }
    write(root, "anno/UAV123/gap.txt", &lines(3));
    assert_eq!(names(&Dataset::Uav123.load(root, &SequenceOptions::train()).unwrap()), ["gap"]);
    let error = Dataset::Uav123.load(root, &SequenceOptions::benchmark()).unwrap_err();
    assert!(matches!(error, Error::TooManyDefects { bad: 1, total: 1, .. }), "{error}");
}

#[test]
fn uav123() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let folder = "data_seq/UAV123";
    write_frames(root, &format!("{folder}/bike1"), 6, 1..4);
    write(root, "anno/UAV123/bike1.txt", "1,2,3,4\nNaN,NaN,NaN,NaN\n5,6,7,8\n");
    write_frames(root, &format!("{folder}/person8"), 6, 1..1526);
    write(root, "anno/UAV123/person8_1.txt", &lines(1075));
    write(root, "anno/UAV123/person8_2.txt", &lines(450));
    write_frames(root, &format!("{folder}/truck4"), 6, 1..1262);
    write(root, "anno/UAV123/truck4_2.txt", &lines(685));
    write(root, "anno/UAV123/boat1_7.txt", &lines(2));
    let read = Dataset::Uav123.load(root, &SequenceOptions::benchmark()).unwrap();
    assert_eq!(names(&read), ["bike1", "person8_1", "truck4_2"]);
    assert_eq!([0, 1, 2].map(|i| read.sequences[0].is_valid(i)), [true, false, true]);
    assert_eq!(first_and_last(&read, 1), ["person8/000001.jpg", "person8/001075.jpg"]);
    assert_eq!(first_and_last(&read, 2), ["truck4/000577.jpg", "truck4/001261.jpg"]);
    // A range that nobody has published is not guessed.
    let expected = [("boat1_7", MissingFile), ("person8_2", BadAnnotation), ("truck4_1", BadAnnotation)];
    assert_eq!(defects(&read), expected);
    assert!(read.quarantine.defects[1].detail.contains("450 boxes for the 451 frames of person8_2"));
}

#[test]
fn the_ranges_of_uav123_follow_each_other() {
    assert_eq!(UAV123.len(), 51);
    for pair in UAV123.windows(2) {
        assert!(pair.iter().all(|part| part.first % 3 == 1 && part.frames % 3 == 1 && part.frames > 1));
        let last = pair[0].first + pair[0].frames - 1;
        assert!(pair[0].folder('_') != pair[1].folder('_') || last <= pair[1].first);
    }
}

#[test]
fn lasot() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let sequence = |folder: &str, boxes: usize, frames: usize, hidden: &str, outside: &str| {
        write_frames(root, &format!("{folder}/img"), 8, 1..frames + 1);
        write(root, &format!("{folder}/groundtruth.txt"), &lines(boxes));
        write(root, &format!("{folder}/full_occlusion.txt"), hidden);
        write(root, &format!("{folder}/out_of_view.txt"), outside);
    };
    sequence("airplane/airplane-1", 3, 3, "0,1,0", "0,0,1\n");
    sequence("airplane/airplane-2", 3, 3, "0,0,0", "0,0,0");
    sequence("airplane/airplane-3", 3, 3, "0,0", "0,0,0");
    sequence("bear/bear-1", 3, 4, "0,0,0", "0,0,0");
    sequence("cat-2", 2, 2, "0,0", "0,0");
    std::fs::create_dir_all(root.join("cat-5/img")).unwrap();
    let options = SequenceOptions::benchmark();
    let read = |part: Dataset| part.load(root, &options).unwrap();
    let train = read(Dataset::LasotTrain);
    assert_eq!(names(&train), ["airplane-2", "cat-2"]);
    assert_eq!(
        defects(&train),
        [("airplane-3", BadAnnotation), ("bear-1", BadAnnotation), ("cat-5", BadAnnotation)]
    );
    let test = read(Dataset::LasotTest);
    assert_eq!((names(&test), test.quarantine.defects.len()), (vec!["airplane-1"], 279));
    assert_eq!([0, 1, 2].map(|i| test.sequences[0].is_valid(i)), [true, false, false]);
    assert_eq!(first_and_last(&test, 0), ["img/00000001.jpg", "img/00000003.jpg"]);
    let all: std::collections::BTreeSet<_> = LASOT_TEST.lines().collect();
    assert_eq!(all.len(), 280);
    let number = |name: &str| name.rsplit_once('-').and_then(|(_, number)| number.parse::<u32>().ok());
    assert!(all.into_iter().all(|name| number(name).is_some_and(|n| (1..=20).contains(&n))));
}

#[test]
fn got10k() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    for (name, absence, cover) in
        [("A", "0\n0\n1\n", "8\n0\n0\n"), ("B", "0\n0\n0\n", "1\n8\n8\n"), ("C", "0\n0\n0\n", "x\n8\n8\n")]
    {
        write_frames(root, &format!("train/{name}"), 8, 1..4);
        write(root, &format!("train/{name}/groundtruth.txt"), &lines(3));
        write(root, &format!("train/{name}/absence.label"), absence);
        write(root, &format!("train/{name}/cover.label"), cover);
    }
    write(root, "train/list.txt", "A\nB\nC\n");
    write_frames(root, "test/T", 8, 1..4);
    write(root, "test/T/groundtruth.txt", "1,2,3,4\n");
    let options = SequenceOptions::benchmark();
    let read = |part: Dataset| part.load(root, &options);
    let listed = |text: &str| {
        write(root, "chosen.txt", text);
        read(Dataset::Got10kTrain(root.join("chosen.txt")))
    };
    let train = listed("A\r\n\nB\nC\n").unwrap();
    assert_eq!((names(&train), defects(&train)), (vec!["A", "B"], vec![("C", BadAnnotation)]));
    assert_eq!(train.sequences[0].visible, Some(vec![true, false, false]));
    assert_eq!(first_and_last(&train, 0), ["A/00000001.jpg", "A/00000003.jpg"]);
    assert_eq!(names(&listed("1\n").unwrap()), ["B"]);
    assert_eq!(names(&listed("B\nA\n").unwrap()), ["B", "A"]);
    assert!(listed("3\n").unwrap_err().to_string().contains("place 3"));
    assert!(listed("../A\n").is_err());
    let test = read(Dataset::Got10kTest).unwrap();
    assert_eq!(test.sequences[0].boxes.len(), 3);
    assert_eq!([0, 1].map(|i| test.sequences[0].is_valid(i)), [true, false]);
    assert!(matches!(read(Dataset::Got10kVal), Err(Error::Io { .. })));
}

#[test]
fn trackingnet() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    for (set, name, frames, boxes) in [
        ("TRAIN_0", "b", 12, 12),
        ("TRAIN_0", "few", 4, 3),
        ("TRAIN_0", "many", 3, 4),
        ("TRAIN_3", "a", 2, 2),
        ("TEST", "t", 5, 1),
    ] {
        write_frames(root, &format!("{set}/frames/{name}"), 1, 0..frames);
        write(root, &format!("{set}/anno/{name}.txt"), &lines(boxes));
    }
    write(root, "TRAIN_3/anno/gone.txt", &lines(2));
    write_frames(root, "TRAIN_3/frames/unlabelled", 1, 0..2);
    let options = SequenceOptions::benchmark();
    assert!(matches!(Dataset::TrackingNetTrain.load(root, &options), Err(Error::Io { .. })));
    for folder in ["frames", "anno"].iter().flat_map(|kind| [1, 2].map(|k| format!("TRAIN_{k}/{kind}"))) {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    let train = Dataset::TrackingNetTrain.load(root, &options).unwrap();
    assert_eq!(names(&train), ["b", "a"]);
    assert_eq!(first_and_last(&train, 0), ["b/0.jpg", "b/11.jpg"]);
    assert!(matches!(train.sequences[0].frames, Frames::Numbered { .. }));
    let expected = [
        ("few", BadAnnotation),
        ("many", BadAnnotation),
        ("gone", MissingFile),
        ("unlabelled", BadAnnotation),
    ];
    assert_eq!(defects(&train), expected);
    let test = Dataset::TrackingNetTest.load(root, &options).unwrap();
    assert_eq!(test.sequences[0].boxes.len(), 5);
    assert!(test.sequences[0].is_valid(0) && !test.sequences[0].is_valid(4));
}

#[test]
fn objects_are_sequences_of_one_frame() {
    let dir = tempfile::tempdir().unwrap();
    let annotations = write_dataset(dir.path(), 4);
    let text = std::fs::read_to_string(&annotations).unwrap();
    std::fs::write(&annotations, text.replacen("\"iscrowd\":0", "\"iscrowd\":1", 1)).unwrap();
    let dataset = CocoDataset::load(&annotations, dir.path(), &LoadOptions::new(Purpose::Eval)).unwrap();
    let sequences = coco::sequences(&dataset);
    assert_eq!(sequences.len(), 3);
    let boxes: Vec<Rect> = sequences.iter().map(|sequence| sequence.boxes[0]).collect();
    assert_eq!(boxes, [1., 2., 3.].map(|id| [id, 2., 11., 13.]));
    assert!(
        sequences.iter().all(|s| s.frames.len() == 1 && s.is_valid(0) && s.frames.path(0).unwrap().is_file())
    );
}

#[test]
fn a_dataset_without_a_sound_sequence_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "anno/UAV123/a.txt", "");
    std::fs::create_dir_all(dir.path().join("data_seq/UAV123")).unwrap();
    let error = Dataset::Uav123.load(dir.path(), &SequenceOptions::benchmark()).unwrap_err();
    assert!(matches!(error, Error::TooManyDefects { bad: 1, total: 1, .. }), "{error}");
    let error = Dataset::LasotTrain.load(dir.path(), &SequenceOptions::train()).unwrap_err();
    assert!(error.to_string().contains("CLASS/CLASS-NUMBER"), "{error}");
    let mut options = SequenceOptions::train();
    options.tolerance.max_bad_fraction = 2.;
    assert!(matches!(Dataset::Uav123.load(dir.path(), &options), Err(Error::Argument { .. })));
}

#[test]
fn published_boxes_load_with_their_frames() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    for (name, frames) in [("Crossing", 120), ("Deer", 71)] {
        let boxes = fixture("otb/annotations").join(name.to_lowercase()).join("groundtruth_rect.txt");
        write(root, &format!("{name}/groundtruth_rect.txt"), &std::fs::read_to_string(boxes).unwrap());
        write_frames(root, &format!("{name}/img"), 4, 1..frames + 1);
    }
    let read = Dataset::Otb100.load(root, &SequenceOptions::benchmark()).unwrap();
    assert_eq!(names(&read), ["Crossing", "Deer"]);
    assert_eq!(read.quarantine.defects.len(), 98);
    assert_eq!(read.sequences[0].boxes.len(), 120);
    assert_eq!(read.sequences[1].boxes[..2], [[306., 5., 95., 65.], [313., 15., 98., 70.]]);
    assert_eq!(first_and_last(&read, 1), ["img/0001.jpg", "img/0071.jpg"]);
}

#[test]
fn parts_and_second_targets_of_otb_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write_frames(root, "David/img", 4, 1..771);
    write(root, "David/groundtruth_rect.txt", &lines(471));
    write_frames(root, "Jogging/img", 4, 1..308);
    write(root, "Jogging/groundtruth_rect.2.txt", &lines(307));
    write_frames(root, "Deer/img", 4, 1..71);
    write(root, "Deer/groundtruth_rect.txt", &lines(71));
    let read = Dataset::Otb100.load(root, &SequenceOptions::benchmark()).unwrap();
    assert_eq!(names(&read), ["David", "Jogging.2"]);
    assert_eq!(first_and_last(&read, 0), ["img/0300.jpg", "img/0770.jpg"]);
    assert!(defects(&read).contains(&("Deer", BadAnnotation)));
    assert!(defects(&read).contains(&("Jogging.1", BadAnnotation)));
}
