//! FSA-Net's npz files: NumPy's own, damaged ones, and ones that hold something else.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use ebm_data::Image;
use ebm_data::faces::{Face, Pixels, Tolerance};
use ebm_data::quarantine::DefectCode;
use ebm_face::{Error, biwi::read_npz};

const SIDE: usize = 8;

fn golden(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../ebm-data/tests/golden/biwi")).join(name)
}

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
        let pixels = Pixels::Memory(Arc::new(Image::new(SIDE, SIDE, pixels).unwrap()));
        let angle = n as f32;
        Face { name: format!("{n:06}"), pixels, target: vec![10.5 * angle, -3.25 * angle, 0.125 - angle] }
    };
    (0..5).map(face).collect()
}

#[test]
fn numpys_files_are_read() {
    for name in ["stored.npz", "deflated.npz"] {
        let read = read_npz(&golden(name), &Tolerance::default()).unwrap();
        assert_eq!((read.faces, read.quarantine.defects.len()), (faces(), 0), "{name}");
    }
    let tolerance = |max_bad_fraction| Tolerance { max_bad_fraction, report: None };
    let read = read_npz(&golden("bad_poses.npz"), &tolerance(0.4)).unwrap();
    let [a, _, c, _, e] = faces().try_into().unwrap();
    assert_eq!(read.faces, [a, c, e]);
    let defects = read.quarantine.defects;
    assert!(defects.iter().all(|defect| defect.code == DefectCode::BadAnnotation), "{defects:?}");
    assert!(defects[0].sample == "000001" && defects[0].detail.contains("roll NaN"), "{}", defects[0]);
    assert!(defects[1].sample == "000003" && defects[1].detail.contains("yaw 181"), "{}", defects[1]);
    let error = read_npz(&golden("bad_poses.npz"), &tolerance(0.3)).unwrap_err();
    assert!(
        matches!(error, Error::Data(ebm_data::Error::TooManyDefects { bad: 2, total: 5, .. })),
        "{error}"
    );
}

#[test]
fn other_files_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.npz");
    let said = |path: &Path| match read_npz(path, &Tolerance::default()) {
        Err(Error::Data(error @ ebm_data::Error::Data(..))) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(said(&golden("fortran.npz")).contains("fortran"));
    assert!(said(&golden("pickled.npz")).contains("`image`"));
    assert!(said(dir.path()).contains("no regular file"));
    assert!(matches!(read_npz(&path, &Tolerance::default()), Err(Error::Data(ebm_data::Error::Io { .. }))));
    let bytes = std::fs::read(golden("deflated.npz")).unwrap();
    for length in 0..bytes.len() {
        std::fs::write(&path, &bytes[..length]).unwrap();
        assert!(said(&path).contains("f.npz"), "{length}");
    }
    let zeros = |shape: &[usize], dtype| Tensor::zeros(shape, dtype, &Device::Cpu).unwrap();
    let cases = [
        (&[2, 4, 4, 3][..], &[3, 3][..], "3 poses"),
        (&[2, 4, 4, 4], &[2, 3], "[2, 4, 4, 4]"),
        (&[2, 48], &[2, 3], "rank"),
        (&[2, 4, 4, 3], &[2, 2], "not (N, 3)"),
        (&[0, 4, 4, 3], &[0, 3], "0 poses"),
    ];
    for (image, pose, part) in cases {
        let arrays = [("image", zeros(image, DType::U8)), ("pose", zeros(pose, DType::F64))];
        Tensor::write_npz(&arrays, &path).unwrap();
        assert!(said(&path).contains(part), "{part}: {}", said(&path));
    }
    Tensor::write_npz(&[("pose", zeros(&[2, 3], DType::F64))], &path).unwrap();
    assert!(said(&path).contains("`image`"), "{}", said(&path));
}
