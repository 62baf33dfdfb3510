//! Archives: sound ones, and the hostile ones of tests/attacks/.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ebm_data::Error;
use ebm_data::staging::{Busy, Staging};
use ebm_data::unpack::{ArchiveFault, Budget, MARKER, unpack, unpack_top};
use zip::write::SimpleFileOptions;

const BUDGET: Budget = Budget { max_entries: 64, max_entry_bytes: 1 << 20, max_total_bytes: 1 << 20 };

/// Each archive with what is wrong with it.
const ATTACKS: [(&str, ArchiveFault); 45] = {
    use ArchiveFault::*;
    [
        ("parent.zip", UnsafeName),
        ("absolute.zip", UnsafeName),
        ("symlink.zip", Link),
        ("device.zip", Special),
        ("case.zip", Duplicate),
        ("file_and_folder.zip", Duplicate),
        ("twice.zip", Duplicate),
        ("bomb.zip", TooLarge),
        ("huge.zip", TooLarge),
        ("lie.zip", Damaged),
        ("overlap.zip", Overlap),
        ("many.zip", TooManyEntries),
        ("backslash.zip", UnsafeName),
        ("drive.zip", UnsafeName),
        ("nul.zip", UnsafeName),
        ("truncated.zip", Damaged),
        ("crc.zip", Damaged),
        ("count.zip", Damaged),
        ("long_name.zip", TooLarge),
        ("marker.zip", Reserved),
        ("parent.tar", UnsafeName),
        ("absolute.tar", UnsafeName),
        ("symlink.tar", Link),
        ("hardlink.tar", Link),
        ("device.tar", Special),
        ("pipe.tar", Special),
        ("folder_bomb.tar.gz", Special),
        ("case.tar", Duplicate),
        ("twice.tar", Duplicate),
        ("backslash.tar", UnsafeName),
        ("drive.tar", UnsafeName),
        ("pax_parent.tar", UnsafeName),
        ("pax_size.tar", Special),
        ("bomb.tar.gz", TooLarge),
        ("many.tar.gz", TooManyEntries),
        ("folders.tar.gz", TooManyEntries),
        ("deep.tar", UnsafeName),
        ("long_part.tar", UnsafeName),
        ("long_name.tar.gz", TooLarge),
        ("huge.tar", TooLarge),
        ("truncated.tar", Damaged),
        ("unfinished.tar", Damaged),
        ("checksum.tar", Damaged),
        ("crc.tar.gz", Damaged),
        ("tail.tar.gz", TooLarge),
    ]
};

fn attacks() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/attacks")
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
    for (name, expected) in ATTACKS {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let start = Instant::now();
        let error = unpack(&attacks().join(name), &inner.join("target"), &BUDGET).expect_err(name);
        let elapsed = start.elapsed();
        let Error::Archive { path, fault, detail, .. } = &error else { panic!("{name}: {error}") };
        assert_eq!(*fault, expected, "{name}: {detail}");
        assert!(path.ends_with(name) && error.to_string().contains(name), "{error}");
        assert_eq!(tree(dir.path()), BTreeMap::from([("inner".into(), Vec::new())]), "{name}");
        assert!(elapsed < Duration::from_secs(1), "{name}: {elapsed:?}");
    }
    assert!(!Path::new("/tmp/ebm-attack-escaped.txt").exists());
}

#[test]
fn every_attack_that_was_made_is_tried() {
    let made =
        fs::read_dir(attacks()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let made: Vec<String> = made.filter(|name| !name.ends_with(".py")).collect();
    assert_eq!(made.len(), ATTACKS.len());
    assert!(ATTACKS.iter().all(|(name, _)| made.iter().any(|made| made == name)));
}

#[test]
fn an_error_names_archive_and_entry() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["parent.zip", "parent.tar"] {
        let error =
            unpack(&attacks().join(name), &dir.path().join("target"), &BUDGET).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("\"../escaped.txt\""), "{error}");
    }
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
        let unpacked = unpack(&archive, &target, &BUDGET).unwrap();
        assert_eq!((unpacked.files, unpacked.bytes, unpacked.sha256.len()), (3, 3005, 64), "{name}");
        let mut found = tree(&target);
        assert!(found.remove(Path::new(MARKER)).is_some());
        let folders = ["deep", "deep/er"].map(|folder| (PathBuf::from(folder), Vec::new()));
        let files = FILES.map(|(name, data)| (PathBuf::from(name), data.to_vec()));
        assert_eq!(found, folders.into_iter().chain(files).collect(), "{name}");
        // Again: nothing is written. What the folder has gained stays.
        fs::write(target.join("notes.txt"), "mine").unwrap();
        assert_eq!(unpack(&archive, &target, &BUDGET).unwrap(), unpacked);
        assert!(target.join("notes.txt").exists());
        assert_eq!(fs::read_dir(target.parent().unwrap()).unwrap().count(), 1);
    }
}

#[test]
fn the_one_folder_of_an_archive_becomes_the_target() {
    let dir = tempfile::tempdir().unwrap();
    let (archive, target) = (dir.path().join("a.tar"), dir.path().join("target"));
    fs::write(&archive, tar_bytes("")).unwrap();
    let message = unpack_top(&archive, &target, &BUDGET).unwrap_err().to_string();
    assert!(message.contains("one folder alone") && !target.exists(), "{message}");
    fs::write(&archive, tar_bytes("train2017/")).unwrap();
    let unpacked = unpack_top(&archive, &target, &BUDGET).unwrap();
    assert_eq!(unpacked.files, 3);
    for (name, data) in FILES {
        assert_eq!(fs::read(target.join(name)).unwrap(), data);
    }
    assert_eq!(unpack_top(&archive, &target, &BUDGET).unwrap(), unpacked);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "leftovers");
}

#[test]
fn the_markers_name_is_refused_where_it_would_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let (archive, target) = (dir.path().join("a.tar"), dir.path().join("target"));
    let mut builder = tar::Builder::new(Vec::new());
    for name in ["top/a", "top/.unpacked.json"] {
        let mut header = tar::Header::new_gnu();
        header.set_size(4);
        builder.append_data(&mut header, name, &b"mine"[..]).unwrap();
    }
    fs::write(&archive, builder.into_inner().unwrap()).unwrap();
    let error = unpack_top(&archive, &target, &BUDGET).unwrap_err();
    assert!(matches!(error, Error::Archive { fault: ArchiveFault::Reserved, .. }), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "leftovers");
    // As it is it lies deeper than the marker.
    let unpacked = unpack(&archive, &target, &BUDGET).unwrap();
    assert_eq!((unpack(&archive, &target, &BUDGET).unwrap(), unpacked.files), (unpacked, 2));
    assert_eq!(fs::read_to_string(target.join("top/.unpacked.json")).unwrap(), "mine");
}

#[test]
fn what_others_left_beside_the_target_is_no_obstacle() {
    let dir = tempfile::tempdir().unwrap();
    let (archive, target) = (dir.path().join("a.tar"), dir.path().join("target"));
    fs::write(&archive, tar_bytes("")).unwrap();
    fs::create_dir_all(dir.path().join(".target.partial").join("a/".repeat(100))).unwrap();
    fs::write(dir.path().join(".target.lock"), "1").unwrap();
    unpack(&archive, &target, &BUDGET).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn one_unpacks_to_a_folder_and_the_other_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (archive, target) = (dir.path().join("a.tar"), dir.path().join("target"));
    fs::write(&archive, tar_bytes("")).unwrap();
    let first = Staging::beside(&target, Busy::Refuse).unwrap();
    fs::write(first.path().join("half"), "done").unwrap();
    let error = unpack(&archive, &target, &BUDGET).unwrap_err();
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    assert_eq!(fs::read_to_string(first.path().join("half")).unwrap(), "done");
    drop(first);
    unpack(&archive, &target, &BUDGET).unwrap();
}

#[cfg(unix)]
#[test]
fn only_a_regular_file_is_an_archive() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    for (archive, what) in
        [(&*pipe, "a named pipe"), (Path::new("/dev/zero"), "a device"), (dir.path(), "a folder")]
    {
        let error = unpack(archive, &dir.path().join("target"), &BUDGET).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn long_names_are_read() {
    let name = format!("{}/{}.txt", "folder".repeat(30), "file".repeat(30));
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(2);
    builder.append_data(&mut header, &name, &b"ok"[..]).unwrap();
    builder.append_pax_extensions([("path", name.replace("file", "mine").as_bytes())]).unwrap();
    let mut header = tar::Header::new_ustar();
    header.set_size(2);
    builder.append_data(&mut header, "short", &b"ok"[..]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let archive = dir.path().join("long.tar");
    fs::write(&archive, builder.into_inner().unwrap()).unwrap();
    unpack(&archive, &dir.path().join("t"), &BUDGET).unwrap();
    assert_eq!(fs::read(dir.path().join("t").join(&name)).unwrap(), b"ok");
    assert_eq!(fs::read(dir.path().join("t").join(name.replace("file", "mine"))).unwrap(), b"ok");
}

#[test]
fn a_target_with_anything_else_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (archive, other, target) = (dir.path().join("a.zip"), dir.path().join("a.tar"), dir.path().join("t"));
    fs::write(&archive, zip_bytes()).unwrap();
    fs::write(&other, tar_bytes("")).unwrap();
    fs::create_dir(&target).unwrap();
    fs::write(target.join("mine"), "mine").unwrap();
    let refuse = |archive: &Path, said: &str| {
        let before = tree(dir.path());
        let error = unpack(archive, &target, &BUDGET).unwrap_err();
        assert!(matches!(error, Error::Argument { name: "target", .. }), "{error}");
        assert!(error.to_string().contains(said), "{error}");
        assert_eq!(tree(dir.path()), before);
    };
    refuse(&archive, "no archive was unpacked to");
    fs::remove_file(target.join("mine")).unwrap();
    // An empty folder is as good as none.
    unpack(&archive, &target, &BUDGET).unwrap();
    refuse(&other, "another archive");
    fs::remove_file(target.join("a.txt")).unwrap();
    refuse(&archive, "missing or cut short");
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
        let error = unpack(&archive, &dir.path().join("t"), &BUDGET).unwrap_err();
        assert!(matches!(error, Error::Archive { .. }), "{error}");
        assert!(!dir.path().join("t").exists());
    }
    assert!(matches!(
        unpack(&dir.path().join("none"), &dir.path().join("t"), &BUDGET),
        Err(Error::Io { .. })
    ));
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
            if let Ok(unpacked) = unpack(&archive, &target, &BUDGET) {
                if round % 3 == 0 {
                    assert_eq!((unpacked.files, unpacked.bytes), (3, 3005));
                }
                fs::remove_dir_all(&target).unwrap();
            }
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "round {round}");
        }
    }
}
