//! FSA-Net's npz files: NumPy's, ours, damaged and hostile ones.

use std::io::{Cursor, Read, Write};
use std::path::Path;
use std::sync::Arc;

use crate::common::golden;
use ebm_data::faces::biwi::{NpzOptions, read_npz, write_npz};
use ebm_data::faces::{Face, Pixels, Tolerance};
use ebm_data::quarantine::DefectCode;
use ebm_data::{Error, Image};
use proptest::prelude::*;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

const COUNT: usize = 5;
const SIDE: usize = 8;

/// The faces of make_npz.py.
fn faces() -> Vec<Face> {
    let face = |n: usize| {
        let mut pixels = Vec::new();
        for y in 0..SIDE {
            for x in 0..SIDE {
                // Blue is channel 0 of the file, red channel 2.
                pixels.extend([2, 1, 0].map(|c| ((31 * n + 7 * y + 3 * x + 80 * c) % 256) as u8));
            }
        }
        let n = n as f32;
        Face {
            name: format!("{n:06}"),
            pixels: Pixels::Memory(Arc::new(Image::new(SIDE, SIDE, pixels).unwrap())),
            target: vec![10.5 * n, -3.25 * n, 0.125 - n],
        }
    };
    (0..COUNT).map(face).collect()
}

/// A file of entries, each with its compression.
fn zip(entries: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        zip.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// An array with a header that claims what it likes.
fn npy(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend(data);
    bytes
}

fn npy_of(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    npy(&format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n"), data)
}

fn read_bytes(bytes: &[u8]) -> ebm_data::Result<ebm_data::faces::Faces> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f.npz"), bytes).unwrap();
    read_npz(&dir.path().join("f.npz"), &NpzOptions::default())
}

/// The complaint about a file with these arrays.
fn complaint(image: &[u8], pose: &[u8]) -> String {
    let bytes = zip(&[("image.npy", image), ("pose.npy", pose)], CompressionMethod::Stored);
    complaint_about(&bytes)
}

fn complaint_about(bytes: &[u8]) -> String {
    match read_bytes(bytes) {
        Err(error @ Error::Format { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn numpys_files_are_read() {
    for name in ["biwi/stored.npz", "biwi/deflated.npz"] {
        let read = read_npz(&golden(name), &NpzOptions::default()).unwrap();
        assert_eq!(read.faces, faces(), "{name}");
        assert!(read.quarantine.defects.is_empty());
    }
    let said = |name| read_npz(&golden(name), &NpzOptions::default()).unwrap_err().to_string();
    assert!(said("biwi/fortran.npz").contains("ascontiguousarray"), "{}", said("biwi/fortran.npz"));
    assert!(said("biwi/pickled.npz").contains("type \"|O\" is none of |u1"), "{}", said("biwi/pickled.npz"));
}

#[test]
fn poses_that_are_no_angles_are_quarantined() {
    let path = golden("biwi/bad_poses.npz");
    let mut options =
        NpzOptions { tolerance: Tolerance { max_bad_fraction: 0.4, report: None }, ..Default::default() };
    let read = read_npz(&path, &options).unwrap();
    let wanted: Vec<_> = faces().into_iter().enumerate().filter(|(n, _)| ![1, 3].contains(n)).collect();
    assert_eq!(read.faces, wanted.into_iter().map(|(_, face)| face).collect::<Vec<_>>());
    let defects = &read.quarantine.defects;
    assert_eq!(defects.iter().map(|defect| defect.code).collect::<Vec<_>>(), [DefectCode::BadAnnotation; 2]);
    assert!(defects[0].sample == "000001" && defects[0].detail.contains("roll NaN"), "{}", defects[0]);
    assert!(defects[1].sample == "000003" && defects[1].detail.contains("yaw 181"), "{}", defects[1]);
    options.tolerance.max_bad_fraction = 0.3;
    assert!(matches!(read_npz(&path, &options), Err(Error::TooManyDefects { bad: 2, total: 5, .. })));
}

#[test]
fn what_is_written_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ours.npz");
    write_npz(&path, &faces()).unwrap();
    assert_eq!(read_npz(&path, &NpzOptions::default()).unwrap().faces, faces());
    let bytes = std::fs::read(&path).unwrap();
    write_npz(&path, &faces()).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    // The arrays are NumPy's own, byte for byte, in NumPy's order.
    let entries = |bytes: Vec<u8>| {
        let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
        let entry = |index| {
            let mut entry = archive.by_index(index).unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            (entry.name().unwrap().into_owned(), bytes)
        };
        (0..3).map(entry).collect::<Vec<_>>()
    };
    assert_eq!(entries(bytes), entries(std::fs::read(golden("biwi/stored.npz")).unwrap()));

    let with = |change: &dyn Fn(&mut Face)| {
        let mut faces = faces();
        change(&mut faces[3]);
        let error = write_npz(&path, &faces).unwrap_err();
        assert!(matches!(error, Error::Argument { name: "faces", .. }));
        error.to_string()
    };
    let image = |width, height| Pixels::Memory(Arc::new(Image::filled(width, height, [1, 2, 3]).unwrap()));
    assert!(with(&|face| face.pixels = image(9, 9)).contains("9x9 pixels instead of 8x8"));
    assert!(with(&|face| face.pixels = image(8, 9)).contains("8x9"));
    assert!(with(&|face| face.pixels = Pixels::File("a.png".into())).contains("not in memory"));
    assert!(with(&|face| face.target = vec![1.]).contains("[1.0]"));
    assert!(with(&|face| face.target[1] = f32::NAN).contains("NaN"));
    assert!(matches!(write_npz(&path, &[]), Err(Error::Argument { .. })));
}

#[test]
fn headers_that_lie_are_errors() {
    let image = npy_of("|u1", "(2, 4, 4, 3)", &[7; 96]);
    let pose = npy_of("<f8", "(2, 3)", &[0; 48]);
    assert_eq!(
        read_bytes(&zip(&[("image.npy", &image), ("pose.npy", &pose)], CompressionMethod::Stored))
            .unwrap()
            .faces
            .len(),
        2
    );
    let poses = [
        (npy_of("<f8", "(1152921504606846976, 3)", &[0; 48]), "needs more than 2^64 bytes, there are 48"),
        (npy_of("<f8", "(18446744073709551615, 18446744073709551615)", &[0; 48]), "more than 2^64"),
        (npy_of("<f8", "(99999999999999999999, 3)", &[0; 48]), "too large"),
        (npy_of("<f8", "(8589934592, 3)", &[0; 48]), "needs 206158430208 bytes, there are 48"),
        (npy_of("<f8", "(1, 3)", &[0; 48]), "needs 24 bytes, there are 48"),
        (npy_of("<f8", "(3, 3)", &[0; 48]), "needs 72 bytes, there are 48"),
        (npy_of("<f8", "(3, 2)", &[0; 48]), "is not (N, 3)"),
        (npy_of("<f8", "(6,)", &[0; 48]), "is not (N, 3)"),
        (npy_of("<f8", "(0, 3)", &[]), "empty"),
        (npy_of("<f4", "(2, 3)", &[0; 48]), "needs 24 bytes"),
        (npy_of(">f8", "(2, 3)", &[0; 48]), "type \">f8\" is none of <f8, <f4"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec(), "4294967295 bytes exceeds the limit"),
        (b"\x93NUMPY\x01\x00\xff\xff".to_vec(), "65535 bytes exceed"),
        (b"\x93NUMPY\x01\x00\x40\x00{".to_vec(), "end too early"),
        (b"not an array".to_vec(), "magic"),
        (Vec::new(), "end too early"),
    ];
    for (pose, said) in poses {
        let error = complaint(&image, &pose);
        assert!(
            error.contains("f.npz") && error.contains("`pose`") && error.contains(said),
            "{said}: {error}"
        );
    }
    assert!(complaint(&image, &npy_of("<f8", "(1, 3)", &[0; 24])).contains("2 images, but 1 poses"));
    let images = [
        (npy_of("|u1", "(2, 0, 4, 3)", &[]), "4x0 pixels"),
        (npy_of("|u1", "(2, 4, 4, 4)", &[7; 128]), "is not (N, H, W, 3)"),
        (npy_of("|u1", "(2, 48)", &[7; 96]), "is not (N, H, W, 3)"),
        (npy_of("|u1", "(2, 5000, 1, 3)", &[7; 30_000]), "1x5000 pixels"),
        (npy_of("<f8", "(2, 4, 4, 3)", &[7; 768]), "is none of |u1"),
    ];
    for (image, said) in images {
        let error = complaint(&image, &pose);
        assert!(error.contains("`image`") && error.contains(said), "{said}: {error}");
    }
    let only = |name, bytes: &[u8]| complaint_about(&zip(&[(name, bytes)], CompressionMethod::Stored));
    assert!(only("image.npy", &image).contains("no array `pose`"));
    assert!(only("pose.npy", &pose).contains("no array `image`"));
    let sized = |descr, shape, data: &[u8]| {
        let size = npy_of(descr, shape, data);
        complaint_about(&zip(
            &[("image.npy", &image), ("pose.npy", &pose), ("img_size.npy", &size)],
            CompressionMethod::Stored,
        ))
    };
    assert!(sized("<i8", "()", &64u64.to_le_bytes()).contains("4x4 pixels, but `img_size` is 64"));
    assert!(sized("<i8", "(2,)", &[4; 16]).contains("not that of one number"));
    assert!(sized("<f8", "()", &4f64.to_le_bytes()).contains("`img_size`: type"));
}

#[test]
fn bombs_are_not_unpacked() {
    let count: usize = 1 << 20;
    let image = npy_of("|u1", &format!("({count}, 4, 4, 3)"), &vec![0; 48 * count]);
    let pose = npy_of("<f8", &format!("({count}, 3)"), &vec![0; 24 * count]);
    let bomb = zip(&[("image.npy", &image), ("pose.npy", &pose)], CompressionMethod::Deflated);
    assert!(bomb.len() < 200_000);
    assert!(complaint_about(&bomb).contains("more than 100 times"), "{}", complaint_about(&bomb));
    // Each array is within its ratio, but a face takes more than its one pixel and its pose.
    let mut poses = vec![0; 12 * count];
    poses.iter_mut().step_by(150).enumerate().for_each(|(at, byte)| *byte = ((at * at) >> 7) as u8 & 63);
    let image = npy_of("|u1", &format!("({count}, 1, 1, 3)"), &poses[..3 * count]);
    let pose = npy_of("<f4", &format!("({count}, 3)"), &poses);
    let many = zip(&[("image.npy", &image), ("pose.npy", &pose)], CompressionMethod::Deflated);
    assert!(
        complaint_about(&many).contains("1048576 faces take"),
        "{}: {}",
        many.len(),
        complaint_about(&many)
    );

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.npz");
    write_npz(&path, &faces()).unwrap();
    let options = NpzOptions { max_array_bytes: 300, ..NpzOptions::default() };
    assert!(read_npz(&path, &options).unwrap_err().to_string().contains("exceed the limit of 300"));
}

/// Writes `value` over the bytes at `at`, counted from the end if negative.
fn patch(bytes: &[u8], at: isize, value: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let start = if at < 0 { bytes.len() - at.unsigned_abs() } else { at.unsigned_abs() };
    bytes[start..start + value.len()].copy_from_slice(value);
    bytes
}

#[test]
fn archives_that_lie_are_errors() {
    let good = std::fs::read(golden("biwi/stored.npz")).unwrap();
    assert!(read_bytes(&good).is_ok());
    let directory = good.windows(4).position(|four| four == b"PK\x01\x02").unwrap() as isize;
    let cases = [
        (Vec::new(), "0 bytes are no zip archive"),
        (b"PK".to_vec(), "2 bytes are no zip archive"),
        (good[..good.len() - 1].to_vec(), "does not end as a zip archive"),
        (good[1..].to_vec(), "not where the end"),
        ([&[0][..], &good].concat(), "not where the end"),
        (vec![0; 4096], "does not end as a zip archive"),
        (patch(&good, -12, &[0xff, 0xff]), "a list of 65535 entries"),
        (patch(&good, -10, &[0xff; 4]), "4294967295 bytes is not"),
        (patch(&good, -6, &[0xff; 4]), "not where the end"),
        (patch(&good, -42, b"PK\x06\x07"), "zip64"),
        // The first entry's size, and its compressed size.
        (patch(&good, directory + 24, &[0xff, 0xff, 0xff, 0x7f]), "would unpack"),
        (patch(&good, directory + 20, &[0xff, 0xff, 0xff, 0x7f]), "in a file of"),
    ];
    for (bytes, said) in cases {
        let error = complaint_about(&bytes);
        assert!(error.contains(said), "{said}: {error}");
    }
    // One bit of the first image: only the checksum tells.
    let start = good.windows(2).position(|two| two == [7, 87]).unwrap();
    let flipped = patch(&good, start as isize, &[good[start] ^ 4]);
    assert!(complaint_about(&flipped).contains("damaged"), "{}", complaint_about(&flipped));
    assert!(matches!(read_npz(Path::new("absent.npz"), &NpzOptions::default()), Err(Error::Io { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn random_bytes_are_errors(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(read_bytes(&bytes).is_err());
    }

    #[test]
    fn mutations_never_panic(
        deflated: bool,
        places in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let name = if deflated { "biwi/deflated.npz" } else { "biwi/stored.npz" };
        let mut bytes = std::fs::read(golden(name)).unwrap();
        for (place, value) in places {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        // A mutation of a date or of a name's case changes nothing that is read.
        if let Ok(read) = read_bytes(&bytes) {
            prop_assert_eq!(read.faces, faces());
        }
    }

    #[test]
    fn any_header_is_read_or_refused(header in "\\PC{0,80}", data in 0usize..200) {
        let pose = npy(&header, &vec![0; data]);
        let image = npy_of("|u1", "(1, 1, 1, 3)", &[0; 3]);
        let bytes = zip(&[("image.npy", &image), ("pose.npy", &pose)], CompressionMethod::Stored);
        prop_assert!(read_bytes(&bytes).is_err());
    }
}
