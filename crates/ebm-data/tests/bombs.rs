//! Small files that promise much (goal R13 of docs/reliability.md): refused at once, and with little memory.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::sequences::read_boxes;
use ebm_data::{decode, files};

/// The goal is 100 ms; a loaded machine gets ten times as long.
const TIME: Duration = Duration::from_secs(1);
const MEMORY_KIB: u64 = 64 << 10;

type Read = fn(&Path) -> ebm_data::Result<()>;

const PARSERS: [(&str, Read); 4] = [
    ("a.json", |path| {
        CocoDataset::load(path, path, &LoadOptions { check_files: false, ..LoadOptions::new(Purpose::Eval) })
            .map(drop)
    }),
    ("boxes.txt", |path| read_boxes(path).map(drop)),
    ("a.jpg", |path| decode::read_image(path).map(drop)),
    ("a.toml", |path| files::read_settings(path).map(drop)),
];

/// A size of this process in KiB: `VmHWM`, the largest that it had, or `VmRSS`.
fn size(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// One test, so that nothing else of this process takes memory meanwhile.
#[test]
fn bombs_are_refused_at_once_and_with_little_memory() {
    let dir = tempfile::tempdir().unwrap();
    let deep = "[".repeat(100_000);
    let nested = [
        format!("{{\"images\":{deep}"),
        format!("{{\"annotations\":[{{\"segmentation\":{deep}"),
        "{\"images\":".repeat(20_000),
        deep,
    ];
    for (name, read) in PARSERS {
        let path = dir.path().join(name);
        let texts = nested.iter().filter(|_| name.ends_with(".json"));
        // A file that takes no room may be longer than any of its kind.
        for (text, length) in texts.map(|text| (text.as_str(), None)).chain([("", Some(1 << 38))]) {
            let mut file = File::create(&path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            length.map_or(Ok(()), |length| file.set_len(length)).unwrap();
            fs::write("/proc/self/clear_refs", "5").unwrap();
            let (before, start) = (size("VmRSS:"), Instant::now());
            let answer = read(&path);
            let (time, more) = (start.elapsed(), size("VmHWM:").saturating_sub(before));
            assert!(answer.is_err(), "{name}: a bomb was taken");
            assert!(time < TIME && more < MEMORY_KIB, "{name}: {time:?}, {more} KiB: {answer:?}");
        }
    }
}
