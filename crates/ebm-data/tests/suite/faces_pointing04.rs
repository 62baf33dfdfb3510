//! Pointing'04, made here in its layout.

use std::path::Path;

use ebm_data::Error;
use ebm_data::Image;
use ebm_data::encode::write_png;
use ebm_data::faces::pointing04::load;
use ebm_data::faces::split::{Split, folder_of};
use ebm_data::faces::{Faces, Pixels, Tolerance};
use ebm_data::quarantine::DefectCode;
use tempfile::TempDir;

const BOX: &str = "person01146+0+0.jpg\n\nFace\n40\n30\n20\n10\n";

/// A photograph of 80 × 60 pixels with its box.
fn photograph(root: &Path, name: &str, text: Option<&str>) {
    let path = root.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    write_png(&path, &Image::filled(80, 60, [90; 3]).unwrap()).unwrap();
    if let Some(text) = text {
        std::fs::write(path.with_extension("txt"), text).unwrap();
    }
}

/// Two photographs of each of six people, and what else lies there.
fn folder() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for person in 1..=6 {
        for (number, pose) in ["+0-90", "-15+30"].iter().enumerate() {
            photograph(
                dir.path(),
                &format!("Person{person:02}/person{person:02}1{number:02}{pose}.png"),
                Some(BOX),
            );
        }
    }
    photograph(dir.path(), "Front/personne01146+0+0.png", None);
    std::fs::write(dir.path().join("README.txt"), "text").unwrap();
    dir
}

fn read(dir: &Path, max_bad_fraction: f64) -> ebm_data::Result<Faces> {
    let tolerance = Tolerance { max_bad_fraction, report: None };
    load(dir, 2., &tolerance)
}

#[test]
fn photographs_have_pan_tilt_and_a_square_about_the_box() {
    let dir = folder();
    let faces = read(dir.path(), 0.).unwrap().faces;
    assert_eq!(faces.len(), 12);
    let names = ["Person01/person01100+0-90", "Person01/person01101-15+30"];
    for (face, (name, target)) in faces.iter().zip(names.into_iter().zip([[-90., 0.], [30., -15.]])) {
        assert_eq!((face.name.as_str(), &face.target[..]), (name, &target[..]));
        let path = dir.path().join(format!("{name}.png"));
        // Twice the longer side about (40, 30).
        assert_eq!(face.pixels, Pixels::Region { path, region: [20, 10, 60, 50] });
    }
}

#[test]
fn what_is_wrong_with_a_photograph_is_named() {
    let boxed = |numbers: &str| Some(format!("a\n\nFace\n{numbers}\n"));
    let cases = [
        ("Person01/photo.png", Some(BOX.to_owned()), DefectCode::BadAnnotation, "form person01146+15-30"),
        ("Person01/person0114+0+0.png", Some(BOX.to_owned()), DefectCode::BadAnnotation, "form"),
        ("Person01/person01146+0.png", Some(BOX.to_owned()), DefectCode::BadAnnotation, "form"),
        ("Person01/person01146+0+100.png", Some(BOX.to_owned()), DefectCode::BadAnnotation, "\"+100\""),
        ("Person01/person01146+-+9.png", Some(BOX.to_owned()), DefectCode::BadAnnotation, "no angle"),
        ("Person01/person02146+0+0.png", Some(BOX.to_owned()), DefectCode::BadAnnotation, "another person"),
        ("Person01/person01146+0+0.png", None, DefectCode::BadAnnotation, "person01146+0+0.txt"),
        (
            "Person01/person01146+0+0.png",
            Some("40 30 20 10".into()),
            DefectCode::BadAnnotation,
            "four numbers",
        ),
        ("Person01/person01146+0+0.png", boxed("40 30 20"), DefectCode::BadAnnotation, "four numbers"),
        ("Person01/person01146+0+0.png", boxed("40 NaN 20 10"), DefectCode::BadAnnotation, "four numbers"),
        ("Person01/person01146+0+0.png", boxed("40 30 0 10"), DefectCode::BadBox, "is empty"),
        ("Person01/person01146+0+0.png", boxed("95 30 20 10"), DefectCode::BadBox, "80x60"),
        ("Person01/person01146+0+0.png", boxed("40 30 900 10"), DefectCode::BadBox, "80x60"),
    ];
    for (name, text, code, said) in cases {
        let dir = folder();
        photograph(dir.path(), name, text.as_deref());
        let faces = read(dir.path(), 1.).unwrap();
        let defects = &faces.quarantine.defects;
        assert_eq!((faces.faces.len(), defects.len()), (12, 1), "{name}");
        assert!(defects[0].code == code && defects[0].detail.contains(said), "{}", defects[0]);
        assert!(matches!(read(dir.path(), 0.), Err(Error::TooManyDefects { bad: 1, total: 13, .. })));
    }
    let dir = folder();
    std::fs::write(dir.path().join("Person01/person01100+0-90.png"), "no image").unwrap();
    assert_eq!(read(dir.path(), 1.).unwrap().quarantine.defects[0].code, DefectCode::UnreadableImage);
}

#[test]
fn other_folders_and_options_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let message = read(dir.path(), 0.).unwrap_err().to_string();
    assert!(message.contains("Person01") && message.contains(&dir.path().display().to_string()), "{message}");
    assert!(matches!(read(&dir.path().join("none"), 0.), Err(Error::Io { .. })));
    for scale in [0., -1., f64::NAN, f64::INFINITY] {
        let refused = load(dir.path(), scale, &Tolerance::default());
        assert!(matches!(refused, Err(Error::Argument { name: "scale", .. })));
    }
}

#[test]
fn every_person_is_in_the_test_part_of_one_fold() {
    let dir = folder();
    let faces = read(dir.path(), 0.).unwrap();
    let names: Vec<&str> = faces.faces.iter().map(|face| face.name.as_str()).collect();
    let folds = Split::whole("train", &names, 7).unwrap().folds("train", "test", 4, folder_of).unwrap();
    let mut tested: Vec<String> = Vec::new();
    for fold in &folds {
        let people = |part: &str| -> Vec<&str> {
            fold.part(part).unwrap().iter().map(|name| folder_of(name)).collect()
        };
        assert!(people("test").iter().all(|person| !people("train").contains(person)));
        assert_eq!(fold.part("test").unwrap().len() + fold.part("train").unwrap().len(), 12);
        tested.extend(fold.part("test").unwrap().iter().cloned());
    }
    // Six people in four folds: two, two, one, one.
    assert_eq!(folds.iter().map(|fold| fold.part("test").unwrap().len()).collect::<Vec<_>>(), [4, 4, 2, 2]);
    tested.sort();
    assert_eq!(tested, names);
    let refused = |count| Split::whole("train", &names, 7).unwrap().folds("train", "test", count, folder_of);
    assert!(refused(1).is_err() && refused(7).is_err());
}
