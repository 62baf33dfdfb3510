//! UTKFace: images of one face each; the name of the file contains the age.
//!
//! Cao, Mirjalili and Raschka published the split that the paper uses: 13 147 training images and 3 287 test
//! images, ages 21 to 60, as two CSV files whose label is the age minus 21. Here the target is the age itself.

use std::path::Path;

use super::listed::{Row, faces_of_rows, read_rows};
use super::{Face, Faces, Pixels, Tolerance};
use crate::error::{Error, Result};
use crate::files::files_in;
use crate::quarantine::{DefectCode, Finding};

/// Largest plausible age, in years.
const MAX_AGE: f32 = 120.;
/// Name of the list in error messages.
const LIST: &str = "a list of files and ages";
/// Numbers that may have to be added to a label to get the age, one per known convention.
const SHIFTS: [f32; 2] = [0., 21.];

/// Parses the age in years from a file name, such as 34 from `34_0_1_20170117163203851.jpg.chip.jpg`.
///
/// Only the number before the first `_` is read, because some of the published names lack the race or a dot, or
/// have an extra space or digit.
///
/// # Errors
/// A description, for a name that does not begin with a whole number and `_`, or an age outside 0 to 120.
pub fn age_of_name(name: &str) -> std::result::Result<f32, String> {
    let form = "UTKFace's names are AGE_GENDER_RACE_DATE.jpg.chip.jpg, with an age of 0 to 120 years";
    let fail = |detail: String| format!("{name}: {detail}; {form}");
    let digits = name.split_once('_').map(|(digits, _)| digits).unwrap_or_default();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(fail("no age before the first '_'".to_owned()));
    }
    let age = digits.parse::<f32>().map_err(|error| fail(error.to_string()))?;
    check_age(age).map_err(fail)
}

/// Reads the faces that the CSV file `split` lists, in its order, with images in the directory `images`.
///
/// The header of the file has the columns `file` and `age`; other columns, such as the published files' row
/// numbers, are ignored. The label under `age` is the age minus `shift`. With `None` the shift is 0 or 21,
/// whichever makes the labels agree with the names, and each name must contain the age. With a number, names are
/// not parsed. Targets are ages in years.
///
/// An entry is defective if its label is no number, its age is outside 0 to 120, or its file is listed twice or
/// missing. Without a given shift it is also defective if its name has no age or contradicts the label.
///
/// # Errors
/// [`Error::Io`] and [`Error::Data`] for a file that is unreadable, has another format, is empty, or agrees with
/// its names under neither convention; [`Error::TooManyDefects`] above the tolerated fraction;
/// [`Error::Argument`] for a shift or a tolerated fraction outside its domain.
pub fn load(images: &Path, split: &Path, shift: Option<f32>, tolerance: &Tolerance) -> Result<Faces> {
    let rows = read_rows(split, &["age"], LIST)?;
    if let Some(shift) = shift.filter(|shift| !shift.is_finite()) {
        return Err(Error::Argument { name: "shift", detail: format!("{shift} is no finite number") });
    }
    let told = || tell_shift(&rows).map_err(|detail| Error::format(split, LIST, detail));
    let added = shift.map_or_else(told, Ok)?;
    let target = |row: &Row| {
        let label = label(row)?;
        let age = check_age(label + added)?;
        if shift.is_none() && age_of_name(&row.file)? != age {
            return Err(format!("label {label} is age {age}, the name {} tells another", row.file));
        }
        Ok(vec![age])
    };
    faces_of_rows((split, &rows), images, target, tolerance)
}

/// Reads every JPEG and PNG file of the directory `images`, sorted by name, with the age in its name.
///
/// Other files and subdirectories are ignored. A name without an age, or with one outside 0 to 120, is a defect.
///
/// # Errors
/// [`Error::Io`] for a directory that cannot be read, [`Error::Data`] for one without images,
/// [`Error::TooManyDefects`] above the tolerated fraction, [`Error::Argument`] for a tolerated fraction outside
/// its domain.
pub fn load_directory(images: &Path, tolerance: &Tolerance) -> Result<Faces> {
    let mut collected = Faces::default();
    let paths = files_in(images, &["jpg", "jpeg", "png"])?;
    if paths.is_empty() {
        let detail = "it holds no JPEG or PNG file".to_owned();
        return Err(Error::format(images, "a directory of faces", detail));
    }
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let outcome = match age_of_name(&name) {
            Ok(age) => Ok(Face { name: name.clone(), pixels: Pixels::File(path), target: vec![age] }),
            Err(detail) => Err(Finding::new(DefectCode::BadAnnotation, detail)),
        };
        collected.push(images, &name, outcome);
    }
    collected.check_tolerance(tolerance)
}

/// Parses the label of a row.
fn label(row: &Row) -> std::result::Result<f32, String> {
    let label = row.numbers[0].trim().parse::<f32>().ok().filter(|label| label.is_finite());
    label.ok_or_else(|| format!("label {:?} is no number", row.numbers[0]))
}

/// Returns the shift under which more than half of the labels agree with the names. The error describes what was
/// found.
fn tell_shift(rows: &[Row]) -> std::result::Result<f32, String> {
    let told = |row: &Row| Some(age_of_name(&row.file).ok()? - label(row).ok()?);
    let told: Vec<f32> = rows.iter().filter_map(told).collect();
    let fitting = SHIFTS.map(|shift| told.iter().filter(|difference| **difference == shift).count());
    let found = SHIFTS.into_iter().zip(fitting).find(|(_, fitting)| 2 * fitting > told.len());
    found.map(|(shift, _)| shift).ok_or_else(|| {
        let [ages, shifted] = fitting;
        format!(
            "of {} names that tell an age, {ages} agree with a label that is the age and {shifted} with one that is \
             the age minus 21; set `shift` to 0 if labels are ages, to 21 if they are ages minus 21",
            told.len()
        )
    })
}

fn check_age(age: f32) -> std::result::Result<f32, String> {
    if (0. ..=MAX_AGE).contains(&age) { Ok(age) } else { Err(format!("age {age} is outside 0 to 120")) }
}
