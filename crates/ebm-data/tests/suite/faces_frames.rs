//! BIWI's raw frames, made here in its layout: no frame of it may be shared.

use std::path::{Path, PathBuf};

use ebm_data::Error;
use ebm_data::faces::biwi::{SIDE_MM, load_frames};
use ebm_data::faces::{Faces, Pixels, Tolerance};
use ebm_data::quarantine::DefectCode;
use tempfile::TempDir;

/// The layout of `rgb.cal`; blank lines and spaces at the ends of lines as in the published files.
const CALIBRATION: &str =
    "500 0 320 \n0 500 240 \n0 0 1 \n\n0 0 0 0 \n\n1 0 0 \n0 1 0 \n0 0 1 \n\n-20 0 0 \n\n640 480 \n";
/// A head turned by 30 degrees of yaw, 1 m before the depth camera.
const POSE: &str = "0.866025 0 0.5 \n0 1 0 \n-0.5 0 0.866025 \n\n20 100 1000 \n";

fn write(path: PathBuf, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Two recordings of two frames each, and what else lies there.
fn hpdb() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for recording in ["02", "01"] {
        let folder = dir.path().join(recording);
        write(folder.join("rgb.cal"), CALIBRATION);
        write(folder.join("depth.cal"), CALIBRATION);
        for frame in ["frame_00010", "frame_00003"] {
            write(folder.join(format!("{frame}_pose.txt")), POSE);
            write(folder.join(format!("{frame}_rgb.png")), "image");
            write(folder.join(format!("{frame}_depth.bin")), "depth");
        }
    }
    write(dir.path().join("01.obj"), "head");
    write(dir.path().join("readme.txt"), "text");
    write(dir.path().join("masks/frame_00003_pose.txt"), "no recording");
    std::fs::create_dir(dir.path().join("03")).unwrap();
    dir
}

fn load(dir: &Path, max_bad_fraction: f64) -> ebm_data::Result<Faces> {
    let tolerance = Tolerance { max_bad_fraction, report: None };
    load_frames(dir, SIDE_MM, &tolerance)
}

#[test]
fn frames_are_read_in_order_with_pose_and_crop() {
    let dir = hpdb();
    let read = load_frames(dir.path(), SIDE_MM, &Tolerance::default()).unwrap();
    assert!(read.quarantine.defects.is_empty(), "{:?}", read.quarantine);
    let names: Vec<_> = read.faces.iter().map(|face| face.name.as_str()).collect();
    assert_eq!(names, ["01/frame_00003", "01/frame_00010", "02/frame_00003", "02/frame_00010"]);
    for face in &read.faces {
        let [yaw, pitch, roll] = face.target[..] else { panic!("{face:?}") };
        assert!((yaw - 30.).abs() < 1e-4 && pitch == 0. && roll == 0., "{:?}", face.target);
        // The head is at (0, 100, 1000) mm of the colour camera; 300 mm are 150 pixels.
        let path = dir.path().join(format!("{}_rgb.png", face.name));
        assert_eq!(face.pixels, Pixels::Region { path, region: [245, 215, 395, 365] });
    }
    let read = load_frames(dir.path(), 200., &Tolerance::default()).unwrap();
    assert!(matches!(read.faces[0].pixels, Pixels::Region { region: [270, 240, 370, 340], .. }));
}

#[test]
fn every_defect_has_its_code() {
    use DefectCode::*;
    let large = format!("{POSE}{}", " ".repeat(20_000));
    let cases = [
        (POSE.replace("0 1 0", "0 1.01 0"), BadAnnotation, "rows 2 and 2"),
        (POSE.replace("0 1 0", "0 -1 0"), BadAnnotation, "determinant is -"),
        (POSE.replace("0 1 0", "0 0 0"), BadAnnotation, "instead of 1"),
        (POSE.replace("0 1 0", "0 nan 0"), BadAnnotation, "\"nan\" is no finite number"),
        (POSE.replace("0 1 0", "0 1"), BadAnnotation, "four rows"),
        (POSE.replace("20 100 1000", ""), BadAnnotation, "four rows"),
        (format!("{POSE}1 2 3\n"), BadAnnotation, "four rows"),
        (format!("{POSE}1\n"), BadAnnotation, "four rows"),
        (String::new(), BadAnnotation, "four rows"),
        ("\u{fffd} pose".to_owned(), BadAnnotation, "no finite number"),
        (large, BadAnnotation, "exceed the limit"),
        (POSE.replace("1000", "-1000"), BadBox, "-1000 mm"),
        (POSE.replace("20 100", "2000 100"), BadBox, "of 640x480 pixels"),
    ];
    for (pose, code, said) in cases {
        let dir = hpdb();
        let path = dir.path().join("02/frame_00003_pose.txt");
        write(path.clone(), &pose);
        let read = load(dir.path(), 0.25).unwrap();
        let [defect] = &read.quarantine.defects[..] else { panic!("{pose}: {:?}", read.quarantine) };
        assert_eq!((defect.code, &defect.file, defect.sample.as_str()), (code, &path, "02/frame_00003"));
        assert!(defect.detail.contains(said), "{said}: {defect}");
        assert_eq!(read.faces.len(), 3);
        assert!(matches!(load(dir.path(), 0.2), Err(Error::TooManyDefects { bad: 1, total: 4, .. })));
    }
    let dir = hpdb();
    for name in ["01/frame_00003_rgb.png", "02/frame_00010_pose.txt"] {
        std::fs::remove_file(dir.path().join(name)).unwrap();
    }
    let defects = load(dir.path(), 0.5).unwrap().quarantine.defects;
    assert_eq!(defects.iter().map(|defect| defect.code).collect::<Vec<_>>(), [MissingFile; 2]);
    assert!(defects[0].detail.ends_with("01/frame_00003_rgb.png"));
    assert!(defects[1].detail.ends_with("02/frame_00010_pose.txt"));
}

#[test]
fn folders_that_are_not_biwi_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let error = load(dir.path(), 0.).unwrap_err();
    assert!(
        matches!(error, Error::Format { .. }) && error.to_string().contains("no folder such as 01"),
        "{error}"
    );
    assert!(matches!(load(&dir.path().join("absent"), 0.), Err(Error::Io { .. })));
    let dir = hpdb();
    write(dir.path().join("01/rgb.cal"), "500 0 320\n");
    let error = load(dir.path(), 0.).unwrap_err();
    assert!(matches!(error, Error::Format { .. }) && error.to_string().contains("01/rgb.cal"), "{error}");
    std::fs::remove_file(dir.path().join("01/rgb.cal")).unwrap();
    assert!(matches!(load(dir.path(), 0.), Err(Error::Io { .. })));
    for side_mm in [0., -1., f64::NAN, f64::INFINITY] {
        let refused = load_frames(dir.path(), side_mm, &Tolerance::default());
        assert!(matches!(refused, Err(Error::Argument { name: "side_mm", .. })));
    }
}
