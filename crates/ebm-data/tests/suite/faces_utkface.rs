//! UTKFace: names, lists and directories, sound and defective.

use std::path::Path;

use crate::common::picture;
use ebm_data::Error;
use ebm_data::encode::write_jpeg;
use ebm_data::faces::utkface::{age_of_name, load, load_directory};
use ebm_data::faces::{Faces, Pixels, Tolerance};
use ebm_data::quarantine::DefectCode;

const ANY: Tolerance = Tolerance { max_bad_fraction: 1., report: None };

/// The faces of a list whose files are there.
fn load_text(text: &str, shift: Option<f32>, tolerance: &Tolerance) -> ebm_data::Result<Faces> {
    let dir = tempfile::tempdir().unwrap();
    let split = dir.path().join("split.csv");
    std::fs::write(&split, text).unwrap();
    let fields = text.split([',', '\n']);
    for name in fields.filter(|field| field.ends_with(".jpg") && !field.contains('/')) {
        std::fs::write(dir.path().join(name), b"x").unwrap();
    }
    load(dir.path(), &split, shift, tolerance)
}

fn ages(faces: &Faces) -> Vec<f32> {
    faces.faces.iter().map(|face| face.target[0]).collect()
}

#[test]
fn names_tell_ages() {
    let cases = [
        ("34_0_1_20170117163203851.jpg.chip.jpg", 34.),
        ("0_0_0_20170117163203851.jpg.chip.jpg", 0.),
        ("120_1_4_20170117163203851.jpg.chip.jpg", 120.),
        // The malformed names of the published split.
        ("24_0_1_20170116220224657 .jpg.chip.jpg", 24.),
        ("28_1_2_201701161846515488.jpg.chip.jpg", 28.),
        ("39_1_20170116174525125.jpg.chip.jpg", 39.),
        ("38_0_1_201701162330572788.jpg.chip.jpg", 38.),
        ("55_0_0_20170116232725357jpg.chip.jpg", 55.),
    ];
    for (name, age) in cases {
        assert_eq!(age_of_name(name).unwrap(), age, "{name}");
    }
    let bad = [
        "",
        "_0_1.jpg",
        "34.jpg",
        "face_34.jpg",
        "-3_0_1.jpg",
        "+3_0_1.jpg",
        "3.5_0_1.jpg",
        " 3_0.jpg",
        "121_0_1.jpg",
        "99999999999999999999999999999999999999999999_0.jpg",
        "٣_0_1.jpg",
    ];
    for name in bad {
        let error = age_of_name(name).unwrap_err();
        assert!(error.starts_with(name) && error.contains("AGE_GENDER_RACE_DATE"), "{name}: {error}");
    }
}

#[test]
fn the_label_is_the_age_or_the_age_minus_21() {
    let published = ",file,age\n1,36_0_1_2.jpg,15\n3,26_1_0_2.jpg,5\n7,39_1_2017.jpg,18\n";
    let plain = "file,age\n36_0_1_2.jpg,36\n26_1_0_2.jpg,26\n39_1_2017.jpg,39\n";
    for text in [published, plain] {
        let faces = load_text(text, None, &Tolerance::default()).unwrap();
        assert_eq!(ages(&faces), [36., 26., 39.]);
        assert_eq!(faces.faces[0].name, "36_0_1_2.jpg");
        let Pixels::File(path) = &faces.faces[0].pixels else { unreachable!() };
        assert!(path.ends_with("36_0_1_2.jpg"));
        assert!(faces.quarantine.defects.is_empty());
    }
}

#[test]
fn a_forced_shift_needs_no_ages_in_names() {
    let text = "age,file\n15,7_a.jpg\n4.5,b.jpg\n";
    let with = |shift| load_text(text, Some(shift), &ANY);
    assert_eq!(ages(&with(21.).unwrap()), [36., 25.5]);
    assert_eq!(ages(&with(0.).unwrap()), [15., 4.5]);
    assert!(matches!(with(f32::NAN), Err(Error::Argument { name: "shift", .. })));
    // 7_a.jpg alone would tell an age, which 15 fits under neither convention.
    let error = load_text(text, None, &ANY).unwrap_err().to_string();
    assert!(error.contains("of 1 names") && error.contains("0 agree"), "{error}");
    let error = load_text("file,age\na.jpg,1\n", None, &ANY).unwrap_err().to_string();
    assert!(error.contains("split.csv") && error.contains("set `shift` to 0"), "{error}");
}

#[test]
fn a_list_that_fits_neither_convention_is_an_error_that_says_so() {
    let mut text = "file,age\n30_0_1_2.jpg,30\n31_0_1_2.jpg,10\n".to_owned();
    (40..44).for_each(|age| text += &format!("{age}_0_1_2.jpg,{}\n", age - 20));
    let error = load_text(&text, None, &ANY).unwrap_err();
    assert!(matches!(error, Error::Data(..)));
    let error = error.to_string();
    for said in ["of 6 names", "1 agree with a label that is the age", "1 with one"] {
        assert!(error.contains(said), "{said}: {error}");
    }
}

#[test]
fn every_defect_has_its_code() {
    use DefectCode::*;
    let cases = [
        ("30_0_1_2.jpg,x", BadAnnotation),
        ("30_0_1_2.jpg,", BadAnnotation),
        ("30_0_1_2.jpg,NaN", BadAnnotation),
        ("30_0_1_2.jpg,inf", BadAnnotation),
        ("30_0_1_2.jpg,1e30", BadAnnotation),
        ("noage.jpg,9", BadAnnotation),
        ("130_0_1_2.jpg,109", BadAnnotation),
        ("30_0_1_2.jpg,30", BadAnnotation),
        ("../30_0_1_2.jpg,9", BadAnnotation),
        ("/30_0_1_2.jpg,9", BadAnnotation),
        (",9", BadAnnotation),
        ("50_0_1_2.jpg,29", DuplicateId),
    ];
    for (line, code) in cases {
        let text = format!("file,age\n50_0_1_2.jpg,29\n51_0_1_2.jpg,30\n{line}\n52_0_1_2.jpg,31\n");
        let faces = load_text(&text, None, &ANY).unwrap();
        let [defect] = &faces.quarantine.defects[..] else { panic!("{line}: {:?}", faces.quarantine) };
        assert_eq!(defect.code, code, "{line}: {defect}");
        assert!(defect.file.ends_with("split.csv") && line.starts_with(&defect.sample));
        assert_eq!(ages(&faces), [50., 51., 52.]);
        let strict = load_text(&text, None, &Tolerance::default());
        assert!(matches!(strict, Err(Error::TooManyDefects { bad: 1, total: 4, .. })));
    }
}

#[test]
fn files_that_are_no_list_are_errors() {
    let cases = [
        ("", "no column \"file\""),
        ("file,age\n", "lists no file"),
        ("name,age\na,1\n", "no column \"file\""),
        ("file,label\na,1\n", "no column \"age\""),
        ("file,age,age\na,1,2\n", "several columns \"age\""),
        ("file,age\n30_0_1_2.jpg\n", "line: 2"),
        ("file,age\n30_0_1_2.jpg,9,9\n", "line: 2"),
    ];
    for (text, said) in cases {
        let error = load_text(text, None, &ANY).unwrap_err();
        assert!(matches!(error, Error::Data(..)), "{error}");
        assert!(error.to_string().contains(said), "{text}: {error}");
    }
    let missing = load(Path::new("images"), Path::new("absent/split.csv"), None, &ANY);
    assert!(matches!(missing, Err(Error::Io { .. })));
    let latin1 = load_bytes(b"file,age\n30_\xe4.jpg,9\n");
    assert!(matches!(latin1, Err(Error::Data(..))));
}

fn load_bytes(bytes: &[u8]) -> ebm_data::Result<Faces> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("split.csv"), bytes).unwrap();
    load(Path::new("images"), &dir.path().join("split.csv"), None, &ANY)
}

#[test]
fn missing_images_are_quarantined_up_to_the_tolerated_fraction() {
    let dir = tempfile::tempdir().unwrap();
    let split = dir.path().join("split.csv");
    let names: Vec<_> = (30..40).map(|age| format!("{age}_0_1_2.jpg")).collect();
    let lines: String = (30..40).map(|age| format!("{age}_0_1_2.jpg,{}\n", age - 21)).collect();
    std::fs::write(&split, format!("file,age\n{lines}")).unwrap();
    names.iter().skip(2).for_each(|name| std::fs::write(dir.path().join(name), b"x").unwrap());
    let report = dir.path().join("defects.jsonl");
    let mut tolerance = Tolerance { max_bad_fraction: 0.2, report: Some(report.clone()) };
    let faces = load(dir.path(), &split, None, &tolerance).unwrap();
    assert_eq!((faces.faces.len(), faces.quarantine.counts()[&DefectCode::MissingFile]), (8, 2));
    assert_eq!(std::fs::read_to_string(report).unwrap().lines().count(), 2);
    tolerance.max_bad_fraction = 0.1;
    let error = load(dir.path(), &split, None, &tolerance).unwrap_err();
    assert!(matches!(error, Error::TooManyDefects { bad: 2, total: 10, .. }), "{error}");
    tolerance.max_bad_fraction = -1.;
    assert!(matches!(load(dir.path(), &split, None, &tolerance), Err(Error::Argument { .. })));
}

#[test]
fn a_directory_is_read_by_name() {
    let dir = tempfile::tempdir().unwrap();
    for name in
        ["9_0_1_2.png", "31_0_1_2.jpg.chip.jpg", "31_0_0_2.JPG", "noage.jpg", "7_readme.txt", "130_0.jpeg"]
    {
        std::fs::write(dir.path().join(name), b"x").unwrap();
    }
    std::fs::create_dir(dir.path().join("8_folder.jpg")).unwrap();
    let faces = load_directory(dir.path(), &ANY).unwrap();
    let names: Vec<_> = faces.faces.iter().map(|face| face.name.as_str()).collect();
    assert_eq!(names, ["31_0_0_2.JPG", "31_0_1_2.jpg.chip.jpg", "9_0_1_2.png"]);
    assert_eq!(ages(&faces), [31., 31., 9.]);
    assert_eq!(faces.faces[2].pixels, Pixels::File(dir.path().join("9_0_1_2.png")));
    assert_eq!(faces.quarantine.counts()[&DefectCode::BadAnnotation], 2);
    assert!(matches!(load_directory(dir.path(), &Tolerance::default()), Err(Error::TooManyDefects { .. })));
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(load_directory(empty.path(), &Tolerance::default()), Err(Error::Data(..))));
}

/// The layout of the published split: an index, the name and the age less 21, with a name that has a space
/// and one that lacks a part.
#[test]
fn a_split_as_published_lists_what_its_directory_has() {
    let dir = tempfile::tempdir().unwrap();
    let names = [
        "21_0_0_20170102233225196.jpg.chip.jpg",
        "24_0_1_20170116220224657 .jpg.chip.jpg",
        "39_1_20170116174525125.jpg.chip.jpg",
        "60_1_3_20170119165539693.jpg.chip.jpg",
    ];
    let mut text = ",file,age\n".to_owned();
    for (line, (name, label)) in names.iter().zip([0, 3, 18, 39]).enumerate().rev() {
        write_jpeg(&dir.path().join("images").join(name), &picture(20, 20), 90).unwrap();
        text += &format!("{},{name},{label}\n", 2 * line + 1);
    }
    let split = dir.path().join("utk_train.csv");
    std::fs::write(&split, text).unwrap();
    let mut listed = load(&dir.path().join("images"), &split, None, &Tolerance::default()).unwrap();
    assert_eq!((ages(&listed), listed.quarantine.defects.len()), (vec![60., 39., 24., 21.], 0));
    let all = load_directory(&dir.path().join("images"), &Tolerance::default()).unwrap();
    listed.faces.reverse();
    assert_eq!(all.faces, listed.faces);
}
