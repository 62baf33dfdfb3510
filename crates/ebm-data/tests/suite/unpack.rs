//! Archives: sound ones, and the hostile ones of tests/attacks/.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use ebm_data::staging::{Busy, Staging};
use ebm_data::unpack::{Budget, MARKER, unpack};
use ebm_data::{Error, Result};
use zip::write::SimpleFileOptions;

const BUDGET: Budget = Budget { max_entries: 64, max_bytes: 1 << 20 };

/// Each archive with what its refusal says.
const ATTACKS: [(&str, &str); 19] = [
    ("parent.zip", "\"../escaped.txt\": it leads out"),
    ("absolute.zip", "leads out"),
    ("symlink.zip", "a link"),
    ("bomb.zip", "more bytes than 1048576"),
    ("lie.zip", "entry \"a\""),
    ("many.zip", "more files and folders than 64"),
    ("truncated.zip", "archive"),
    ("crc.zip", "damaged"),
    ("parent.tar", "\"../escaped.txt\": it leads out"),
    ("absolute.tar", "leads out"),
    ("symlink.tar", "a link"),
    ("hardlink.tar", "a link"),
    ("device.tar", "a device"),
    ("bomb.tar.gz", "more bytes than 1048576"),
    ("many.tar.gz", "more files and folders than 64"),
    ("folders.tar.gz", "more files and folders than 64"),
    ("truncated.tar", "end is missing"),
    ("unfinished.tar", "end is missing"),
    ("crc.tar.gz", "corrupt"),
];

fn open(archive: &Path, target: &Path) -> Result<ebm_data::unpack::Unpacked> {
    unpack(archive, target, &BUDGET, false)
}

/// All below a folder: files with their content, folders with nothing.
fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let content = if path.is_dir() { Vec::new() } else { fs::read(&path).unwrap() };
            if path.is_dir() {
                open.push(path.clone());
            }
            found.insert(path.strip_prefix(root).unwrap().to_owned(), content);
        }
    }
    found
}

#[test]
fn every_hostile_archive_is_refused_and_leaves_nothing() {
    let attacks = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/attacks");
    assert_eq!(fs::read_dir(&attacks).unwrap().count(), ATTACKS.len() + 1, "and the script that makes them");
    for (name, said) in ATTACKS {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let error = open(&attacks.join(name), &inner.join("target")).expect_err(name);
        assert!(matches!(error, Error::Data(..)), "{name}: {error}");
        let text = error.to_string();
        assert!(text.contains(name) && text.contains(said), "{error}");
        assert_eq!(tree(dir.path()), BTreeMap::from([("inner".into(), Vec::new())]), "{name}");
    }
    assert!(!Path::new("/tmp/ebm-attack-escaped.txt").exists());
}

const FILES: [(&str, &[u8]); 3] = [("a.txt", b"first"), ("deep/er/b.bin", &[0; 3000]), ("deep/c", b"")];

fn zip_bytes() -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    writer.add_directory("deep", SimpleFileOptions::default()).unwrap();
    for (name, data) in FILES {
        writer.start_file(name, SimpleFileOptions::default()).unwrap();
        writer.write_all(data).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn tar_bytes(prefix: &str) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Directory);
    header.set_size(0);
    builder.append_data(&mut header, format!("{prefix}deep/"), std::io::empty()).unwrap();
    for (name, data) in FILES {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        builder.append_data(&mut header, format!("{prefix}{name}"), data).unwrap();
    }
    builder.into_inner().unwrap()
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn sound_archives_are_unpacked_once() {
    let dotted = tar_bytes("./");
    for (name, bytes) in [
        ("a.zip", zip_bytes()),
        ("a.tar", tar_bytes("")),
        ("dotted", dotted.clone()),
        ("a.tgz", packed(&dotted)),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (archive, target) = (dir.path().join(name), dir.path().join("some/target"));
        fs::write(&archive, &bytes).unwrap();
        let unpacked = open(&archive, &target).unwrap();
        assert_eq!((unpacked.files, unpacked.bytes, unpacked.sha256.len()), (3, 3005, 64), "{name}");
        let mut found = tree(&target);
        assert!(found.remove(Path::new(MARKER)).is_some());
        let folders = ["deep", "deep/er"].map(|folder| (PathBuf::from(folder), Vec::new()));
        let files = FILES.map(|(name, data)| (PathBuf::from(name), data.to_vec()));
        assert_eq!(found, folders.into_iter().chain(files).collect(), "{name}");
        // Again: nothing is written. What the folder has gained stays.
        fs::write(target.join("notes.txt"), "mine").unwrap();
        assert_eq!(open(&archive, &target).unwrap(), unpacked);
        assert!(target.join("notes.txt").exists());
        assert_eq!(fs::read_dir(target.parent().unwrap()).unwrap().count(), 1);
    }
}

#[test]
fn the_one_folder_of_an_archive_becomes_the_target() {
    let dir = tempfile::tempdir().unwrap();
    let (archive, target) = (dir.path().join("a.tar"), dir.path().join("target"));
    fs::write(&archive, tar_bytes("")).unwrap();
    let message = unpack(&archive, &target, &BUDGET, true).unwrap_err().to_string();
    assert!(message.contains("one folder alone") && !target.exists(), "{message}");
    fs::write(&archive, tar_bytes("train2017/")).unwrap();
    let unpacked = unpack(&archive, &target, &BUDGET, true).unwrap();
    assert_eq!(unpacked.files, 3);
    for (name, data) in FILES {
        assert_eq!(fs::read(target.join(name)).unwrap(), data);
    }
    assert_eq!(unpack(&archive, &target, &BUDGET, true).unwrap(), unpacked);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "leftovers");
}

#[test]
fn one_unpacks_to_a_folder_and_the_other_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (archive, target) = (dir.path().join("a.tar"), dir.path().join("target"));
    fs::write(&archive, tar_bytes("")).unwrap();
    let first = Staging::beside(&target, Busy::Refuse).unwrap();
    fs::write(first.path().join("half"), "done").unwrap();
    let error = open(&archive, &target).unwrap_err();
    assert!(matches!(error, Error::Failure(..)), "{error}");
    assert_eq!(fs::read_to_string(first.path().join("half")).unwrap(), "done");
    drop(first);
    open(&archive, &target).unwrap();
}

#[cfg(unix)]
#[test]
fn only_a_regular_file_is_an_archive() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    for (archive, what) in [
        (&*pipe, "a pipe or a device"),
        (Path::new("/dev/zero"), "a pipe or a device"),
        (dir.path(), "a folder"),
    ] {
        let error = open(archive, &dir.path().join("target")).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_target_with_anything_else_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (archive, other, target) = (dir.path().join("a.zip"), dir.path().join("a.tar"), dir.path().join("t"));
    fs::write(&archive, zip_bytes()).unwrap();
    fs::write(&other, tar_bytes("")).unwrap();
    fs::create_dir(&target).unwrap();
    fs::write(target.join("mine"), "mine").unwrap();
    let refuse = |archive: &Path| {
        let before = tree(dir.path());
        let error = open(archive, &target).unwrap_err();
        assert!(matches!(error, Error::Argument { name: "target", .. }), "{error}");
        assert_eq!(tree(dir.path()), before);
    };
    refuse(&archive);
    fs::remove_file(target.join("mine")).unwrap();
    // An empty folder is as good as none.
    open(&archive, &target).unwrap();
    refuse(&other);
}

#[test]
fn what_is_no_archive_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let archive = dir.path().join("a");
    let empty_tar = tar::Builder::new(Vec::new()).into_inner().unwrap();
    let empty_zip = zip::ZipWriter::new(Cursor::new(Vec::new())).finish().unwrap().into_inner();
    let cases = [Vec::new(), b"PK".to_vec(), b"<html>".repeat(200), vec![0x1f, 0x8b], empty_tar, empty_zip];
    for bytes in cases {
        fs::write(&archive, &bytes).unwrap();
        let error = open(&archive, &dir.path().join("t")).unwrap_err();
        assert!(matches!(error, Error::Data(..)), "{error}");
        assert!(!dir.path().join("t").exists());
    }
    assert!(matches!(open(&dir.path().join("none"), &dir.path().join("t")), Err(Error::Io { .. })));
}

/// Cut anywhere, an archive is refused or, where only padding is lost, unpacked whole; changed anywhere, it
/// never panics.
#[test]
fn damaged_archives_never_panic_nor_escape() {
    let (zip, tar, gz) = (zip_bytes(), tar_bytes(""), packed(&tar_bytes("")));
    let mut state = 7u32;
    let mut random = |below: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % below
    };
    let dir = tempfile::tempdir().unwrap();
    let archive = dir.path().join("archive");
    for original in [&zip, &tar, &gz] {
        for round in 0..150 {
            let mut bytes = original.clone();
            match round % 3 {
                0 => bytes.truncate(random(original.len())),
                1 => (0..3).for_each(|_| {
                    let at = random(bytes.len());
                    bytes[at] ^= 1 << random(8);
                }),
                _ => {
                    let (from, to) = (random(bytes.len()), random(bytes.len()));
                    let len = random(bytes.len() - from.max(to)).min(64);
                    bytes.copy_within(from..from + len, to);
                }
            }
            fs::write(&archive, &bytes).unwrap();
            let target = dir.path().join("target");
            if let Ok(unpacked) = open(&archive, &target) {
                if round % 3 == 0 {
                    assert_eq!((unpacked.files, unpacked.bytes), (3, 3005));
                }
                fs::remove_dir_all(&target).unwrap();
            }
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "round {round}");
        }
    }
}
