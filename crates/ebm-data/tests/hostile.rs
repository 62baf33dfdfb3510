//! Files from strangers: bombs are refused at once, and no damaged file of annotations makes a reader panic.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{picture, write_dataset};
use ebm_data::Error;
use ebm_data::check::{CheckOptions, coco as check_coco};
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::faces::{Tolerance, biwi, utkface};
use ebm_data::sequences::{FrameCheck, SequenceOptions, nfs, read_boxes};

/// The goal is 100 ms; a loaded machine gets ten times as long.
const TIME: Duration = Duration::from_secs(1);

/// Numbers below a bound, the same in every run.
struct Draw(u32);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as usize % bound.max(1)
    }
}

/// A truncation, a few changed bits or a moved piece, in turn; sometimes a word that parsers may stumble over.
fn mutate(original: &[u8], round: usize, draw: &mut Draw) -> Vec<u8> {
    const WORDS: [&[u8]; 8] =
        [b"NaN", b"-1", b"1e999", b"99999999999999999999", b"\0", b"\xff\xfe", b"[[[[", b"\"\\u0000\""];
    let mut bytes = original.to_vec();
    match round % 4 {
        0 => bytes.truncate(draw.below(original.len())),
        1 => (0..3).for_each(|_| {
            let at = draw.below(bytes.len());
            bytes[at] ^= 1 << draw.below(8);
        }),
        2 => {
            let (from, to) = (draw.below(bytes.len()), draw.below(bytes.len()));
            let len = draw.below(bytes.len() - from.max(to)).min(64);
            bytes.copy_within(from..from + len, to);
        }
        _ => {
            let at = draw.below(bytes.len());
            bytes.splice(at..at, WORDS[draw.below(WORDS.len())].iter().copied());
        }
    }
    bytes
}

/// Reads 300 damaged versions of the file at `path` and then restores it. How many were refused.
fn attack(path: &Path, mut read: impl FnMut() -> Result<(), Error>) -> usize {
    let original = fs::read(path).unwrap();
    read().unwrap();
    let mut draw = Draw(1);
    let mut refused = 0;
    for round in 0..300 {
        fs::write(path, mutate(&original, round, &mut draw)).unwrap();
        if let Err(error) = read() {
            refused += 1;
            // Never the machine's failure: the file is there.
            assert!(!matches!(error, Error::Io { .. }), "{error}");
        }
    }
    fs::write(path, original).unwrap();
    refused
}

const ANY: Tolerance = Tolerance { max_bad_fraction: 1., report: None };

#[test]
fn no_damaged_annotation_file_panics() {
    let dir = tempfile::tempdir().unwrap();
    let json = write_dataset(dir.path(), 3);
    let options = LoadOptions { max_bad_fraction: 1., ..LoadOptions::new(Purpose::Eval) };
    let refused = attack(&json, || CocoDataset::load(&json, dir.path(), &options).map(drop));
    assert!(refused > 100, "{refused}");
    let checks = CheckOptions { decode: false };
    attack(&json, || check_coco(&json, dir.path(), &checks).map(drop));
}

#[test]
fn no_damaged_list_of_faces_panics() {
    let dir = tempfile::tempdir().unwrap();
    let split = dir.path().join("split.csv");
    let mut text = ",file,age\n".to_owned();
    for age in 21..30 {
        text.push_str(&format!("{age},{age}_0_1_2017.jpg,{}\n", age - 21));
    }
    fs::write(&split, text).unwrap();
    let options = utkface::UtkOptions { check_files: false, tolerance: ANY, ..Default::default() };
    attack(&split, || utkface::load(dir.path(), &split, &options).map(drop));
}

#[test]
fn no_damaged_pose_or_camera_panics() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("01");
    fs::create_dir(&folder).unwrap();
    let camera = "500 0 320\n0 500 240\n0 0 1\n\n0 0 0 0\n\n1 0 0\n0 1 0\n0 0 1\n\n0 0 0\n\n640 480\n";
    fs::write(folder.join("rgb.cal"), camera).unwrap();
    let pose = folder.join("frame_00001_pose.txt");
    fs::write(&pose, "1 0 0\n0 1 0\n0 0 1\n\n0.5 -20 1000\n").unwrap();
    ebm_data::encode::write_png(&folder.join("frame_00001_rgb.png"), &picture(8, 8)).unwrap();
    let options = biwi::FramesOptions { tolerance: ANY, ..Default::default() };
    attack(&pose, || biwi::load_frames(dir.path(), &options).map(drop));
    attack(&folder.join("rgb.cal"), || biwi::load_frames(dir.path(), &options).map(drop));
}

#[test]
fn no_damaged_list_of_boxes_panics() {
    let dir = tempfile::tempdir().unwrap();
    let frames = dir.path().join("sequences/a");
    fs::create_dir_all(&frames).unwrap();
    fs::create_dir(dir.path().join("anno")).unwrap();
    for i in 1..=3 {
        fs::write(frames.join(format!("{i:05}.jpg")), b"").unwrap();
    }
    let list = dir.path().join("anno/nfs_a.txt");
    fs::write(&list, "1,2,3,4\n-5.5\t6\t7\t8e1\nNaN NaN NaN NaN\n").unwrap();
    assert!(attack(&list, || read_boxes(&list).map(drop)) > 50);
    let options = SequenceOptions { check: FrameCheck::Report, tolerance: ANY };
    attack(&list, || nfs::load(dir.path(), &options).map(drop));
}

/// Above what any reader takes.
fn sparse(path: &Path, len: u64) {
    fs::File::create(path).unwrap().set_len(len).unwrap();
}

#[test]
fn files_that_are_too_large_are_refused_unread() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("huge.txt");
    sparse(&path, 1 << 36);
    let options = LoadOptions::new(Purpose::Eval);
    let utk = utkface::UtkOptions::default();
    let start = Instant::now();
    assert!(matches!(read_boxes(&path), Err(Error::FileTooLarge { .. })));
    assert!(matches!(CocoDataset::load(&path, dir.path(), &options), Err(Error::FileTooLarge { .. })));
    let checks = CheckOptions::default();
    assert!(matches!(check_coco(&path, dir.path(), &checks), Err(Error::FileTooLarge { .. })));
    assert!(matches!(utkface::load(dir.path(), &path, &utk), Err(Error::FileTooLarge { .. })));
    assert!(matches!(ebm_data::decode::read_image(&path), Err(Error::FileTooLarge { .. })));
    assert!(biwi::read_npz(&path, &biwi::NpzOptions::default()).is_err());
    assert!(start.elapsed() < TIME);
}

#[test]
fn json_as_deep_as_it_is_long_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep.json");
    let deep = "[".repeat(100_000);
    let texts = [
        deep.clone(),
        format!("{{\"images\":{deep}"),
        format!("{{\"info\":{deep}"),
        format!("{{\"annotations\":[{{\"segmentation\":{deep}"),
        "{\"images\":".repeat(20_000),
    ];
    for text in texts {
        fs::write(&path, text).unwrap();
        let start = Instant::now();
        let options = LoadOptions::new(Purpose::Eval);
        assert!(matches!(CocoDataset::load(&path, dir.path(), &options), Err(Error::Json { .. })));
        assert!(matches!(check_coco(&path, dir.path(), &CheckOptions::default()), Err(Error::Json { .. })));
        assert!(start.elapsed() < TIME);
    }
}
