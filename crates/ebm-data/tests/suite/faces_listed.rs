//! Faces with the angles that a list says.

use std::fs;
use std::path::Path;

use ebm_data::faces::{Faces, Tolerance, listed};
use ebm_data::quarantine::DefectCode;
use ebm_data::{Error, Result};

fn load(root: &Path, text: &str) -> Result<Faces> {
    let split = root.join("split.csv");
    fs::write(&split, text).unwrap();
    let tolerance = Tolerance { max_bad_fraction: 1.0, ..Tolerance::default() };
    listed::load(root, &split, &["pan", "tilt"], &tolerance)
}

#[test]
fn angles_are_read_by_the_names_of_their_columns() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.jpg", "b.jpg"] {
        fs::write(dir.path().join(name), name).unwrap();
    }
    let found = load(dir.path(), "tilt,more,file,pan\n-30,x,b.jpg,7.5\n0,y,a.jpg,-180\n").unwrap();
    let told: Vec<_> = found.faces.iter().map(|face| (face.name.as_str(), face.target.as_slice())).collect();
    assert_eq!(told, [("b.jpg", &[7.5, -30.0][..]), ("a.jpg", &[-180.0, 0.0])]);
    assert!(found.quarantine.defects.is_empty());
}

#[test]
fn each_bad_line_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.jpg"), "a").unwrap();
    let bad =
        "file,pan,tilt\na.jpg,1,2\na.jpg,1,2\n../a.jpg,1,2\nb.jpg,1,2\na.jpg,181,2\na.jpg,NaN,2\na.jpg,1,x\n";
    let found = load(dir.path(), bad).unwrap();
    let codes: Vec<_> = found.quarantine.defects.iter().map(|defect| defect.code).collect();
    use DefectCode::{BadAnnotation, DuplicateId, MissingFile};
    assert_eq!(codes, [DuplicateId, BadAnnotation, MissingFile, BadAnnotation, BadAnnotation, BadAnnotation]);
    assert_eq!(found.faces.len(), 1);
    for (text, part) in [("file,pan\na.jpg,1\n", "no column \"tilt\""), ("file,pan,tilt\n", "lists no file")]
    {
        let error = load(dir.path(), text).unwrap_err();
        assert!(matches!(error, Error::Data(..)) && error.to_string().contains(part), "{error}");
    }
}
